"""A registered function, ready to be called by the engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from holdfast.model.job_type import JobType

#: `(ctx, call_next)`: does what it likes around `call_next()`, whose result it returns; `async` around async handlers
Middleware = Callable[[Any, Callable[[], Any]], Any]
#: `(context, arguments)` to what a function returns, through its middleware
Invoke = Callable[[Any, Mapping[str, Any]], Any]


class Place(Enum):
    """Where a handler runs."""

    LOOP = "on the event loop"
    THREAD = "in a thread"
    PROCESS = "in a process of its own"


@dataclass(frozen=True, slots=True)
class Handler:
    """A job type with the function that does its work.

    - `batch`: how many jobs one call may take; None for one by one.
    - `middleware`: around every attempt, the first outermost.
    """

    job_type: JobType
    function: Callable[..., Any]
    executor: str = "auto"
    batch: int | None = None
    middleware: tuple[Middleware, ...] = ()
    is_async: bool = field(init=False)
    place: Place = field(init=False)
    needs_context: bool = field(init=False)
    invoke: Invoke = field(init=False)

    def __post_init__(self) -> None:
        is_async = inspect.iscoroutinefunction(self.function)
        place = Place.PROCESS if self.executor == "process" else Place.LOOP if is_async else Place.THREAD
        wants_context = self.job_type.signature.wants_context
        object.__setattr__(self, "is_async", is_async)
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "needs_context", wants_context or bool(self.middleware))
        object.__setattr__(self, "invoke", _invocation(self.function, self.middleware, wants_context=wants_context))


def _invocation(function: Callable[..., Any], middleware: tuple[Middleware, ...], *, wants_context: bool) -> Invoke:
    """Put together once, so that an attempt pays for its own middleware and nothing else."""
    if wants_context:

        def invoke(context: Any, arguments: Mapping[str, Any], /) -> Any:
            return function(context, **arguments)

    else:

        def invoke(context: Any, arguments: Mapping[str, Any], /) -> Any:  # noqa: ARG001 - as above
            return function(**arguments)

    for around in reversed(middleware):
        invoke = _around(around, invoke)
    return invoke


def _around(middleware: Middleware, inner: Invoke) -> Invoke:
    def invoke(context: Any, arguments: Mapping[str, Any], /) -> Any:
        return middleware(context, partial(inner, context, arguments))

    return invoke
