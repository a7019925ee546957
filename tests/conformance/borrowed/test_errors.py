"""What a driver raises inside the caller's transaction reaches the caller as ours, with the driver's as its cause."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from holdfast.errors import (
    AbortedTransaction,
    DatabaseBusy,
    DatabaseUnavailable,
    HoldfastError,
    NotMigrated,
    ReadOnlyTransaction,
    SerializationConflict,
)
from holdfast.model.ids import new_id
from holdfast.operations.get_chain import get_chain
from tests.conformance.borrowed.kinds import KINDS, Kind, Opened
from tests.conformance.borrowed.shop import Shop

_LIBRARIES = ("psycopg", "asyncpg", "sqlite3", "sqlalchemy", "django")


def _named(dialect: str) -> list[Any]:
    return [pytest.param(kind, id=kind.name) for kind in KINDS if kind.dialect == dialect]


@contextmanager
def _raises(expected: type[HoldfastError], match: str) -> Iterator[None]:
    """The error, in our words, and the driver's (or the library's over it) as its cause."""
    with pytest.raises(expected, match=match) as caught:
        yield
    assert type(caught.value) is expected
    assert type(caught.value.__cause__).__module__.partition(".")[0] in _LIBRARIES


async def _committed(opened: Opened) -> str:
    job = await opened.enqueue()
    await opened.commit()
    return job


@pytest.mark.parametrize("kind", _named("postgres"))
class TestPostgres:
    """Every kind of connection to a server."""

    @pytest.fixture
    def shop(self, postgres_shop: Shop) -> Shop:
        return postgres_shop

    @pytest.fixture
    async def opened(self, kind: Kind, shop: Shop) -> AsyncIterator[Opened]:
        async with kind.open(shop, None) as opened:
            yield opened

    @pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
    async def test_a_serialization_failure(self, kind: Kind, shop: Shop, isolation: str) -> None:
        """Somebody changed the row since the snapshot was taken: the whole transaction must be repeated."""
        async with kind.open(shop, isolation) as opened:
            job = await _committed(opened)
            await opened.sql("SELECT count(*) FROM note")
            with shop.connection() as other:
                other.execute("UPDATE holdfast.job SET priority = 7 WHERE id = %s", [job])
            with _raises(SerializationConflict, "roll back the transaction passed as tx= and repeat all of it"):
                await opened.run(lambda: get_chain(job, lock=True))
            with pytest.raises(AbortedTransaction):
                await opened.enqueue()
            await opened.rollback()
            assert (await opened.run(lambda: get_chain(job, lock=True))).id == job
            await opened.rollback()

    async def test_a_deadlock(self, opened: Opened, shop: Shop) -> None:
        """The server ends one of the two: here ours, whose patience is shorter."""
        job = await _committed(opened)
        await opened.sql("SET LOCAL deadlock_timeout = '50ms'")
        await opened.write("mine")
        has_job = threading.Event()

        def other() -> None:
            with psycopg.connect(shop.url) as connection:
                connection.execute("SET deadlock_timeout = '10min'")
                connection.execute("SELECT 1 FROM holdfast.job WHERE id = %s FOR UPDATE", [job])
                has_job.set()
                connection.execute("INSERT INTO note VALUES ('mine')")

        rival = asyncio.create_task(asyncio.to_thread(other))
        assert await asyncio.to_thread(has_job.wait, 10)
        with shop.connection() as observer:
            waiting = """SELECT count(*) FROM pg_stat_activity
                         WHERE wait_event_type = 'Lock' AND datname = current_database()"""
            while observer.execute(waiting).fetchone() == (0,):  # noqa: ASYNC110 - a lock that is waited for gives no signal
                await asyncio.sleep(0.01)
        with _raises(SerializationConflict, "deadlock"):
            await opened.run(lambda: get_chain(job, lock=True))
        await opened.rollback()
        await rival
        assert shop.notes() == ["mine"]

    async def test_a_transaction_that_may_only_read(self, opened: Opened, shop: Shop) -> None:
        """What reads works there; what writes says how to begin."""
        job = await _committed(opened)
        await opened.sql("SET TRANSACTION READ ONLY")
        assert (await opened.run(lambda: get_chain(job))).id == job
        with _raises(ReadOnlyTransaction, "without READ ONLY"):
            await opened.enqueue()
        await opened.rollback()
        assert shop.has(await _committed(opened))

    async def test_a_connection_that_is_lost(self, opened: Opened, shop: Shop) -> None:
        """Ended by the server in the middle of the transaction; what it wrote is gone."""
        await _committed(opened)
        await opened.write("mine")
        with shop.connection() as other:
            ended = other.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND state = 'idle in transaction'"
            ).fetchall()
        assert ended == [(True,)]
        with _raises(DatabaseUnavailable, "repeat the transaction passed as tx="):
            await opened.enqueue()
        assert shop.notes() == []

    async def test_tables_that_are_gone(self, opened: Opened, shop: Shop) -> None:
        """Dropped, or renamed, since the connection was looked at."""
        await _committed(opened)
        with shop.connection() as other:
            other.execute("ALTER SCHEMA holdfast RENAME TO elsewhere")
        with _raises(NotMigrated, "holdfast migrate up"):
            await opened.enqueue()
        await opened.rollback()
        with shop.connection() as other:
            other.execute("ALTER SCHEMA elsewhere RENAME TO holdfast")


@pytest.mark.parametrize("kind", _named("sqlite"))
class TestSqlite:
    """Every kind of connection to a file."""

    @pytest.fixture
    def shop(self, sqlite_shop: Shop) -> Shop:
        return sqlite_shop

    @pytest.fixture
    async def opened(self, kind: Kind, shop: Shop) -> AsyncIterator[Opened]:
        async with kind.open(shop, None) as opened:
            yield opened

    async def test_a_lock_that_somebody_else_has(self, opened: Opened, shop: Shop) -> None:
        """Waited for as long as the user's timeout says; the advice is about the other connection."""
        await opened.sql("PRAGMA busy_timeout = 50")
        with shop.connection() as other:
            other.execute("BEGIN IMMEDIATE")
            with _raises(DatabaseBusy, "a longer timeout"):
                await opened.enqueue()
            other.execute("ROLLBACK")
        await opened.rollback()
        assert shop.has(await _committed(opened))

    async def test_a_connection_that_may_only_read(self, opened: Opened, shop: Shop) -> None:
        """Set by a PRAGMA here; a file opened with mode=ro says the same."""
        await opened.sql("PRAGMA query_only = ON")
        with _raises(ReadOnlyTransaction, "PRAGMA query_only"):
            await opened.enqueue()
        await opened.rollback()
        await opened.sql("PRAGMA query_only = OFF")
        assert shop.has(await _committed(opened))

    async def test_tables_that_are_gone(self, opened: Opened, shop: Shop) -> None:
        """Renamed since the file was looked at."""
        await _committed(opened)
        with shop.connection() as other:
            other.execute("PRAGMA legacy_alter_table = ON")
            other.execute("ALTER TABLE holdfast_job RENAME TO elsewhere")
        with _raises(NotMigrated, "holdfast migrate up"):
            await opened.enqueue()
        await opened.rollback()


