"""SQLAlchemy connections on the drivers that Holdfast knows; async ones run the same code in SQLAlchemy's greenlet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

from holdfast.errors import AbortedTransaction, NoTransaction, TransactionError, WrongConnection
from holdfast.operations.drive import drive
from holdfast.operations.statement import Rows, Statement
from holdfast.operations.take_write_lock import take_write_lock
from holdfast.stores.borrowed import psycopg_connection, sqlite_connection
from holdfast.stores.borrowed.asyncpg_connection import (
    as_text,
    refuse_other_loop,
    text_values,
)
from holdfast.stores.borrowed.base import Borrowed, BorrowingStore, SqliteFile
from holdfast.stores.borrowed.same_database import refuse_other_database
from holdfast.stores.borrowed.script_run import Values, run_script

_DRIVERS = {"postgresql": ("psycopg", "asyncpg"), "sqlite": ("pysqlite", "aiosqlite")}
_DIALECTS = {"postgres": "postgresql", "sqlite": "sqlite"}
#: the user's connection may stream, and a server-side cursor cannot hold WITH … INSERT
_WHOLE = {"stream_results": False, "yield_per": None}
_FIX = "remove isolation_level='AUTOCOMMIT', or use `with engine.begin() as connection:` on an engine without it"


class SqlalchemyConnection:
    """A Connection; one that has not begun begins as with its first statement."""

    def __init__(self, connection: Any, store: BorrowingStore, tx: object = None) -> None:
        self._tx = connection if tx is None else tx
        if connection.closed:
            raise WrongConnection(self._tx, "the connection is closed; open a new one")
        refuse_dialect(self._tx, connection.dialect, store)
        self._connection = connection
        self._store = store
        self._is_asyncpg = connection.dialect.driver == "asyncpg"

    def begin(self, *, read_only: bool = False) -> None:
        connection = self._connection
        for transaction in (connection.get_transaction(), connection.get_nested_transaction()):
            if transaction is not None and (connection.invalidated or not transaction.is_active):
                raise AbortedTransaction
        # Explicitly, because only the begin event may issue the real BEGIN (SQLAlchemy's own recipe for SQLite).
        begun = None if connection.in_transaction() else connection.begin()
        try:
            if not self._is_in_transaction(connection.connection, read_only=read_only):
                raise NoTransaction("SQLAlchemy connection in AUTOCOMMIT mode", _FIX)
            if self._store.dialect == "postgres":
                driver = connection.connection.driver_connection
                refuse_other_database(self._tx, driver, self._store, self.execute)
        except TransactionError:
            if begun is not None:
                begun.rollback()
            raise

    def execute(self, statement: Statement) -> Rows:
        library = self._store.numbered if self._is_asyncpg else self._store.library
        script = library.script(statement.name, statement.literals, statement.slots)
        return run_script(script, self._store.parameters(statement), self._fetch)

    def on_commit(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002 - its commit event comes before the commit
        return isinstance(self._connection.get_transaction(), sys.modules["sqlalchemy"].TwoPhaseTransaction)

    def refuse_commit(self) -> None:
        if self._store.dialect == "sqlite":
            # Until its rollback SQLAlchemy refuses everything, and then it opens another connection of the driver.
            self._connection.invalidate()

    def _is_in_transaction(self, pooled: Any, *, read_only: bool) -> bool:
        """What the driver says, or will say after the first statement; `pooled` is SQLAlchemy's proxy for it."""
        driver = pooled.driver_connection
        if self._store.dialect == "sqlite":
            return self._is_in_sqlite_transaction(driver, read_only=read_only)
        if self._is_asyncpg:
            refuse_other_loop(self._tx, driver)
            return not pooled.dbapi_connection.autocommit or bool(driver.is_in_transaction())
        return psycopg_connection.is_in_transaction(driver)

    def _is_in_sqlite_transaction(self, driver: Any, *, read_only: bool) -> bool:
        store = cast("SqliteFile", self._store)
        inner = getattr(driver, "_connection", driver)  # aiosqlite's holds sqlite3's
        sqlite_connection.refuse_unusable(self._tx, inner, store)
        info = self._connection.info
        if info.get("holdfast.path") != store.path:
            sqlite_connection.refuse_other_file(self._tx, self._fetch("PRAGMA database_list", {}) or (), store)
            info["holdfast.path"] = store.path
        if not inner.in_transaction:
            if sqlite_connection.autocommit_setting(inner):
                return False
            if not read_only:
                self._connection.exec_driver_sql("BEGIN IMMEDIATE")
        elif not read_only:
            drive(take_write_lock(), self.execute)
        return True

    def _fetch(self, text: str, values: Values) -> Rows | None:
        if self._is_asyncpg:
            result = self._connection.exec_driver_sql(as_text(text), text_values(values), _WHOLE)
        else:
            result = self._connection.exec_driver_sql(text, values, _WHOLE)
        if not result.returns_rows:
            return None
        return [tuple(map(_decoded, row)) for row in result]


class SqlalchemyInGreenlet:
    """An AsyncConnection or AsyncSession, whose `run_sync` runs the sync adapter of what it stands for."""

    def __init__(self, tx: Any, inner: Borrowed) -> None:
        self._tx = tx
        self._inner = inner

    async def begin(self, *, read_only: bool = False) -> None:
        await self._tx.run_sync(lambda _: self._inner.begin(read_only=read_only))

    async def execute(self, statement: Statement) -> Rows:
        rows: Rows = await self._tx.run_sync(lambda _: self._inner.execute(statement))
        return rows

    def on_commit(self, callback: Callable[[], None]) -> bool:
        return self._inner.on_commit(callback)

    async def refuse_commit(self) -> None:
        await self._tx.run_sync(lambda _: self._inner.refuse_commit())


def async_connection(tx: Any, store: BorrowingStore) -> SqlalchemyInGreenlet:
    """For an AsyncConnection."""
    if tx.sync_connection is None:
        raise WrongConnection(tx, "it is closed, or not open yet; use `async with engine.begin() as connection:`")
    return SqlalchemyInGreenlet(tx, SqlalchemyConnection(tx.sync_connection, store, tx))


def refuse_dialect(tx: object, dialect: Any, store: BorrowingStore) -> None:
    """Another database than the store's, or a driver that we do not know."""
    wanted = _DIALECTS[store.dialect]
    if dialect.name != wanted:
        raise WrongConnection(tx, f"it leads to {dialect.name}, but this app keeps its jobs in {wanted}")
    if dialect.driver not in _DRIVERS[wanted]:
        drivers = " or ".join(f"{wanted}+{driver}://" for driver in _DRIVERS[wanted])
        raise WrongConnection(tx, f"the driver {dialect.driver} is not supported; use create_engine with {drivers}")


def _decoded(value: object) -> object:
    """Text, also where the user made sqlite3 hand out bytes."""
    return value.decode() if isinstance(value, bytes) else value
