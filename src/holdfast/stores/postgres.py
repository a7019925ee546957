"""PostgreSQL through psycopg: pooled autocommit connections, one round trip per verb."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg.errors import LockNotAvailable
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.numeric import Int8BinaryLoader
from psycopg.types.string import TextBinaryLoader
from psycopg_pool import ConnectionPool, PoolTimeout
from psycopg_pool import PoolClosed as SyncPoolClosed

from holdfast.errors import (
    ClientClosed,
    DatabaseUnavailable,
    InvalidOption,
    NotMigrated,
    RowReferenced,
    SerializationConflict,
    StoreError,
    WrongDatabase,
)
from holdfast.model.clock import iso
from holdfast.model.fork import forget_after_fork
from holdfast.operations.drive import adrive, drive
from holdfast.operations.identify_database import DatabaseIdentity, identify_database
from holdfast.operations.migrate import Migration, check_schema, migrate
from holdfast.operations.statement import Bulk, Operation, Rows, Statement, Verb
from holdfast.sql import Script, SqlLibrary, Style
from holdfast.stores.borrowed import (
    AsyncBorrowed,
    AsyncOwnTransaction,
    Borrowed,
    OwnTransaction,
    recognise,
    recognise_async,
)
from holdfast.stores.driver_errors import Meaning, meaning_of_sqlstate
from holdfast.stores.known import CODE_VERSION, known_functions, known_migrations, migration_sql, roles_sql
from holdfast.stores.open import StoreConfig
from holdfast.stores.postgres_pool import PATIENCE_SECONDS, NoConnection, PoolClosed, PostgresPool
from holdfast.stores.postgres_transaction import open_async_transaction, open_transaction
from holdfast.stores.prepared import allow_on, prepared_on

T = TypeVar("T")

_ONLY_SQLITE = "is for SQLite files; PostgreSQL's tables keep their room and use it again"
_BACKEND_PID = b"SELECT pg_backend_pid()"

#: a plan that was made for an empty table stays when the table has grown; none of ours reads a table from end to end.
#: Before 18 a scan that is switched off counts as endlessly dear, and for that the server compiles: 1.5 s per statement
#: And whatever the level of the database is: who ends a chain must see who has come to wait for it.
DIRECT_SETTINGS = b"SET enable_seqscan = off; SET jit = off; SET default_transaction_isolation = 'read committed'"

_BEGIN = b"BEGIN ISOLATION LEVEL READ COMMITTED"

_INTERRUPTED = "the connections were closed meanwhile"

#: a migration that met a lock lets those pass who came to wait behind it, and comes again, for some minutes
_MIGRATION_TRIES = 100
_MIGRATION_PAUSE_SECONDS = 1.0
_IN_THE_WAY = (
    "a table of Holdfast was locked for minutes, and the migration changed nothing; end what holds the lock "
    "(a long transaction or a vacuum: see pg_stat_activity, oldest xact_start) and migrate again"
)

#: a peer that vanished without a word is noticed within seconds, not hours
_KEEPALIVE = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "connect_timeout": 10,
}


class PostgresStore:
    """Where jobs are, and how to name things there."""

    dialect = "postgres"

    def __init__(self, url: str, config: StoreConfig) -> None:
        self._conninfo = re.sub(r"^postgres:", "postgresql:", url)
        self.config = config
        names = (config.schema, config.prefix or "")
        self.library = SqlLibrary("postgres", *names, Style.PYFORMAT, config.id_type, config.channel)
        self.pyformat = self.library
        self.numbered = SqlLibrary("postgres", *names, Style.NUMBERED, config.id_type, config.channel)
        #: what identify_database said on a connection of our own; asked for the first borrowed one
        self.identity: str | None = None

    @property
    def url(self) -> str:
        without = re.sub(r"://([^:@/]*):[^/?]*@", r"://\1:***@", self._conninfo)
        return re.sub(r"([?&](?:ssl)?password=)[^&]*", r"\1***", without)

    def refusal(self) -> str | None:
        try:
            psycopg.connect(self._conninfo, **self.connection_options).close()
        except psycopg.Error as error:
            return " ".join(str(error).split())
        return None

    def timeout_error(self) -> DatabaseUnavailable:
        """The pool only says that it waited; the server says why."""
        exhausted = f"all {self.config.pool_size} connections are in use; raise App(pool_size=…)"
        return DatabaseUnavailable(f"no connection to PostgreSQL within 10 s: {self.refusal() or exhausted}")

    def sync(self) -> PostgresSyncStore:
        return PostgresSyncStore(self)

    def asynchronous(self) -> PostgresAsyncStore:
        return PostgresAsyncStore(self)

    def known_migrations(self) -> Sequence[Migration]:
        return known_migrations(self.library)

    def migration(self) -> Operation[list[Migration]]:
        return migrate(known_migrations(self.library), known_functions(self.library))

    def pending_sql(self, found: int = 0, stamp: str | None = None) -> str:
        return migration_sql(self.library, found, stamp)

    def roles_sql(self) -> str:
        return roles_sql(self.library)

    @property
    def connection_options(self) -> dict[str, Any]:
        # Statements are prepared only where a script says so, never through a pooler, and by ourselves.
        return {"autocommit": True, "prepare_threshold": None, **_KEEPALIVE}

    @property
    def own_connection_options(self) -> dict[str, Any]:
        """Of those on which nobody but we sends statements."""
        return {**self.connection_options, "client_encoding": "UTF8"}

    @property
    def conninfo(self) -> str:
        return self._conninfo

    def parameters(self, statement: Statement) -> dict[str, object]:
        clock = self.config.clock
        return {"now": None if clock is None else iso(clock()), **statement.parameters}

    def script(self, statement: Statement) -> Script:
        return self.library.script(statement.name, statement.literals, statement.slots)

    def raw_script(self, statement: Statement) -> Script:
        """For our own connections: psycopg looks for names in a text as long as a claim's each time anew."""
        return self.numbered.script(statement.name, statement.literals, statement.slots)

    def is_another(self, found: DatabaseIdentity) -> bool:
        """Remember what was found behind a connection of our own; whether it is not what was there before."""
        if found.identity is None:
            raise NotMigrated(0, 1)
        before, self.identity = self.identity, found.identity
        return before != found.identity