async def test_the_transaction_of_a_handler_says_the_same(postgres_shop: Shop) -> None:
    """Which is ours, and driven by the handler."""
    with postgres_shop.face.transaction() as tx:
        tx.execute("SET TRANSACTION READ ONLY")
        with _raises(ReadOnlyTransaction, "without READ ONLY"):
            postgres_shop.enqueue(tx)
    face = postgres_shop.store.asynchronous()
    async with face.transaction() as atx:
        await atx.execute("SET TRANSACTION READ ONLY")
        with _raises(ReadOnlyTransaction, "without READ ONLY"):
            await postgres_shop.aenqueue(atx)
    await face.close()


def test_errors_of_the_users_own_hooks_are_his(postgres_shop: Shop) -> None:
    """Even where their cause is one that we would translate."""

    class HookFailed(Exception):
        pass

    class Connection(psycopg.Connection[Any]):
        def wait(self, *args: Any, **kwargs: Any) -> Any:
            raise HookFailed from psycopg.errors.SerializationFailure("not ours")

    with psycopg.connect(postgres_shop.url) as plain:
        postgres_shop.enqueue(plain)
        plain.__class__ = Connection
        with pytest.raises(HookFailed):
            postgres_shop.enqueue(plain)
        plain.__class__ = psycopg.Connection


def test_a_psycopg_connection_found_broken(postgres_shop: Shop) -> None:
    """It was lost before the enqueue, and the driver knows: not the caller's mistake, as a closed one is."""
    with psycopg.connect(postgres_shop.url) as connection:
        with postgres_shop.connection() as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [connection.info.backend_pid])
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        with pytest.raises(DatabaseUnavailable, match="was lost"):
            postgres_shop.enqueue(connection)


def test_a_missing_right_is_the_servers_word(postgres_shop: Shop) -> None:
    """What we cannot say better stays as it is."""
    with postgres_shop.connection() as other:
        other.execute("CREATE ROLE borrowed_reader NOLOGIN")
        try:
            with psycopg.connect(postgres_shop.url) as connection:
                postgres_shop.enqueue(connection)
                connection.execute("SET ROLE borrowed_reader")
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    postgres_shop.enqueue(connection, new_id())
                connection.rollback()
        finally:
            other.execute("DROP ROLE borrowed_reader")
