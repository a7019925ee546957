"""SQLite: one file, several processes; writes go through the process's one writer, reads past it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from holdfast.errors import ClientClosed, InvalidOption, NotMigrated
from holdfast.model.clock import iso, utc_now
from holdfast.model.fork import forget_after_fork
from holdfast.operations.drive import drive
from holdfast.operations.migrate import Migration, check_schema, migrate
from holdfast.operations.statement import Bulk, Statement, Verb
from holdfast.sql import Script, SqlLibrary, Style
from holdfast.stores.borrowed import (
    AsyncBorrowed,
    AsyncOwnTransaction,
    Borrowed,
    OwnTransaction,
    recognise,
    recognise_async,
)
from holdfast.stores.known import CODE_VERSION, known_migrations, migration_sql
from holdfast.stores.open import StoreConfig
from holdfast.stores.sqlite_connection import BUSY_SECONDS, connect, execute, patiently, translated
from holdfast.stores.sqlite_transaction import open_async_transaction, open_transaction
from holdfast.stores.sqlite_writer import SqliteWriter, shared_writer

T = TypeVar("T")


class SqliteStore:
    """Where the file is, and how to name things in it."""

    dialect = "sqlite"
    driver = sqlite3.__name__
    identity: str | None = None  # a file is told from another by its path

    def __init__(self, url: str, config: StoreConfig) -> None:
        self.path = _path(url)
        self.config = config
        prefix = "holdfast_" if config.prefix is None else config.prefix
        self.library = SqlLibrary("sqlite", "main", prefix, Style.NAMED, "text")
        self.numbered = self.library
        self.pyformat = SqlLibrary("sqlite", "main", prefix, Style.PYFORMAT, "text")

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def refusal(self) -> str | None:
        return None  # there is nobody to refuse: opening the file says what is wrong with it

    def sync(self) -> SqliteSyncStore:
        return SqliteSyncStore(self)

    def asynchronous(self) -> SqliteAsyncStore:
        return SqliteAsyncStore(self)

    def known_migrations(self) -> Sequence[Migration]:
        return known_migrations(self.library)

    def pending_sql(self, found: int = 0, stamp: str | None = None) -> str:
        return migration_sql(self.library, found, stamp)

    def roles_sql(self) -> str:
        return ""

    def parameters(self, statement: Statement) -> dict[str, object]:
        clock = self.config.clock or utc_now
        return {"now": iso(clock()), **statement.parameters}

    def script(self, statement: Statement) -> Script:
        return self.library.script(statement.name, statement.literals, statement.slots)

    def connect(self) -> sqlite3.Connection:
        return connect(self.path, self.config)


def _path(url: str) -> str:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or not path.startswith("/") or len(path) < 2:  # noqa: PLR2004 - "/" and a name
        raise InvalidOption("url", url, "must be sqlite:///relative.db or sqlite:////absolute/path.db")
    if parts.query or path[1:] == ":memory:":
        raise InvalidOption("url", url, "must name a file: a database in memory cannot be shared or survive a crash")
    return os.path.realpath(path[1:])


class _Reader:
    """A connection for reads, one thread at a time."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    def run(self, verb: Verb[T]) -> T:
        with self._lock, translated():
            if self._connection is None:
                self._connection = self._store.connect()
            connection = self._connection
            return patiently(
                lambda: drive(verb(), lambda statement: execute(connection, self._store, statement)),
                time.monotonic() + BUSY_SECONDS,
            )

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class _Shared:
    """What the two faces have in common."""

    migrates_itself = True
    bulk: Bulk | None = Bulk.ROWS
    claims_plainly = False

    @property
    def place(self) -> str | None:
        return str(os.stat(self._store.path).st_ino)  # noqa: PTH116 - a string, not a Path

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self._reader = _Reader(store)
        self._writer: SqliteWriter | None = None
        #: threads that share a client may all be its first to write
        self._first_use = threading.Lock()
        self._is_ready = False
        self._is_closed = False
        self._inherited: list[object] = []
        forget_after_fork(self)

    def after_fork(self) -> None:
        # Kept, for closing the parent's connection would be its garbage collection.
        self._inherited += [self._reader, self._writer]
        self._reader, self._writer = _Reader(self._store), None
        self._first_use = threading.Lock()

    @property
    def writer(self) -> SqliteWriter:
        self._refuse_if_closed()
        if (writer := self._writer) is None:
            with self._first_use:
                writer = self._writer = self._writer or shared_writer(self._store)
        return writer

    def interrupt(self) -> None:
        """A file always answers."""

    def _refuse_if_closed(self) -> None:
        if self._is_closed:
            raise ClientClosed

    def read(self, verb: Verb[T]) -> T:
        self._refuse_if_closed()
        return self._reader.run(verb)

    def close_all(self) -> None:
        self._is_closed = True
        self._reader.close()
        if self._writer is not None:
            self._writer.release()
            self._writer = None

    def prepare(self) -> None:
        """SQLite migrates itself; the write lock is only asked for when there is something to do."""
        if self._is_ready:
            return
        known = known_migrations(self._store.library)
        try:
            self.read(lambda: check_schema(known, CODE_VERSION))
        except NotMigrated:
            self.writer.submit(lambda: migrate(known)).result()
            self.read(lambda: check_schema(known, CODE_VERSION))
        self._is_ready = True

    def rewrite(self) -> None:
        """All of the file, which then can become smaller bit by bit; not inside a transaction, so past the writer."""
        with translated(), contextlib.closing(self._store.connect()) as connection:
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            patiently(lambda: connection.execute("VACUUM"), time.monotonic() + BUSY_SECONDS)


