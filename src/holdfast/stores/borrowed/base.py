"""What every kind of borrowed connection can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.operations.statement import Rows, Statement
from holdfast.sql import Script, SqlLibrary


class BorrowingStore(Protocol):
    """What an adapter needs to know of the store it works for."""

    @property
    def dialect(self) -> str: ...
    @property
    def library(self) -> SqlLibrary:
        """Scripts in the style of the store's own driver."""
    @property
    def numbered(self) -> SqlLibrary:
        """Scripts with numbered parameters, for asyncpg."""
    def parameters(self, statement: Statement) -> Mapping[str, object]: ...
    def script(self, statement: Statement) -> Script: ...


class Borrowed(Protocol):
    """A caller's connection or session, for as long as one verb runs on it."""

    def begin(self) -> None:
        """Make sure that there is a transaction the caller will end; raise NoTransaction or AbortedTransaction."""

    def execute(self, statement: Statement) -> Rows:
        """Run on the caller's connection, leaving its row factory, isolation level and cursors alone."""

    def on_commit(self, callback: Callable[[], None]) -> bool:
        """Call back after the caller's commit (not after a rollback, nor for a savepoint), if the library has a hook."""


class AsyncBorrowed(Protocol):
    """The same for connections that are awaited."""

    async def begin(self) -> None: ...

    async def execute(self, statement: Statement) -> Rows: ...

    def on_commit(self, callback: Callable[[], None]) -> bool: ...
