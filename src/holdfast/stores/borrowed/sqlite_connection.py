"""sqlite3 connections; a cursor stands for its connection."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, cast

from holdfast.errors import NoTransaction, WrongConnection, WrongDatabase
from holdfast.operations.drive import drive
from holdfast.operations.statement import Rows, Statement
from holdfast.operations.take_write_lock import take_write_lock
from holdfast.stores.borrowed.base import BorrowingStore, SqliteFile
from holdfast.stores.borrowed.script_run import Values, run_script

#: sqlite3.LEGACY_TRANSACTION_CONTROL, the only mode before Python 3.12
_LEGACY = -1


class SqliteConnection:
    """For the thread that opened it, unless its user allowed others."""

    def __init__(self, connection: Any, store: BorrowingStore) -> None:
        self._store = cast("SqliteFile", store)
        refuse_unusable(connection, connection, self._store)
        self._connection = connection

    def begin(self, *, read_only: bool = False) -> None:
        begin(self._connection, self._connection, self._store, read_only=read_only)

    def execute(self, statement: Statement) -> Rows:
        return execute(self._connection, self._store, statement)

    def on_commit(self, callback: Callable[[], None]) -> bool:  # noqa: ARG002 - sqlite3 has no such hook
        return False

    def refuse_commit(self) -> None:
        refuse_commit(self._connection)


def refuse_unusable(tx: object, connection: Any, store: SqliteFile) -> None:
    """Closed, or of another SQLite library than the store's; `tx` is what the caller passed."""
    library = _library(connection)
    if library != store.driver:
        raise WrongConnection(
            tx,
            f"it comes from {library} but Holdfast uses {store.driver}, and two SQLite libraries on one file in one "
            f"process drop each other's locks; connect with {store.driver}",
        )
    try:
        connection.in_transaction  # noqa: B018 - raises if closed, in any thread
    except connection.ProgrammingError:
        raise WrongConnection(tx, "the connection is closed; open a new one") from None


def refuse_other_thread(tx: object, connection: Any) -> None:
    """Unless its user allowed others."""
    try:
        _cursor(connection).close()
    except connection.ProgrammingError as error:
        raise WrongConnection(
            tx,
            "it belongs to another thread; enqueue in the one that opened it, or connect with check_same_thread=False",
        ) from error


def begin(tx: object, connection: Any, store: SqliteFile, *, read_only: bool = False) -> None:
    """Check the file, take the write lock, and begin if sqlite3 would leave that to the first INSERT, UPDATE or DELETE.

    By itself it opens no transaction before SELECT or WITH … INSERT, which would then survive the user's rollback.
    To read only, neither is done: a transaction that nobody asked for would keep everybody else from writing.
    """
    refuse_other_thread(tx, connection)
    with plain_text(connection):
        refuse_other_file(tx, _cursor(connection).execute("PRAGMA database_list").fetchall(), store)
    if not connection.in_transaction:
        if setting := autocommit_setting(connection):
            raise NoTransaction(
                f"SQLite connection with {setting}",
                'execute "BEGIN IMMEDIATE" before and "COMMIT" after it, or connect without that setting',
            )
        if not read_only:
            _cursor(connection).execute("BEGIN IMMEDIATE")
    elif not read_only:
        drive(take_write_lock(), lambda statement: execute(connection, store, statement))


def autocommit_setting(connection: Any) -> str | None:
    """What the user set to have no transactions but those begun by hand; sqlite3's commit() ends the others."""
    if getattr(connection, "autocommit", _LEGACY) != _LEGACY:
        return "autocommit=True" if connection.autocommit else None
    return "isolation_level=None" if connection.isolation_level is None else None


def refuse_other_file(tx: object, databases: Rows, store: SqliteFile) -> None:
    """`databases` is what PRAGMA database_list says."""
    path = next(path for _, name, path in databases if name == "main")
    # Not samefile: through a hard link SQLite would look for another WAL.
    if path != store.path and (not path or os.path.realpath(path) != store.path):
        raise WrongDatabase(
            tx,
            path,
            f"it is open on {path or 'a database in memory'} but this app's jobs are in {store.path}; "
            f"use one file for both",
        )


def execute(connection: Any, store: SqliteFile, statement: Statement) -> Rows:
    """All parts, in the calling thread."""

    def fetch(text: str, values: Values) -> Rows | None:
        cursor = _cursor(connection).execute(text, values)
        return None if cursor.description is None else cursor.fetchall()

    with plain_text(connection):
        return run_script(store.script(statement), store.parameters(statement), fetch)


def refuse_commit(connection: Any) -> None:
    """Nothing but a rollback is possible, as PostgreSQL has it after an error.

    SQLite itself would go on: what comes after a transaction that it has rolled back begins a new one.
    """
    if not connection.in_transaction:
        # Otherwise sqlite3 would leave out the rollback, and we would not hear of it.
        _cursor(connection).execute("BEGIN")
    connection.set_authorizer(_UntilRollback(sys.modules[_library(connection)]))


class _UntilRollback:
    """What SQLite asks whenever a statement is prepared; set, it has those prepared before prepared anew.

    It stays with the connection, and allows everything after the rollback: it cannot remove itself while it is asked.
    """

    def __init__(self, library: Any) -> None:
        self._allowed, self._denied = library.SQLITE_OK, library.SQLITE_DENY
        self._transaction = library.SQLITE_TRANSACTION
        self._is_over = False

    def __call__(self, action: int, what: str | None, *_: object) -> int:
        if action == self._transaction and what == "ROLLBACK":
            self._is_over = True
        return int(self._allowed if self._is_over else self._denied)


def _library(connection: Any) -> str:
    """The module of the SQLite library that made the connection, whatever subclass it is."""
    found = (kind.__module__.partition(".")[0] for kind in type(connection).__mro__ if kind.__name__ == "Connection")
    return next((root for root in found if root in ("sqlite3", "pysqlite3")), type(connection).__module__)


def _cursor(connection: Any) -> Any:
    """A cursor without the connection's row factory, and not one of a class that a subclass hands out."""
    return sys.modules[_library(connection)].Cursor(connection)


@contextlib.contextmanager
def plain_text(connection: Any) -> Iterator[None]:
    """The text factory belongs to the connection, not to the cursor: lay the user's aside and put it back."""
    theirs = connection.text_factory
    connection.text_factory = str
    try:
        yield
    finally:
        connection.text_factory = theirs
