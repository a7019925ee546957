"""The steps of one run: which names were used, and how results are kept."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import DuplicateStep
from holdfast.model.identifiers import checked_name
from holdfast.model.payload import DEFAULT_LIMIT, PayloadCodec


class Steps:
    """Names are a job's own, and used once in a run: by them the next attempt finds the results."""

    def __init__(self, job_id: str, limit: int = DEFAULT_LIMIT) -> None:
        self._job_id = job_id
        self._limit = limit
        self._used: set[str] = set()
        #: those of them that were left to a transaction of the handler's, which may have been rolled back
        self._tentative: set[str] = set()

    def use(self, name: str) -> None:
        """Note the name."""
        checked_name("step", name)
        if name in self._used:
            raise DuplicateStep(self._job_id, name)
        self._used.add(name)

    def begin(self, name: str, fn: Callable[..., object]) -> PayloadCodec[Any]:
        """Note the name; returns what stores and reads the result, by the type that the function says it returns."""
        self.use(name)
        return self.codec(name, fn)

    @contextmanager
    def begin_in_transaction(self, name: str, fn: Callable[..., object]) -> Iterator[tuple[PayloadCodec[Any], bool]]:
        """Around a step in a transaction: after it the name may come again, and then the second value is true.

        Who gets that has to look whether the first one was saved.
        """
        with self.use_in_transaction(name) as is_repeated:
            yield self.codec(name, fn), is_repeated

    @contextmanager
    def use_in_transaction(self, name: str) -> Iterator[bool]:
        """The same for what has no function."""
        is_repeated = name in self._tentative
        if is_repeated:
            self._tentative.remove(name)
            self._used.remove(name)
        self.use(name)
        try:
            yield is_repeated
        finally:
            self._tentative.add(name)

    def codec(self, name: str, fn: Callable[..., object]) -> PayloadCodec[Any]:
        """What stores and reads the result, by the type that the function says it returns."""
        return PayloadCodec(f"step {name}", _returned(fn), self._limit)

    def refuse_saved(self, name: str, saved: Iterable[str]) -> None:
        """The first one was not rolled back: these are two steps with one name."""
        if name in saved:
            raise DuplicateStep(self._job_id, name)


def _returned(fn: Callable[..., object]) -> Any:
    """The type of what calling and, if need be, awaiting `fn` gives; anything where it does not say."""
    function = inspect.unwrap(getattr(fn, "func", fn))
    if not inspect.isroutine(function) and not isinstance(function, type):
        function = type(function).__call__
    try:
        hint = typing.get_type_hints(function, include_extras=True).get("return", Any)
    except (NameError, AttributeError, SyntaxError, TypeError):
        return Any
    if typing.get_origin(hint) in (Awaitable, Coroutine):
        hint = typing.get_args(hint)[-1]
    return Any if isinstance(hint, typing.TypeVar) else hint


async def acall(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function of either kind comes to."""
    result = fn(*args, **kwargs)
    return await result if inspect.isawaitable(result) else result


def call_plain(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same in a thread, where nobody could await."""
    result = fn(*args, **kwargs)
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"{fn!r} is asynchronous; a step of a def handler must be a plain function")
    return result
