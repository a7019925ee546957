"""Transactions that we open for a handler on its job's database, to be written in and passed as tx=."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.errors import AbortedTransaction, HoldfastError, TransactionEnded
from holdfast.operations.statement import Rows
from holdfast.stores.borrowed.base import AsyncBorrowed, Borrowed
from holdfast.stores.borrowed.translated import AsyncTranslated, Translated, translated

#: what the driver takes: by position or by name
Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any]


class OwnTransaction:
    """For threads; ends with the block that opened it.

    `connection` is the driver's own (psycopg or sqlite3), for what `execute` cannot do; leave its commit to the block.
    """

    def __init__(
        self,
        connection: Any,
        borrowed: Borrowed,
        execute: Callable[[str, Parameters | None], Rows],
        is_open: Callable[[], bool],
    ) -> None:
        self.connection = connection
        self.borrowed: Borrowed = Translated(borrowed)
        #: why it must not be committed
        self.refusal: HoldfastError | None = None
        self._execute = execute
        self._is_open = is_open
        self._savepoints = itertools.count(1)
        self._after_commit: list[Callable[[], None]] = []

    def execute(self, text: str, parameters: Parameters | None = None) -> Rows:
        """Run a statement in the driver's style of parameters; its rows, if it has any."""
        if self.refusal is not None:
            raise AbortedTransaction from self.refusal
        return self._execute(text, parameters)

    def check(self) -> None:
        """Before the commit, once: raises if what the block wrote is not all in this transaction."""
        if self.refusal is not None:
            raise self.refusal
        with translated():
            if not self._is_open():
                raise TransactionEnded

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Called when the block's writes are committed; not where they are rolled back, be it to a savepoint."""
        self._after_commit.append(callback)

    def committed(self) -> None:
        """The block has ended well."""
        for callback in self._after_commit:
            callback()

    @contextlib.contextmanager
    def savepoint(self) -> Iterator[None]:
        """What the block wrote is undone if it raises, and the transaction can go on."""
        name = f"holdfast_{next(self._savepoints)}"
        before = len(self._after_commit)
        self.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException as error:
            del self._after_commit[before:]
            # Whatever comes of it, the block's own error is the one to be seen.
            if self.refusal is None:
                try:
                    self._execute(f"ROLLBACK TO SAVEPOINT {name}", None)
                except Exception as second:  # noqa: BLE001 - whatever the driver says
                    self.refusal = _lost_savepoint(second)
                    error.add_note(str(self.refusal))
            raise
        self.execute(f"RELEASE SAVEPOINT {name}")


class AsyncOwnTransaction:
    """The same for an event loop; `connection` is psycopg's, or sqlite3's, which lives in a thread of its own."""

    def __init__(
        self,
        connection: Any,
        borrowed: AsyncBorrowed,
        execute: Callable[[str, Parameters | None], Awaitable[Rows]],
        is_open: Callable[[], Awaitable[bool]],
    ) -> None:
        self.connection = connection
        self.borrowed: AsyncBorrowed = AsyncTranslated(borrowed)
        #: why it must not be committed
        self.refusal: HoldfastError | None = None
        self._execute = execute
        self._is_open = is_open
        self._savepoints = itertools.count(1)
        self._after_commit: list[Callable[[], None]] = []

    async def execute(self, text: str, parameters: Parameters | None = None) -> Rows:
        """Run a statement in the driver's style of parameters; its rows, if it has any."""
        if self.refusal is not None:
            raise AbortedTransaction from self.refusal
        return await self._execute(text, parameters)

    async def check(self) -> None:
        """Before the commit, once: raises if what the block wrote is not all in this transaction."""
        if self.refusal is not None:
            raise self.refusal
        with translated():
            if not await self._is_open():
                raise TransactionEnded

    def after_commit(self, callback: Callable[[], None]) -> None:
        """Called when the block's writes are committed; not where they are rolled back, be it to a savepoint."""
        self._after_commit.append(callback)

    def committed(self) -> None:
        """The block has ended well."""
        for callback in self._after_commit:
            callback()

    @contextlib.asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """What the block wrote is undone if it raises, and the transaction can go on."""
        name = f"holdfast_{next(self._savepoints)}"
        before = len(self._after_commit)
        await self.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException as error:
            del self._after_commit[before:]
            # Whatever comes of it, the block's own error is the one to be seen.
            if self.refusal is None:
                try:
                    await self._execute(f"ROLLBACK TO SAVEPOINT {name}", None)
                except Exception as second:  # noqa: BLE001 - whatever the driver says
                    self.refusal = _lost_savepoint(second)
                    error.add_note(str(self.refusal))
            raise
        await self.execute(f"RELEASE SAVEPOINT {name}")


def _lost_savepoint(cause: Exception) -> TransactionEnded:
    ended = TransactionEnded()
    ended.__cause__ = cause
    return ended