class SqliteSyncStore(_Shared):
    """For threads."""

    def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        return self.read(verb) if read_only else self.writer.run(verb)

    def borrow(self, tx: object, *, read_only: bool = False) -> Borrowed:
        borrowed = recognise(tx, self._store)
        self.ensure_ready()
        borrowed.begin(read_only=read_only)
        return borrowed

    @contextlib.contextmanager
    def transaction(self) -> Iterator[OwnTransaction]:
        self.ensure_ready()
        with open_transaction(self._store) as transaction:
            yield transaction

    def ensure_ready(self) -> None:
        self.prepare()

    def migrate(self) -> Sequence[Migration]:
        return self.run(lambda: migrate(known_migrations(self._store.library)))

    def enable_incremental_vacuum(self) -> None:
        self.rewrite()

    def close(self) -> None:
        self.close_all()


class SqliteAsyncStore(_Shared):
    """For one event loop."""

    def __init__(self, store: SqliteStore) -> None:
        super().__init__(store)
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="holdfast-reader")

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        self._refuse_if_closed()
        if read_only:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self.read, verb)
        return await asyncio.wrap_future(self.writer.submit(verb))

    async def borrow(self, tx: object, *, read_only: bool = False) -> AsyncBorrowed:
        borrowed = recognise_async(tx, self._store)
        await self.ensure_ready()
        await borrowed.begin(read_only=read_only)
        return borrowed

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncOwnTransaction]:
        await self.ensure_ready()
        async with open_async_transaction(self._store) as transaction:
            yield transaction

    async def ensure_ready(self) -> None:
        self._refuse_if_closed()
        if not self._is_ready:
            await asyncio.get_running_loop().run_in_executor(self._threads, self.prepare)

    async def migrate(self) -> Sequence[Migration]:
        return await self.run(lambda: migrate(known_migrations(self._store.library)))

    async def enable_incremental_vacuum(self) -> None:
        self._refuse_if_closed()
        await asyncio.get_running_loop().run_in_executor(self._threads, self.rewrite)

    async def close(self) -> None:
        if not self._is_closed:
            await asyncio.get_running_loop().run_in_executor(self._threads, self.close_all)
            self._threads.shutdown()