def _adapt(connection: psycopg.Connection[Any], *, pooled: bool | None) -> None:
    _load_late(connection)
    connection.cursor_factory = psycopg.RawCursor
    if pooled is False or (pooled is None and _is_direct(connection, connection.execute(_BACKEND_PID).fetchone())):
        connection.execute(DIRECT_SETTINGS)
        allow_on(connection)


async def _adapt_async(connection: psycopg.AsyncConnection[Any], *, pooled: bool | None) -> None:
    _load_late(connection)
    connection.cursor_factory = psycopg.AsyncRawCursor
    if pooled is False or (
        pooled is None and _is_direct(connection, await (await connection.execute(_BACKEND_PID)).fetchone())
    ):
        await connection.execute(DIRECT_SETTINGS)
        allow_on(connection)


def _load_late(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Load JSON as text and instants as the integers they are on the wire; whoever needs more decodes it."""
    connection.adapters.register_loader("json", TextBinaryLoader)
    connection.adapters.register_loader("timestamptz", Int8BinaryLoader)


def _is_direct(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], pid: tuple[int] | None) -> bool:
    """A pooler answers for another backend than the one it greeted us with: settings and statements would get lost."""
    return pid is not None and pid[0] == connection.info.backend_pid


class PostgresSyncStore:
    """For threads."""

    place: str | None = None  # PostgreSQL itself says where it is

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._pool: ConnectionPool[Any] | None = None
        self._busy: set[psycopg.Connection[Any]] = set()
        self._opening = threading.Lock()
        self._is_ready = False
        self._is_closed = False
        forget_after_fork(self)

    def after_fork(self) -> None:
        # psycopg does not close, in a child, what its parent opened.
        self._pool, self._busy, self._opening = None, set(), threading.Lock()

    @property
    def migrates_itself(self) -> bool:
        return self._store.config.auto_migrate

    @property
    def bulk(self) -> Bulk | None:
        return Bulk.LINES if self._store.config.clock is None else None  # what they do not say is the server's time

    def run(self, verb: Verb[T], *, read_only: bool = False) -> T:  # noqa: ARG002 - SQLite's reader connections need it
        try:
            with self._connection() as connection, translated():
                try:
                    result = drive(
                        verb(),
                        lambda statement: self._execute(connection, statement),
                        begin=lambda: connection.execute(_BEGIN),
                    )
                except BaseException:
                    if _may_roll_back(connection):
                        connection.rollback()
                    raise
                if _is_begun(connection):
                    connection.commit()
                return result
        except DatabaseUnavailable:
            # What cut this connection has probably cut the others that wait in the pool.
            if self._pool is not None:
                self._pool.check()
            raise

    def borrow(self, tx: object, *, read_only: bool = False) -> Borrowed:
        borrowed = recognise(tx, self._store)
        self.ensure_ready()
        if self._store.identity is None:
            self._identify()
        try:
            borrowed.begin(read_only=read_only)
        except WrongDatabase:
            # Our tables may have been dropped and made anew since we looked.
            if not self._identify():
                raise
            borrowed.begin(read_only=read_only)
        return borrowed

    @contextlib.contextmanager
    def transaction(self) -> Iterator[OwnTransaction]:
        self.ensure_ready()
        with open_transaction(self._store) as transaction:
            yield transaction

    def _identify(self) -> bool:
        """Whether our own database is another than it was."""
        return self._store.is_another(self.run(identify_database, read_only=True))

    def ensure_ready(self) -> None:
        if not self._is_ready:
            if self._store.config.auto_migrate:
                self.migrate()
            self.run(lambda: check_schema(known_migrations(self._store.library), CODE_VERSION), read_only=True)
            self._is_ready = True

    def migrate(self) -> Sequence[Migration]:
        with self._connection() as connection, translated():
            for _ in range(_MIGRATION_TRIES):
                with contextlib.suppress(LockNotAvailable), connection.transaction():
                    return drive(self._store.migration(), lambda statement: self._execute(connection, statement))
                time.sleep(_MIGRATION_PAUSE_SECONDS)
        raise DatabaseUnavailable(_IN_THE_WAY)

    def enable_incremental_vacuum(self) -> None:
        raise InvalidOption("enable_incremental", "yes", _ONLY_SQLITE)

    def close(self) -> None:
        self._is_closed = True
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def interrupt(self) -> None:
        with self._opening:
            pool, self._pool = self._pool, None
        for connection in list(self._busy):
            _sever(connection)
        if pool is not None:
            pool.close(timeout=0)

    def _execute(self, connection: psycopg.Connection[Any], statement: Statement) -> Rows:
        parameters = self._store.parameters(statement)
        script = self._store.raw_script(statement)
        prepared = prepared_on(connection) if script.is_prepared else None
        rows: Rows = ()
        for part in script.parts:
            chosen = [parameters[name] for name in part.parameters]
            if prepared is not None:
                rows = connection.wait(prepared.run(part.encoded, chosen))
                continue
            cursor = connection.cursor(binary=True, row_factory=tuple_row)
            if statement.lines is not None:
                with cursor.copy(part.encoded) as copy:
                    for lines in statement.lines():
                        copy.write(lines)
                continue
            cursor.execute(part.encoded, chosen)
            if _has_rows(cursor):
                rows = cursor.fetchall()
        return rows

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        with self._opening:
            if self._is_closed:
                raise ClientClosed
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._store.conninfo,
                    min_size=0,
                    max_size=self._store.config.pool_size,
                    kwargs=self._store.own_connection_options,
                    configure=partial(_adapt, pooled=self._store.config.pooled),
                    open=True,
                    timeout=PATIENCE_SECONDS,
                    # In the pool's own five minutes the pauses between tries double until one is as long as the outage.
                    reconnect_timeout=PATIENCE_SECONDS,
                    name="holdfast",
                )
            pool = self._pool
        try:
            connection = pool.getconn()
            self._busy.add(connection)
            try:
                yield connection  # who takes it ends what he has begun
            finally:
                self._busy.discard(connection)
                pool.putconn(connection)
        except PoolTimeout as error:
            raise self._store.timeout_error() from error
        except SyncPoolClosed as error:
            raise DatabaseUnavailable(_INTERRUPTED) from error


class PostgresAsyncStore:
    """For one event loop."""

    place: str | None = None
    claims_plainly = True

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._pool: PostgresPool | None = None
        self._is_ready = False
        self._is_closed = False

    @property
    def migrates_itself(self) -> bool:
        return self._store.config.auto_migrate

    @property
    def bulk(self) -> Bulk | None:
        return Bulk.LINES if self._store.config.clock is None else None  # what they do not say is the server's time

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:  # noqa: ARG002 - as in the sync store
        try:
            async with self._connection() as connection:
                with translated():
                    try:
                        result = await adrive(
                            verb(),
                            lambda statement: self._execute(connection, statement),
                            begin=lambda: connection.execute(_BEGIN),
                        )
                    except Exception:
                        # Not for a cancelled task: its connection is busy, and the pool closes it.
                        if _may_roll_back(connection):
                            await connection.rollback()
                        raise
                    if _is_begun(connection):
                        await connection.commit()
                    return result
        except DatabaseUnavailable:
            if self._pool is not None:
                await self._pool.check()
            raise

    async def borrow(self, tx: object, *, read_only: bool = False) -> AsyncBorrowed:
        borrowed = recognise_async(tx, self._store)
        await self.ensure_ready()
        if self._store.identity is None:
            await self._identify()
        try:
            await borrowed.begin(read_only=read_only)
        except WrongDatabase:
            if not await self._identify():
                raise
            await borrowed.begin(read_only=read_only)
        return borrowed

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncOwnTransaction]:
        await self.ensure_ready()
        async with open_async_transaction(self._store) as transaction:
            yield transaction

    async def _identify(self) -> bool:
        """As in the sync store."""
        return self._store.is_another(await self.run(identify_database, read_only=True))

    async def ensure_ready(self) -> None:
        if not self._is_ready:
            if self._store.config.auto_migrate:
                await self.migrate()
            await self.run(lambda: check_schema(known_migrations(self._store.library), CODE_VERSION), read_only=True)
            self._is_ready = True

    async def migrate(self) -> Sequence[Migration]:
        async with self._connection() as connection:
            with translated():
                for _ in range(_MIGRATION_TRIES):
                    with contextlib.suppress(LockNotAvailable):
                        async with connection.transaction():
                            return await adrive(
                                self._store.migration(), lambda statement: self._execute(connection, statement)
                            )
                    await asyncio.sleep(_MIGRATION_PAUSE_SECONDS)
        raise DatabaseUnavailable(_IN_THE_WAY)

    async def enable_incremental_vacuum(self) -> None:
        raise InvalidOption("enable_incremental", "yes", _ONLY_SQLITE)

    async def close(self) -> None:
        self._is_closed = True
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def _execute(self, connection: psycopg.AsyncConnection[Any], statement: Statement) -> Rows:
        parameters = self._store.parameters(statement)
        script = self._store.raw_script(statement)
        prepared = prepared_on(connection) if script.is_prepared else None
        rows: Rows = ()
        for part in script.parts:
            chosen = [parameters[name] for name in part.parameters]
            if prepared is not None:
                rows = await connection.wait(prepared.run(part.encoded, chosen))
                continue
            cursor = connection.cursor(binary=True, row_factory=tuple_row)
            if statement.lines is not None:
                async with cursor.copy(part.encoded) as copy:
                    for lines in statement.lines():
                        await copy.write(lines)
                continue
            await cursor.execute(part.encoded, chosen)
            if _has_rows(cursor):
                rows = await cursor.fetchall()
        return rows

    def _connection(self) -> _Taken:
        return _Taken(self._pool or self._open(), self._store)

    def _open(self) -> PostgresPool:
        if self._is_closed:
            raise ClientClosed
        self._pool = PostgresPool(self._connect, self._store.config.pool_size)
        return self._pool

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        connection = await psycopg.AsyncConnection.connect(self._store.conninfo, **self._store.own_connection_options)
        try:
            await _adapt_async(connection, pooled=self._store.config.pooled)
        except BaseException:
            await connection.close()
            raise
        return connection


class _Taken:
    """A connection for a block; a class, because the event loop takes note of each asynchronous generator."""

    def __init__(self, pool: PostgresPool, store: PostgresStore) -> None:
        self._pool = pool
        self._store = store

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        try:
            self._connection = await self._pool.take()
        except NoConnection as error:
            raise await asyncio.to_thread(self._store.timeout_error) from error
        except PoolClosed as error:
            raise DatabaseUnavailable(_INTERRUPTED) from error
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        self._pool.give_back(self._connection)


def _has_rows(cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any]) -> bool:
    """As its description says, which makes an object of every column."""
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


def _is_begun(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return connection.pgconn.transaction_status != TransactionStatus.IDLE


def _may_roll_back(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    return not connection.closed and connection.info.transaction_status in (
        TransactionStatus.INTRANS,
        TransactionStatus.INERROR,
    )


def _sever(connection: psycopg.Connection[Any]) -> None:
    """Whoever waits for an answer on it gets an error; closing it would leave him waiting."""
    with contextlib.suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


class _Translated:
    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, psycopg.Error):
            raise _ours(error) from error


_translated = _Translated()


def translated() -> contextlib.AbstractContextManager[None]:
    """Psycopg's errors on our own connections, as ours."""
    return _translated


def _ours(error: psycopg.Error) -> StoreError:
    match None if error.sqlstate is None else meaning_of_sqlstate(error.sqlstate):
        case Meaning.CONFLICT:
            return SerializationConflict(str(error))
        case Meaning.NOT_MIGRATED:
            return NotMigrated(0, 1)
        case Meaning.REFERENCED:
            return RowReferenced(str(error).strip())
        case Meaning.UNAVAILABLE | Meaning.READ_ONLY:  # we ask for nothing read-only: after a fail-over it is a replica
            return DatabaseUnavailable(str(error).strip())
        case _ if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return DatabaseUnavailable(str(error).strip() or type(error).__name__)
        case _:
            return StoreError(f"{type(error).__name__}: {error}")
