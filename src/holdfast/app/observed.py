"""A store that tells what passes through its async face."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from holdfast.operations.statement import Operation, Rows, Statement, Verb
from holdfast.stores import AsyncStore, Store

T = TypeVar("T")

#: called with every statement and the rows it gave, before its transaction has committed
Observer = Callable[[Statement, Rows], None]


def observed(store: Store, observer: Observer) -> Store:
    """The same store, with an observer of what its async faces run."""
    return cast("Store", _ObservedStore(store, observer))


class _ObservedStore:
    def __init__(self, store: Store, observer: Observer) -> None:
        self._store = store
        self._observer = observer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def asynchronous(self) -> Any:
        return _ObservedFace(self._store.asynchronous(), self._observer)


class _ObservedFace:
    def __init__(self, store: AsyncStore, observer: Observer) -> None:
        self._store = store
        self._observer = observer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        return await self._store.run(lambda: self._watch(verb()), read_only=read_only)

    def _watch(self, operation: Operation[T]) -> Operation[T]:
        try:
            statement = next(operation)
            while True:
                rows = yield statement
                self._observer(statement, rows)
                statement = operation.send(rows)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # a generator's value is not typed
