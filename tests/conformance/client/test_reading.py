"""Reading and listing through the clients, and locks in the caller's own transaction."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, JobFilter, JobHandle, Retry, Status
from holdfast.errors import ChainNotFound, InvalidCursor, InvalidOption, JobNotFound
from holdfast.model.ids import new_id
from holdfast.testing import adrain
from tests.conformance.client.conftest import Place, settled


def _work(app: App, queue: str = "default") -> JobHandle[..., Any]:
    async def work(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n

    return app.job(queue=queue, retry=Retry(max_attempts=1))(work)


def _two_steps(app: App) -> JobHandle[..., Any]:
    async def second(ctx: Context, n: int) -> int:
        return n + 1

    following = app.job()(second)

    async def first(ctx: Context, n: int) -> int:
        return await ctx.continue_with(following.call(n=n))

    return app.job()(first)


@asynccontextmanager
async def _transaction(place: Place) -> AsyncIterator[Any]:
    """The caller's own; rolled back unless the block commits."""
    connection = await place.connect()
    try:
        yield connection
    finally:
        await settled(connection.rollback())
        await settled(connection.close())


async def _collected(found: Any) -> list[Any]:
    return [item async for item in found] if inspect.isasyncgen(found) else list(found)


class Reading:
    """The same on both databases and both faces."""

    async def test_chain(self, place: Place) -> None:
        """By id in any spelling, by what enqueue returned, by a job; its end is that of its last job."""
        client = place.client
        enqueued = await settled(client.enqueue(_two_steps(place.app).call(n=1)))
        chain = await settled(client.get_chain(enqueued))
        assert (chain.id, chain.type_name, chain.status, chain.job_count) == (enqueued.id, "first", "pending", 1)
        await adrain(place.app)
        chain = await settled(client.get_chain(uuid.UUID(enqueued.id)))
        assert (chain.status, chain.output, chain.error, chain.job_count) == (Status.COMPLETED, 2, None, 2)
        assert (chain.tail.type_name, chain.tail.chain_index) == ("second", 1)
        assert chain.finished_at == chain.tail.finished_at
        for named in (chain, chain.tail, enqueued.id.upper()):
            assert await settled(client.find_chain(named)) == chain
        jobs = (await settled(client.list_chain_jobs(chain))).items
        assert [(job.type_name, job.is_tail) for job in jobs] == [("first", False), ("second", True)]

    async def test_what_is_no_chain(self, place: Place) -> None:
        """An id nobody has, a later job's id, and what is no id at all."""
        client = place.client
        chain = await settled(client.enqueue(_two_steps(place.app).call(n=1)))
        await adrain(place.app)
        later = (await settled(client.get_chain(chain))).tail.id
        for unknown in (new_id(), later):
            assert await settled(client.find_chain(unknown)) is None
            with pytest.raises(ChainNotFound):
                await settled(client.get_chain(unknown))
            assert (await settled(client.list_chain_jobs(unknown))).items == []
        for wrong in ("17", None, b"x"):
            for read in (
                client.get_chain, client.find_chain, client.list_chain_jobs, client.list_blocked_jobs,
                client.get_blockers, client.get_job,
            ):  # fmt: skip
                with pytest.raises(InvalidOption, match="id="):
                    await settled(read(wrong))
        for option in ("ids", "chain_ids"):
            filters: dict[str, Any] = {option: "17"}
            with pytest.raises(InvalidOption, match="17"):
                await settled(client.list_jobs(**filters))

    async def test_lists(self, place: Place) -> None:
        """Jobs and chains by the same fields; pages by cursors that belong to their list."""
        client, work = place.client, _work(place.app)
        ids = [
            (await settled(client.enqueue(work.call(n), tenant=f"t{abs(n) % 2}"))).id for n in (1, -2, 3, -4, 5)
        ]  # fmt: skip
        steps = await settled(client.enqueue(_two_steps(place.app).call(n=9)))
        await adrain(place.app)

        async def listed(**filters: Any) -> tuple[list[str], list[str]]:
            jobs = await settled(client.list_jobs(**filters))
            chains = await settled(client.list_chains(**filters))
            return [job.id for job in jobs.items], [chain.id for chain in chains.items]

        dead, done = [ids[3], ids[1]], [ids[4], ids[2], ids[0]]
        assert await listed(status="dead_letter") == (dead, dead)
        assert await listed(status=[Status.DEAD_LETTER, "cancelled"], tenant="t0") == (dead, dead)
        assert await listed(tenant="t1", status=["completed"]) == (done, done)
        assert await listed(ids=ids[:2]) == ([ids[1], ids[0]], [ids[1], ids[0]])
        assert await listed(since=datetime.now(UTC) + timedelta(hours=1)) == ([], [])
        assert (await listed(until=datetime.now(UTC), queue="default"))[1] == [steps.id, *ids[::-1]]
        jobs, chains = await listed(chain_type_name="first")
        assert (len(jobs), chains) == (2, [steps.id])
        assert (await settled(client.list_chains(type_name="first"))).items[0].output == 10
        page = await settled(client.list_chains(limit=4, newest_first=False))
        rest = await settled(client.list_chains(limit=4, newest_first=False, cursor=page.next_cursor))
        assert [chain.id for chain in page.items + rest.items] == [*ids, steps.id]
        with pytest.raises(InvalidCursor):
            await settled(client.list_jobs(limit=4, newest_first=False, cursor=page.next_cursor))
        with pytest.raises(TypeError, match="color"):
            await settled(client.list_jobs(color="red"))

    async def test_iterating(self, place: Place) -> None:
        """Every job once over many pages, either way; oldest first, what is enqueued meanwhile comes too."""
        client, work = place.client, _work(place.app)
        await settled(client.enqueue_many([work.call(n) for n in range(7)], tenant="t"))
        await settled(client.enqueue(work.call(99)))
        found = await _collected(client.iter_jobs(page_size=3, tenant="t"))
        assert [job.input["n"] for job in found] == [6, 5, 4, 3, 2, 1, 0]
        seen: list[int] = []
        jobs = client.iter_jobs(page_size=2, tenant="t", newest_first=False)
        if place.face == "sync":
            for job in jobs:
                seen.append(job.input["n"])
                if len(seen) == 3:
                    client.enqueue(work.call(7), tenant="t")
        else:
            async for job in jobs:
                seen.append(job.input["n"])
                if len(seen) == 3:
                    await client.enqueue(work.call(7), tenant="t")
        assert seen == list(range(8))
        assert await _collected(client.iter_jobs(status=[])) == []
        with pytest.raises(InvalidOption, match="status"):
            await _collected(client.iter_jobs(status="done"))

    async def test_blockers(self, place: Place) -> None:
        """What a job waits for, in the order given, and who waits for a chain."""
        client, work = place.client, _work(place.app)
        good, bad = await settled(client.enqueue_many([work.call(4), work.call(-1)]))
        waiting = await settled(client.enqueue(work.call(8), blockers=[bad, good]))
        before = await settled(client.get_blockers(waiting.id))
        assert [(each.chain_id, each.status) for each in before] == [(bad.id, "pending"), (good.id, "pending")]
        assert [job.id for job in (await settled(client.list_blocked_jobs(good))).items] == [waiting.id]
        await adrain(place.app)
        after = await settled(client.get_blockers(waiting.id))
        assert [(each.status, each.output) for each in after] == [("dead_letter", None), ("completed", 4)]
        assert after[0].error.message == "negative"
        assert (await settled(client.list_blocked_jobs(good))).items == []
        page = await settled(client.list_blocked_jobs(bad.id))
        assert [(job.id, job.waiting_for, job.status) for job in page.items] == [(waiting.id, 1, "blocked")]
        assert await settled(client.get_blockers(good.id)) == []

    async def test_own_writes_are_read(self, place: Place) -> None:
        """With tx=, what this transaction has enqueued is there; for others it is not."""
        client, work = place.client, _work(place.app)
        await settled(client.list_jobs())
        async with _transaction(place) as connection:
            chain = await settled(client.enqueue(work.call(1), tx=connection))
            assert (await settled(client.get_job(chain.id, tx=connection))).input == {"n": 1}
            assert (await settled(client.find_job(chain.id, tx=connection))).input == {"n": 1}
            assert (await settled(client.get_chain(chain, tx=connection))).status == "pending"
            assert (await settled(client.find_chain(chain, tx=connection))).status == "pending"
            assert await settled(client.get_blockers(chain.id, tx=connection)) == []
            with pytest.raises(JobNotFound):
                await settled(client.get_job(chain.id))
            with pytest.raises(ChainNotFound):
                await settled(client.get_chain(new_id(), tx=connection))
            assert await settled(client.find_job(new_id(), lock=True, tx=connection)) is None
            await settled(connection.commit())
        assert (await settled(client.get_job(chain.id))).input == {"n": 1}

    async def test_lock_needs_a_transaction(self, place: Place) -> None:
        """Otherwise it would be over before the caller has the answer; nothing is asked."""
        chain = await settled(place.client.enqueue(_work(place.app).call(1)))
        for read in (place.client.get_job, place.client.find_job, place.client.get_chain, place.client.find_chain):
            with pytest.raises(InvalidOption, match="tx=") as caught:
                await settled(read(chain.id, lock=True))
            assert caught.value.option == "lock"

    @pytest.mark.parametrize("what", ["job", "chain"])
    async def test_lock_keeps_others_out(self, place: Place, what: str) -> None:
        """Until the transaction ends nobody else can change the job; then they can."""
        chain = await settled(place.client.enqueue(_work(place.app).call(1)))
        read = place.client.get_job if what == "job" else place.client.get_chain
        async with _transaction(place) as connection:
            found = await settled(read(chain.id, lock=True, tx=connection))
            assert found.status == "pending"
            assert await asyncio.to_thread(_is_locked, place, chain.id)
            await settled(connection.rollback())
            assert not await asyncio.to_thread(_is_locked, place, chain.id)

    async def test_plain_reads_lock_nothing(self, place: Place) -> None:
        """A job that is being looked at can be changed; a locked one can be looked at."""
        chain = await settled(place.client.enqueue(_work(place.app).call(1)))
        await settled(place.client.get_job(chain.id))
        assert not await asyncio.to_thread(_is_locked, place, chain.id)
        async with _transaction(place) as connection:
            await settled(place.client.get_job(chain.id, lock=True, tx=connection))
            assert (await settled(place.client.get_job(chain.id))).status == "pending"
            assert (await settled(place.client.get_chain(chain))).status == "pending"


