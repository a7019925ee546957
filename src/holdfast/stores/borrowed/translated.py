"""Errors of the caller's driver on the caller's connection, as ours; the driver's own is their cause."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from holdfast.errors import (
    AbortedTransaction,
    DatabaseBusy,
    DatabaseUnavailable,
    HoldfastError,
    NotMigrated,
    ReadOnlyTransaction,
    RowReferenced,
    SerializationConflict,
    WrongIsolation,
)
from holdfast.operations.statement import Rows, Statement
from holdfast.stores.borrowed.base import AsyncBorrowed, Borrowed
from holdfast.stores.driver_errors import Meaning, meaning_of_result_code, meaning_of_sqlstate

#: whose errors are looked at; those of the user's own hooks, whatever their cause, are none of our business
_LIBRARIES = ("psycopg", "asyncpg", "sqlite3", "pysqlite3", "aiosqlite", "sqlalchemy", "django")

_POSTGRES_IS_READ_ONLY = (
    "begin it without READ ONLY, on the primary server (psycopg: connection.read_only, asyncpg: transaction(readonly), "
    "SQLAlchemy: postgresql_readonly, the server: default_transaction_read_only)"
)
_SQLITE_IS_READ_ONLY = "open the file without mode=ro, writable for this process, and without PRAGMA query_only"

_IS_BUSY = (
    "another connection has had the write lock for longer than the timeout of the connection passed as tx=; let it "
    "commit sooner, or connect with a longer timeout"
)
_IS_STALE = (
    "the transaction passed as tx= read before another one wrote, and cannot write any more; roll it back and repeat "
    "it, beginning with BEGIN IMMEDIATE"
)


class Translated:
    """For threads."""

    def __init__(self, inner: Borrowed) -> None:
        self._inner = inner

    def begin(self, *, read_only: bool = False) -> None:
        with translated():
            self._inner.begin(read_only=read_only)

    def execute(self, statement: Statement) -> Rows:
        with translated():
            return self._inner.execute(statement)

    def on_commit(self, callback: Callable[[], None]) -> bool:
        return self._inner.on_commit(callback)

    def refuse_commit(self) -> None:
        with translated():
            self._inner.refuse_commit()


class AsyncTranslated:
    """For an event loop."""

    def __init__(self, inner: AsyncBorrowed) -> None:
        self._inner = inner

    async def begin(self, *, read_only: bool = False) -> None:
        with translated():
            await self._inner.begin(read_only=read_only)

    async def execute(self, statement: Statement) -> Rows:
        with translated():
            return await self._inner.execute(statement)

    def on_commit(self, callback: Callable[[], None]) -> bool:
        return self._inner.on_commit(callback)

    async def refuse_commit(self) -> None:
        with translated():
            await self._inner.refuse_commit()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """What the driver raises in the block, as ours."""
    began = time.monotonic()
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        ours = _ours(error, time.monotonic() - began)
        if ours is None:
            raise
        raise ours from error


def _ours(error: Exception, seconds: float) -> HoldfastError | None:
    """None where the driver's words say it best: a column that is missing, a right, a timeout that the user set."""
    for found in _chain(error):
        meaning = _meaning(found)
        if meaning is not None:
            return _error(meaning, found, seconds)
    return None


def _error(meaning: Meaning, found: BaseException, seconds: float) -> HoldfastError:  # noqa: PLR0911 - one each
    words = str(found).strip() or type(found).__name__
    match meaning:
        case Meaning.CONFLICT:
            return SerializationConflict(f"{words}; roll back the transaction passed as tx= and repeat all of it")
        case Meaning.READ_ONLY:
            is_sqlite = hasattr(found, "sqlite_errorcode")
            return ReadOnlyTransaction(_SQLITE_IS_READ_ONLY if is_sqlite else _POSTGRES_IS_READ_ONLY)
        case Meaning.HIDDEN:
            return WrongIsolation("ending or retrying a chain for which others wait")
        case Meaning.ABORTED:
            return AbortedTransaction()
        case Meaning.UNAVAILABLE:
            return DatabaseUnavailable(f"{words}; repeat the transaction passed as tx=, on a connection that works")
        case Meaning.NOT_MIGRATED:
            return NotMigrated(0, 1)
        case Meaning.REFERENCED:
            return RowReferenced(words)
        case Meaning.BUSY | Meaning.STALE:
            return DatabaseBusy(seconds, _IS_STALE if meaning is Meaning.STALE else _IS_BUSY)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it stands for: SQLAlchemy and Django wrap what their driver raised."""
    found: BaseException | None = error
    while found is not None and (isinstance(found, OSError) or type(found).__module__.partition(".")[0] in _LIBRARIES):
        yield found
        found = getattr(found, "orig", None) or found.__cause__


def _meaning(error: BaseException) -> Meaning | None:
    if isinstance(error, OSError):
        return Meaning.UNAVAILABLE
    if (code := getattr(error, "sqlite_errorcode", None)) is not None:
        return meaning_of_result_code(code, str(error))
    if (sqlstate := getattr(error, "sqlstate", None)) is not None:
        return meaning_of_sqlstate(sqlstate)
    return Meaning.UNAVAILABLE if _is_lost(error) else None


def _is_lost(error: BaseException) -> bool:
    """A driver that has lost its server has no SQLSTATE to show, except where it makes one up."""
    library, name = type(error).__module__.partition(".")[0], type(error).__name__
    return (library == "psycopg" and name == "OperationalError") or (
        library == "asyncpg" and name == "InterfaceError" and "connection is closed" in str(error)
    )
