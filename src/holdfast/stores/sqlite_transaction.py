"""Transactions for handlers on SQLite: a connection each, with the file's write lock from the beginning."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.operations.statement import Rows, Statement
from holdfast.stores.borrowed.own_transaction import AsyncOwnTransaction, OwnTransaction, Parameters
from holdfast.stores.borrowed.sqlite_connection import SqliteConnection
from holdfast.stores.sqlite_connection import BUSY_SECONDS, patiently

if TYPE_CHECKING:
    from holdfast.stores.sqlite import SqliteStore

T = TypeVar("T")


@contextlib.contextmanager
def open_transaction(store: SqliteStore) -> Iterator[OwnTransaction]:
    """Committed at the end of the block, rolled back if it raises."""
    with contextlib.closing(store.connect()) as connection:
        deadline = time.monotonic() + BUSY_SECONDS
        patiently(lambda: connection.execute("BEGIN IMMEDIATE"), deadline)
        # It ends with its transaction: no other one has it.
        connection.execute("SAVEPOINT holdfast_block")

        def execute(text: str, parameters: Parameters | None) -> Rows:
            cursor = connection.execute(text, parameters or ())
            return cursor.fetchall() if cursor.description is not None else []

        def is_open() -> bool:
            try:
                connection.execute("RELEASE SAVEPOINT holdfast_block")
            except sqlite3.OperationalError:
                return False
            return True

        tx = OwnTransaction(connection, SqliteConnection(connection, store), execute, is_open)
        try:
            yield tx
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        patiently(lambda: connection.execute("COMMIT"), time.monotonic() + BUSY_SECONDS)
    tx.committed()


@contextlib.asynccontextmanager
async def open_async_transaction(store: SqliteStore) -> AsyncIterator[AsyncOwnTransaction]:
    """The same in a thread of its own."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="holdfast-transaction") as thread:

        async def there(work: Callable[[], T]) -> T:
            return await loop.run_in_executor(thread, work)

        block = open_transaction(store)
        inner = await there(block.__enter__)

        async def execute(text: str, parameters: Parameters | None) -> Rows:
            return await there(lambda: inner.execute(text, parameters))

        async def is_open() -> bool:
            await there(inner.check)
            return True

        tx = AsyncOwnTransaction(inner.connection, _InThread(inner, there), execute, is_open)
        try:
            yield tx
        except BaseException:
            await there(partial(block.__exit__, *sys.exc_info()))
            raise
        await there(lambda: block.__exit__(None, None, None))
    tx.committed()


class _InThread:
    """The adapter of the connection, in the connection's thread."""

    def __init__(self, transaction: OwnTransaction, there: Callable[[Callable[[], Any]], Awaitable[Any]]) -> None:
        self._borrowed = transaction.borrowed
        self._there = there

    async def begin(self, *, read_only: bool = False) -> None:
        """Begun already."""

    async def execute(self, statement: Statement) -> Rows:
        rows: Rows = await self._there(lambda: self._borrowed.execute(statement))
        return rows

    def on_commit(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002 - sqlite3 has no such hook
        return False

    async def refuse_commit(self) -> None:
        await self._there(self._borrowed.refuse_commit)