def _is_locked(place: Place, job_id: str) -> bool:
    """Whether somebody else must wait to change the job."""
    if place.app.store.dialect == "sqlite":
        with closing(sqlite3.connect(place.url.removeprefix("sqlite:///"), timeout=0)) as other:
            try:
                other.execute("UPDATE holdfast_job SET priority = 1 WHERE id = ?", [job_id])
            except sqlite3.OperationalError as error:
                return "locked" in str(error)
            other.rollback()
            return False
    with psycopg.connect(place.url) as other:
        other.execute("SET LOCAL lock_timeout = '50ms'")
        try:
            other.execute("UPDATE holdfast.job SET priority = 1 WHERE id = %s", [job_id])
        except psycopg.errors.LockNotAvailable:
            return True
        finally:
            other.rollback()
        return False


class TestSqlite(Reading):
    """Jobs in a file."""

    @pytest.fixture
    def place(self, sqlite_place: Place) -> Place:
        return sqlite_place

    async def test_lock_in_a_deferred_transaction(self, place: Place) -> None:
        """Begun without a lock of its own, the caller's transaction has one from the locking read on."""
        chain = await settled(place.client.enqueue(_work(place.app).call(1)))
        connection = await place.connect(autocommit=True)
        try:
            await settled(connection.execute("BEGIN"))
            assert not await asyncio.to_thread(_is_locked, place, chain.id)
            await settled(place.client.get_chain(chain, lock=True, tx=connection))
            assert await asyncio.to_thread(_is_locked, place, chain.id)
            await settled(connection.execute("ROLLBACK"))
        finally:
            await settled(connection.close())


