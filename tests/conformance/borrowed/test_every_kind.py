"""What holds for every kind of borrowed connection: the job shares the fate of the application's own writes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import AbortedTransaction, WrongConnection
from holdfast.model.ids import new_id
from holdfast.operations.get_job import find_job
from tests.conformance.borrowed.kinds import KINDS, Kind, Opened
from tests.conformance.borrowed.shop import Shop


def _named(dialect: str) -> list[Any]:
    return [pytest.param(kind, id=kind.name) for kind in KINDS if kind.dialect == dialect]


class EveryKind:
    """The cases; a subclass says which database and which kinds."""

    @pytest.fixture
    async def opened(self, kind: Kind, shop: Shop) -> AsyncIterator[Opened]:
        async with kind.open(shop, None) as opened:
            yield opened

    async def test_a_job_enqueued_first_comes_with_the_commit(self, opened: Opened) -> None:
        """The enqueue is the first statement of the transaction; nobody sees the job before the commit."""
        job = await opened.enqueue()
        assert not opened.shop.has(job)
        await opened.write("mine")
        await opened.commit()
        assert opened.shop.has(job)
        assert opened.shop.notes() == ["mine"]

    async def test_a_job_enqueued_last_comes_with_the_commit(self, opened: Opened) -> None:
        """The enqueue joins the transaction that the application's write began."""
        await opened.write("mine")
        job = await opened.enqueue()
        assert not opened.shop.has(job)
        await opened.commit()
        assert opened.shop.has(job)
        assert opened.shop.notes() == ["mine"]

    @pytest.mark.parametrize("order", ["first", "last"])
    async def test_a_rollback_takes_the_job_along(self, opened: Opened, order: str) -> None:
        """Whoever began the transaction; and the connection works on."""
        if order == "last":
            await opened.write("mine")
        lost = await opened.enqueue()
        if order == "first":
            await opened.write("mine")
        await opened.rollback()
        kept = await opened.enqueue()
        await opened.commit()
        assert not opened.shop.has(lost)
        assert opened.shop.has(kept)
        assert opened.shop.notes() == []

    async def test_only_the_enqueue_in_a_transaction(self, opened: Opened) -> None:
        """The transaction has no other statement than ours."""
        lost = await opened.enqueue()
        await opened.rollback()
        assert not opened.shop.has(lost)
        kept = await opened.enqueue()
        await opened.commit()
        assert opened.shop.has(kept)

    async def test_a_savepoint_rolled_back_takes_its_jobs_only(self, opened: Opened) -> None:
        """Jobs before and after the savepoint stay."""
        before = await opened.enqueue()
        await opened.sql("SAVEPOINT inner_part")
        inside = await opened.enqueue()
        await opened.write("inside")
        await opened.sql("ROLLBACK TO SAVEPOINT inner_part")
        after = await opened.enqueue()
        await opened.commit()
        assert [opened.shop.has(job) for job in (before, inside, after)] == [True, False, True]
        assert opened.shop.notes() == []

    @pytest.mark.parametrize("ending", ["commit", "rollback"])
    async def test_a_released_savepoint_shares_the_outer_fate(self, opened: Opened, ending: str) -> None:
        """A release commits nothing."""
        await opened.write("outer")
        await opened.sql("SAVEPOINT inner_part")
        inside = await opened.enqueue()
        await opened.sql("RELEASE SAVEPOINT inner_part")
        assert not opened.shop.has(inside)
        await getattr(opened, ending)()
        assert opened.shop.has(inside) is (ending == "commit")

    async def test_an_id_that_exists_is_reported_and_kept(self, opened: Opened) -> None:
        """Enqueueing again is answered by a row, so the transaction stays usable."""
        job = await opened.enqueue(new_id())
        await opened.commit()
        await opened.enqueue(job)
        assert opened.shop.existing == {job: "pending"}
        await opened.write("mine")
        await opened.commit()
        assert opened.shop.notes() == ["mine"]

    async def test_an_error_of_the_driver_goes_through(self, opened: Opened, shop: Shop) -> None:
        """What the database says inside the user's transaction reaches the user in the driver's own words."""
        with shop.connection() as other:
            table = "holdfast.job" if shop.dialect == "postgres" else "holdfast_job"
            other.execute(f"ALTER TABLE {table} RENAME COLUMN tenant TO lodger")
        with pytest.raises(Exception, match="tenant") as caught:
            await opened.enqueue()
        module = type(caught.value).__module__.partition(".")[0]
        assert module in ("psycopg", "asyncpg", "sqlite3", "sqlalchemy", "django")
        await opened.rollback()

    async def test_the_wrong_client_is_told_so(self, opened: Opened, shop: Shop) -> None:
        """An async connection on the sync client and the other way round, before anything is sent."""
        other = replace(opened, is_async=not opened.is_async)
        fix = "app.async_client()" if opened.is_async else "app.client()"
        with pytest.raises(WrongConnection, match=re.escape(fix)):
            await other.enqueue()


@pytest.mark.parametrize("kind", _named("postgres"))
class TestPostgres(EveryKind):
    """All of it, and what only a server can do."""

    @pytest.fixture
    def shop(self, postgres_shop: Shop) -> Shop:
        return postgres_shop

    @pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
    async def test_the_users_isolation_level_stays(self, kind: Kind, shop: Shop, isolation: str) -> None:
        """The enqueue runs at the level that the application chose."""
        async with kind.open(shop, isolation) as opened:
            await opened.write("mine")
            job = await opened.enqueue()
            await opened.sql(
                f"DO $$ BEGIN ASSERT upper(current_setting('transaction_isolation')) = '{isolation}'; END $$"
            )
            await opened.commit()
            assert shop.has(job)

    async def test_an_aborted_transaction_is_refused(self, opened: Opened) -> None:
        """The user's own error came first; a rollback makes the connection usable again."""
        await opened.write("mine")
        with pytest.raises(Exception, match="division by zero"):
            await opened.sql("SELECT 1 / 0")
        with pytest.raises(AbortedTransaction, match="roll it back first"):
            await opened.enqueue()
        await opened.rollback()
        job = await opened.enqueue()
        await opened.commit()
        assert opened.shop.has(job)
        assert opened.shop.notes() == []


@pytest.mark.parametrize("kind", _named("sqlite"))
class TestSqlite(EveryKind):
    """All of it, and the write lock."""

    @pytest.fixture
    def shop(self, sqlite_shop: Shop) -> Shop:
        return sqlite_shop

    async def test_the_write_lock_is_taken_before_the_first_read(self, opened: Opened, shop: Shop) -> None:
        """A transaction that reads first and then wants to write fails at once if somebody else wrote meanwhile."""
        await opened.run(lambda: find_job(new_id()))
        with shop.connection() as other, pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        await opened.rollback()
