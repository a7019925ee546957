"""What every kind of borrowed connection can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from holdfast.operations.statement import Rows, Statement
from holdfast.sql import Script, SqlLibrary


class BorrowingStore(Protocol):
    """What an adapter needs to know of the store it works for.

    `library` has the scripts in the style of the store's own driver, `numbered` with numbered parameters, for asyncpg,
    `pyformat` with those of psycopg, which Django wants for SQLite too.  `identity` is what identify_database says on
    the store's own connections, None where nobody asks.
    """

    @property
    def url(self) -> str: ...
    @property
    def dialect(self) -> str: ...
    @property
    def library(self) -> SqlLibrary: ...
    @property
    def numbered(self) -> SqlLibrary: ...
    @property
    def pyformat(self) -> SqlLibrary: ...
    @property
    def identity(self) -> str | None: ...
    def parameters(self, statement: Statement) -> Mapping[str, object]: ...
    def script(self, statement: Statement) -> Script: ...


class SqliteFile(BorrowingStore, Protocol):
    """The same for a SQLite store: a borrowed connection must lead to the same file through the same library.

    `path` is what realpath gives, `driver` the module that the store's own connections come from.
    """

    @property
    def path(self) -> str: ...
    @property
    def driver(self) -> str: ...


class Borrowed(Protocol):
    """A caller's connection or session, for as long as one verb runs on it.

    - `begin` makes sure that there is a transaction the caller will end, in the store's own database.  It raises
      NoTransaction, AbortedTransaction, or WrongConnection for what only the open connection can tell; then the
      connection is as it was.  On SQLite, to read only neither takes the write lock nor opens a transaction.
    - `execute` runs on the caller's connection, leaving its row factory, isolation level and cursors alone.

    What the driver raises goes through adapters unchanged, so that their libraries see it; `recognise` puts a
    translation around each.
    - `on_commit` calls back once after the caller's commit, not after a rollback, nor for a savepoint; False if the
      library has no hook for that, True without a call where NOTIFY is forbidden too.  The callback runs where the
      commit runs, so it must not wait, nor use the session; what it raises is logged.
    - `refuse_commit` comes after spoil_transaction: nothing may be committed before the caller has rolled back, not
      even what he writes from here on. PostgreSQL sees to that by itself.
    """

    def begin(self, *, read_only: bool = False) -> None: ...

    def execute(self, statement: Statement) -> Rows: ...

    def on_commit(self, callback: Callable[[], None]) -> bool: ...

    def refuse_commit(self) -> None: ...


class AsyncBorrowed(Protocol):
    """The same for connections that are awaited."""

    async def begin(self, *, read_only: bool = False) -> None: ...

    async def execute(self, statement: Statement) -> Rows: ...

    def on_commit(self, callback: Callable[[], None]) -> bool: ...

    async def refuse_commit(self) -> None: ...
