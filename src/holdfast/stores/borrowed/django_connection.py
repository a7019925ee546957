"""Django's connections, by themselves or by their alias, inside `atomic()`; a cursor stands for its connection."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, cast

from holdfast.errors import AbortedTransaction, NoTransaction, WrongConnection
from holdfast.operations.statement import Rows, Statement
from holdfast.stores.borrowed import sqlite_connection
from holdfast.stores.borrowed.base import BorrowingStore, SqliteFile
from holdfast.stores.borrowed.psycopg_connection import PsycopgConnection
from holdfast.stores.borrowed.script_run import Values, run_script

#: Django's word for the store's database, and everybody's
_VENDORS = {"postgres": ("postgresql", "PostgreSQL"), "sqlite": ("sqlite", "SQLite")}


class DjangoConnection:
    """Statements go through Django's own cursor, so that logs, wrappers and counts of queries see them.

    What we look at before goes past it, on the driver's connection: a look is none of the application's queries.
    """

    def __init__(self, wrapper: Any, store: BorrowingStore, tx: object = None) -> None:
        self._tx = wrapper if tx is None else tx
        vendor, ours = _VENDORS[store.dialect]
        if wrapper.vendor != vendor:
            raise WrongConnection(
                self._tx, f"it leads to {wrapper.display_name}, but this app keeps its jobs in {ours}"
            )
        if wrapper.Database.__name__ == "psycopg2":
            raise WrongConnection(
                self._tx,
                "Django uses psycopg2 here, which is not supported; install psycopg (version 3), it comes first",
            )
        self._wrapper = wrapper
        self._store = store

    def begin(self, *, read_only: bool = False) -> None:
        wrapper = self._wrapper
        self._refuse_other_thread()
        if not wrapper.in_atomic_block:
            using = "" if wrapper.alias == "default" else f"using={wrapper.alias!r}"
            raise NoTransaction(
                f"Django connection ({wrapper.alias!r})",
                f"enqueue inside `with transaction.atomic({using}):`, or set ATOMIC_REQUESTS for your views",
            )
        if wrapper.needs_rollback:
            raise AbortedTransaction from wrapper.rollback_exc
        if wrapper.connection is None or wrapper.closed_in_transaction:
            raise AbortedTransaction
        with wrapper.wrap_database_errors:
            if self._store.dialect == "postgres":
                PsycopgConnection(wrapper.connection, self._store, self._tx).begin()
            else:
                self._begin_on_sqlite(wrapper.connection, read_only=read_only)

    def execute(self, statement: Statement) -> Rows:
        script = self._store.pyformat.script(statement.name, statement.literals, statement.slots)
        try:
            with self._plain_text():
                return run_script(script, self._store.parameters(statement), self._fetch)
        except Exception as error:
            # As Django's own writes do it: whoever catches this inside the block must not commit half of it.
            if self._wrapper.in_atomic_block:
                self._wrapper.needs_rollback = True
                self._wrapper.rollback_exc = error
            raise

    def on_commit(self, callback: Callable[[], None]) -> bool:
        # Inside atomic() but with autocommit off, Django's hooks wait until it is on again.
        if not self._wrapper.commit_on_exit:
            return False

        def tell() -> None:  # Django logs the function's name if it fails, and a partial has none
            callback()

        self._wrapper.on_commit(tell, robust=True)
        return True

    def refuse_commit(self) -> None:
        # Django refuses by itself what goes through it, and the rest is SQLite's.
        if self._store.dialect == "sqlite":
            sqlite_connection.refuse_commit(self._wrapper.connection)

    def _refuse_other_thread(self) -> None:
        try:
            self._wrapper.validate_thread_sharing()
        except sys.modules["django.db.utils"].DatabaseError as error:
            raise WrongConnection(
                self._tx,
                f"it belongs to another thread; pass its alias, {self._wrapper.alias!r}, to have this thread's",
            ) from error

    def _begin_on_sqlite(self, driver: Any, *, read_only: bool) -> None:
        store = cast("SqliteFile", self._store)
        sqlite_connection.refuse_unusable(self._tx, driver, store)
        # After some errors SQLite rolls back by itself, and Django goes on as if in a transaction.
        if not driver.in_transaction:
            raise AbortedTransaction
        sqlite_connection.begin(self._tx, driver, store, read_only=read_only)

    def _plain_text(self) -> contextlib.AbstractContextManager[None]:
        if self._store.dialect == "sqlite":
            return sqlite_connection.plain_text(self._wrapper.connection)
        return contextlib.nullcontext()

    def _fetch(self, text: str, values: Values) -> Rows | None:
        with self._wrapper.cursor() as cursor:
            cursor.execute(text, values)
            return None if cursor.description is None else [tuple(row) for row in cursor.fetchall()]


def proxy(tx: Any, store: BorrowingStore) -> DjangoConnection:
    """For `django.db.connection`: this thread's connection to the default database."""
    wrapper = tx._connections[tx._alias]  # noqa: SLF001 - the proxy shows everything of the connection, and nothing of itself
    if not hasattr(wrapper, "in_atomic_block"):
        raise WrongConnection(tx, f"it stands for a {type(wrapper).__qualname__}, not for a database connection")
    return DjangoConnection(wrapper, store, tx)


def cursor(tx: Any, store: BorrowingStore) -> DjangoConnection:
    """For what `connection.cursor()` returns."""
    return DjangoConnection(tx.db, store, tx)


def alias(tx: str, store: BorrowingStore) -> DjangoConnection:
    """For a key of DATABASES: this thread's connection to it."""
    known = aliases()
    if tx not in known:
        raise WrongConnection(tx, f"{tx!r} is not an alias in Django's DATABASES; there are {', '.join(known)}")
    return DjangoConnection(sys.modules["django.db"].connections[tx], store, tx)


def aliases() -> list[str]:
    """The keys of DATABASES; none where Django is not in use."""
    django_db, conf = sys.modules.get("django.db"), sys.modules.get("django.conf")
    if django_db is None or conf is None or not conf.settings.configured:
        return []
    return list(django_db.connections)
