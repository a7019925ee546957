"""aiosqlite connections: everything runs in the connection's own thread, a verb in one go."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from holdfast.errors import WrongConnection
from holdfast.operations.statement import Rows, Statement
from holdfast.stores.borrowed import sqlite_connection
from holdfast.stores.borrowed.base import BorrowingStore, SqliteFile


class AiosqliteConnection:
    """Uses `_execute`, which has been aiosqlite's way into its thread since its first release.

    Its public methods take one statement each, and another task's statement (or commit) could come between our parts.
    """

    def __init__(self, connection: Any, store: BorrowingStore) -> None:
        self._store = cast("SqliteFile", store)
        if connection._connection is None:  # noqa: SLF001 - the public property raises ValueError instead
            raise WrongConnection(connection, "it is closed, or not open yet; use `async with aiosqlite.connect(…)`")
        self._connection = connection
        self._inner = connection._connection  # noqa: SLF001 - as above
        sqlite_connection.refuse_unusable(connection, self._inner, self._store)

    async def begin(self, *, read_only: bool = False) -> None:
        await self._connection._execute(  # noqa: SLF001 - see the class
            partial(sqlite_connection.begin, self._connection, self._inner, self._store, read_only=read_only)
        )

    async def execute(self, statement: Statement) -> Rows:
        rows: Rows = await self._connection._execute(  # noqa: SLF001 - see the class
            sqlite_connection.execute, self._inner, self._store, statement
        )
        return rows

    def on_commit(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002 - aiosqlite has no such hook
        return False

    async def refuse_commit(self) -> None:
        await self._connection._execute(sqlite_connection.refuse_commit, self._inner)  # noqa: SLF001 - see the class