class TestPostgres(Reading):
    """Jobs in each PostgreSQL that is installed."""

    @pytest.fixture
    def place(self, postgres_place: Place) -> Place:
        return postgres_place

    async def test_lock_waits_for_the_writer(self, place: Place) -> None:
        """A lock that had to wait returns what the writer left behind, not what was there when it was asked for."""
        chain = await settled(place.client.enqueue(_work(place.app).call(1)))
        writer = await psycopg.AsyncConnection.connect(place.url)
        async with _transaction(place) as connection:
            await writer.execute("UPDATE holdfast.job SET priority = 77 WHERE id = %s", [chain.id])

            async def read() -> Any:
                if place.face == "sync":
                    return await asyncio.to_thread(place.client.get_job, chain.id, lock=True, tx=connection)
                return await place.client.get_job(chain.id, lock=True, tx=connection)

            waiting = asyncio.create_task(read())
            assert not (await asyncio.wait([waiting], timeout=0.2))[0]
            await writer.commit()
            assert (await waiting).priority == 77
        await writer.close()

    async def test_foreign_keys_are_not_locked_out(self, place: Place) -> None:
        """Rows of a user's table may point at a job that somebody has locked."""
        chain = await settled(place.client.enqueue(_work(place.app).call(1)))
        async with _transaction(place) as connection:
            await settled(place.client.get_job(chain.id, lock=True, tx=connection))
            async with await psycopg.AsyncConnection.connect(place.url) as other:
                await other.execute("SET LOCAL lock_timeout = '200ms'")
                await other.execute("SELECT FROM holdfast.job WHERE id = %s FOR KEY SHARE", [chain.id])


def test_filters_are_the_fields_of_job_filter() -> None:
    """What a list takes by keyword is what a filter has."""
    from holdfast.model.job_filter import JobFilterFields

    assert JobFilterFields.__annotations__.keys() == inspect.signature(JobFilter).parameters.keys()
