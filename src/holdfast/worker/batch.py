"""What a batch handler is given: the jobs of one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from holdfast.worker.context import Context
from holdfast.worker.sync_context import SyncContext

T = TypeVar("T")
C = TypeVar("C")


class Item(Generic[T, C]):
    """One job of a batch: what it was enqueued with, and a context of its own."""

    __slots__ = ("ctx", "input")

    def __init__(self, input: T, ctx: C) -> None:  # noqa: A002 - what it is called everywhere else
        self.input = input
        self.ctx = ctx

    def __repr__(self) -> str:
        return f"<Item {self.input!r}>"


class _Jobs(Sequence[Item[T, C]]):
    def __init__(self, items: Sequence[Item[T, C]], state: Any = None) -> None:
        self._items = list(items)
        #: what the app's `lifespan` yielded
        self.state = state

    @property
    def inputs(self) -> list[T]:
        """What the jobs were enqueued with, in the order of the items."""
        return [item.input for item in self._items]

    @overload
    def __getitem__(self, index: int) -> Item[T, C]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item[T, C]]: ...
    def __getitem__(self, index: int | slice) -> Item[T, C] | Sequence[Item[T, C]]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Item[T, C]]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)}>"


class Batch(_Jobs[T, Context]):
    """For `async def` handlers; items have a `Context`."""


class SyncBatch(_Jobs[T, SyncContext]):
    """For `def` handlers; items have a `SyncContext`."""
