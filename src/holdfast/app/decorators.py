"""The types of what `app.job(…)` returns: from a handler's signature to that of its handle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Concatenate, ParamSpec, Protocol, TypeVar, overload

from holdfast.app.job_handle import JobHandle
from holdfast.worker import Batch, Context, SyncBatch, SyncContext

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class JobDecorator(Protocol):
    """The typed decorator that `app.job(…)` returns."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Awaitable[R]], /) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncContext, P], R], /) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> JobHandle[P, R]: ...


class BatchDecorator(Protocol):
    """The same for `app.job(batch=…)`: jobs are enqueued with what is in the batch."""

    @overload
    def __call__(self, fn: Callable[[Batch[T]], Awaitable[None]], /) -> JobHandle[[T], None]: ...
    @overload
    def __call__(self, fn: Callable[[Batch[T]], Awaitable[Sequence[R | Exception]]], /) -> JobHandle[[T], R]: ...
    @overload
    def __call__(self, fn: Callable[[SyncBatch[T]], None], /) -> JobHandle[[T], None]: ...
    @overload
    def __call__(self, fn: Callable[[SyncBatch[T]], Sequence[R | Exception]], /) -> JobHandle[[T], R]: ...
