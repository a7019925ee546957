"""`client.wait`, on both databases and both faces."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import App, Context, JobHandle, Status, SyncContext
from holdfast.client import attendance, waiting
from holdfast.errors import (
    ChainCancelled,
    ChainDeleted,
    ChainFailed,
    ChainNotCommitted,
    ChainNotFound,
    InvalidOption,
    InvalidPayload,
    NotMigrated,
    WaitRefused,
    WaitTimeout,
)
from holdfast.model.ids import new_id
from holdfast.model.running import running
from holdfast.testing import adrain
from tests.conformance.backdoors import PostgresBackdoor, SqliteBackdoor
from tests.conformance.client.conftest import Place, settled

#: far longer than any of these waits needs
PATIENCE = 20.0


@dataclass
class Receipt:
    number: int
    paid_at: datetime


RECEIPT = Receipt(17, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def _pay(app: App) -> JobHandle[[int], Receipt]:
    def pay(number: int) -> Receipt:
        if number < 0:
            raise ValueError(f"no order {number}")
        return RECEIPT

    return app.job()(pay)


class Waits:
    """A place, and waits that do not hold up the event loop."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.app = place.app
        self.pay = _pay(place.app)

    async def enqueue(self, **options: Any) -> Any:
        return await settled(self.place.client.enqueue(self.pay.call(17), **options))

    async def wait(self, chain: Any, timeout: Any = PATIENCE) -> Any:
        if self.place.face == "sync":
            return await asyncio.to_thread(self.place.client.wait, chain, timeout)
        return await self.place.client.wait(chain, timeout)

    def waiting(self, chain: Any, timeout: float = PATIENCE) -> asyncio.Task[Any]:
        return asyncio.create_task(self.wait(chain, timeout))

    async def other(self, work: Callable[[Any], Awaitable[Any]]) -> Any:
        """What another client does meanwhile."""
        async with self.app.async_client() as client:
            return await work(client)

    def desks(self) -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "holdfast-waiting"]

    def execute(self, text: str) -> list[Any]:
        """Plain SQL; {} stands before the names of our tables."""
        if self.app.store.dialect == "postgres":
            with psycopg.connect(self.place.url, autocommit=True) as connection:
                cursor = connection.execute(text.format("holdfast.").encode())
                return cursor.fetchall() if cursor.description else []
        path = self.place.url.removeprefix("sqlite:///")
        return list(SqliteBackdoor(path).execute(text.format("holdfast_"), {}))

    def listeners(self) -> list[Any]:
        """On PostgreSQL, connections whose last statement was a LISTEN for the ends of chains."""
        text = "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%chain%'"
        return self.execute(text) if self.app.store.dialect == "postgres" else []

    def announced(self) -> int:
        return self.execute("SELECT count(*) FROM {}waiter")[0][0] if self.app.store.dialect == "postgres" else 0

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - what is watched has no event
                await asyncio.sleep(0.01)

    async def is_attended(self, count: int = 1) -> None:
        """Until so many wait at the desk, and are announced where that is done."""
        await self.until(lambda: bool(self.desks()) and self.app._attendance.crowd >= count)
        if self.app.store.dialect == "postgres" and self.app._notify:
            await self.until(lambda: self.announced() >= count)


class Promises:
    """The same on both databases."""

    async def test_finished_already(self, waits: Waits) -> None:
        """Returns at once what the handler returned, as the job type declares it."""
        chain = await waits.enqueue()
        await adrain(waits.app)
        began = time.monotonic()
        assert await waits.wait(chain) == RECEIPT
        assert await waits.wait(chain.id) == RECEIPT
        assert await waits.wait(chain.id.upper(), timedelta(seconds=1)) == RECEIPT
        assert await waits.wait(chain, None) == RECEIPT
        assert await waits.wait(chain, 0) == RECEIPT
        assert time.monotonic() - began < 2
        assert waits.desks() == []

    async def test_a_worker_finishes_it(self, waits: Waits) -> None:
        """Whether it is fast or slow."""

        async def sleepy(seconds: float) -> float:
            await asyncio.sleep(seconds)
            return seconds

        job = waits.app.job(queue="sleepy")(sleepy)
        async with waits.app.worker():
            for seconds in (0.0, 0.5):
                chain = await settled(waits.place.client.enqueue(job.call(seconds)))
                assert await waits.wait(chain) == seconds

    async def test_hint_wakes(self, waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
        """A waiter that hardly ever looks is told: by a worker, and by whoever completes the chain from outside."""
        monkeypatch.setattr(attendance, "_SHORTEST_POLL", 1000.0)
        monkeypatch.setattr(attendance, "_LONGEST_POLL", 1000.0)
        monkeypatch.setattr(waiting, "_ALONE_SECONDS", 0.0)
        for by_worker in (True, False):
            chain = await waits.enqueue()
            task = waits.waiting(chain)
            await waits.is_attended()
            await asyncio.sleep(0.2)
            if by_worker:
                await adrain(waits.app)
            else:
                await waits.other(lambda client: client.complete_job(chain.id, RECEIPT))  # noqa: B023 - awaited
            assert await task == RECEIPT

    async def test_without_hints(self, waits: Waits) -> None:
        """Everything works with no notification delivered."""
        deaf = App(waits.place.url, notify=False)
        pay = _pay(deaf)
        async with deaf.async_client() as client:
            chain = await client.enqueue(pay.call(1))
            task = asyncio.create_task(client.wait(chain, PATIENCE))
            await waits.until(lambda: bool(waits.desks()))
            assert waits.announced() == 0
            await adrain(deaf)
            assert await task == RECEIPT
        deaf.close()

    async def test_end_of_a_chain(self, waits: Waits) -> None:
        """Not before its last job; the output is the chain's."""
        chain = await waits.enqueue()
        task = waits.waiting(chain)
        await waits.other(lambda client: client.complete_chain(chain.id, waits.pay.call(1)))
        with pytest.raises(WaitTimeout, match="it is pending"):
            await waits.wait(chain, 0.3)
        assert not task.done()
        await waits.other(lambda client: client.complete_chain(chain.id, RECEIPT))
        assert await task == RECEIPT

    @pytest.mark.parametrize("seconds", [0, 0.05, 0.5])
    async def test_timeout(self, waits: Waits, seconds: float) -> None:
        """Raised in time, with the state of the chain, which goes on."""
        chain = await waits.enqueue(delay=3600)
        began = time.monotonic()
        with pytest.raises(WaitTimeout) as caught:
            await waits.wait(chain, seconds)
        assert seconds <= time.monotonic() - began < seconds + 2
        error = caught.value
        assert (error.chain_id, error.timeout_seconds, error.status) == (chain.id, seconds, "pending")
        assert isinstance(error, TimeoutError)
        assert (await settled(waits.place.client.get_job(chain.id))).status is Status.PENDING
        assert waits.desks() == []

    @pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "1", True])
    async def test_no_timeout(self, waits: Waits, wrong: object) -> None:
        chain = await waits.enqueue()
        with pytest.raises(InvalidOption, match="timeout="):
            await waits.wait(chain, wrong)

    async def test_unknown(self, waits: Waits) -> None:
        """An id that nobody has, that of a later job, and what is no id."""
        with pytest.raises(ChainNotFound) as caught:
            await waits.wait(new_id())
        assert type(caught.value) is ChainNotFound
        chain = await waits.enqueue()
        later = await settled(waits.place.client.complete_chain(chain, waits.pay.call(1)))
        with pytest.raises(ChainNotFound):
            await waits.wait(later.id)
        with pytest.raises(InvalidOption, match="id="):
            await waits.wait("no id")

    async def test_deleted_meanwhile(self, waits: Waits) -> None:
        """While somebody waits, and between its enqueue and the wait."""
        chain = await waits.enqueue()
        task = waits.waiting(chain)
        await waits.is_attended()
        await waits.other(lambda client: client.delete_chains([chain.id]))
        with pytest.raises(ChainDeleted) as caught:
            await task
        assert caught.value.chain_id == chain.id
        with pytest.raises(ChainDeleted):
            await waits.wait(chain)

    async def test_dead_letter(self, waits: Waits) -> None:
        """The error of the last attempt comes with it."""
        chain = await settled(waits.place.client.enqueue(waits.pay.call(-1), max_attempts=1))
        task = waits.waiting(chain)
        await adrain(waits.app)
        with pytest.raises(ChainFailed, match="ValueError: no order -1") as caught:
            await task
        error = caught.value
        assert (error.chain_id, error.job_id) == (chain.id, chain.id)
        assert (error.error_type, error.error_message) == ("ValueError", "no order -1")
        assert "Traceback" in (error.error_traceback or "")

    async def test_cancelled(self, waits: Waits) -> None:
        """With the reason."""
        chain = await waits.enqueue(delay=3600)
        task = waits.waiting(chain)
        await waits.is_attended()
        await waits.other(lambda client: client.cancel(chain.id, reason="changed my mind"))
        with pytest.raises(ChainCancelled, match="changed my mind") as caught:
            await task
        assert caught.value.chain_id == chain.id

    async def test_output_of_an_unknown_type(self, waits: Waits) -> None:
        """Plain JSON; and one that does not fit its type says so."""
        chain = await waits.enqueue()
        await adrain(waits.app)
        stranger = App(waits.place.url, notify=False)
        async with stranger.async_client() as client:
            assert await client.wait(chain.id) == {"number": 17, "paid_at": "2026-01-02T03:04:05Z"}
        stranger.close()
        waits.execute('UPDATE {}job SET output = \'{{"number": "x"}}\'')
        with pytest.raises(InvalidPayload, match="pay"):
            await waits.wait(chain)

    async def test_refused_in_a_handler(self, waits: Waits) -> None:
        """It would hold the slot that the chain may need."""
        chain = await waits.enqueue()
        with running("job-1"), pytest.raises(WaitRefused, match="blockers=") as caught:
            await waits.wait(chain)
        assert caught.value.job_id == "job-1"

    async def test_handlers_are_refused(self, waits: Waits) -> None:
        """By the worker that runs them, on the event loop and in threads; also in what they hand on to threads.

        In a thread of the handler's own nothing but the context's client knows.
        """
        other = await waits.enqueue(delay=3600)

        async def plain(ctx: Context) -> None:
            await ctx.client.wait(other.id, 0.1)

        async def in_thread(ctx: Context) -> None:
            with waits.app.client() as client:
                await asyncio.to_thread(client.wait, other.id, 0.1)

        def threaded(ctx: SyncContext) -> None:
            ctx.client.wait(other.id, 0.1)

        def in_own_thread(ctx: SyncContext) -> None:
            with ThreadPoolExecutor(1) as threads:
                threads.submit(ctx.client.wait, other.id, 0.1).result()

        chains = []
        for handler in (plain, in_thread, threaded, in_own_thread):
            job: JobHandle[[], None] = waits.app.job(queue="handlers")(handler)
            chains.append(await settled(waits.place.client.enqueue(job.call(), max_attempts=1)))
        await adrain(waits.app, queues=["handlers"])
        for chain in chains:
            with pytest.raises(ChainFailed, match="WaitRefused"):
                await waits.wait(chain)
        with pytest.raises(WaitTimeout):
            await waits.wait(other, 0.1)  # nobody else is in a handler

    async def test_inside_the_enqueuing_transaction(self, waits: Waits) -> None:
        """Nobody can see the chain before the commit, so nothing can finish it."""
        await settled(waits.place.client.list_jobs())
        connection = await waits.place.connect()
        try:
            chain = await settled(waits.place.client.enqueue(waits.pay.call(1), tx=connection))
            with pytest.raises(ChainNotCommitted, match="tx=") as caught:
                await settled(waits.place.client.wait(chain, PATIENCE))
            assert isinstance(caught.value, ChainNotFound)
            await settled(connection.commit())
        finally:
            await settled(connection.close())
        await adrain(waits.app)
        assert await waits.wait(chain) == RECEIPT

    async def test_many_share_one_listener(self, waits: Waits) -> None:
        """Also several who wait for the same chain; nothing is left behind."""
        chains = await settled(waits.place.client.enqueue_many([waits.pay.call(n) for n in range(30)]))
        tasks = [waits.waiting(chain) for chain in (*chains, *chains[:5])]
        await waits.until(lambda: waits.app._attendance._desk is not None)
        if waits.app.store.dialect == "postgres":
            await waits.until(lambda: len(waits.listeners()) == 1)
        assert len(waits.desks()) == 1
        await adrain(waits.app)
        assert await asyncio.gather(*tasks) == [RECEIPT] * 35
        assert (waits.desks(), waits.announced()) == ([], 0)
        await waits.until(lambda: waits.listeners() == [])

    async def test_nothing_is_left_of_a_wait_that_ends(self, waits: Waits) -> None:
        """Neither thread, nor task, nor connection, nor announcement."""
        chain = await waits.enqueue(delay=3600)
        tasks = asyncio.all_tasks()
        with pytest.raises(WaitTimeout):
            await waits.wait(chain, 0.6)
        assert asyncio.all_tasks() <= tasks
        assert (waits.desks(), waits.announced()) == ([], 0)
        await waits.until(lambda: waits.listeners() == [])

    async def test_waiting_again(self, waits: Waits) -> None:
        """One after the other, and while others leave."""
        chain = await waits.enqueue(delay=3600)
        lasting = waits.waiting(chain)
        for _ in range(3):
            with pytest.raises(WaitTimeout):
                await waits.wait(chain, 0.2)
        assert not lasting.done()
        await waits.other(lambda client: client.complete_job(chain.id, RECEIPT))
        assert await lasting == RECEIPT

    async def test_what_cannot_be_mended_is_told(self, waits: Waits, monkeypatch: pytest.MonkeyPatch) -> None:
        """An error that no patience mends ends the wait, instead of lasting until its timeout."""
        monkeypatch.setattr(waiting, "_ALONE_SECONDS", 0.0)
        chain = await waits.enqueue()
        task = waits.waiting(chain)
        await waits.is_attended()
        waits.execute("ALTER TABLE {}job RENAME TO lost_job")
        try:
            with pytest.raises(NotMigrated):
                await task
        finally:
            name = "holdfast.lost_job" if waits.app.store.dialect == "postgres" else "lost_job"
            new = "job" if waits.app.store.dialect == "postgres" else "holdfast_job"
            waits.execute(f"ALTER TABLE {name} RENAME TO {new}")
        assert waits.desks() == []


@contextlib.asynccontextmanager
async def _waits(url: str, face: str) -> AsyncIterator[Waits]:
    app = App(url)
    client: Any = app.client() if face == "sync" else app.async_client()
    yield Waits(Place(app, face, url, client))
    await settled(client.close())
    app.close()


class TestSqlite(Promises):
    """Jobs in a file."""

    @pytest.fixture
    async def waits(self, face: str, sqlite_file: Path) -> AsyncIterator[Waits]:
        async with _waits(f"sqlite:///{sqlite_file}", face) as waits:
            yield waits


class TestPostgres(Promises):
    """Jobs in each PostgreSQL that is installed."""

    @pytest.fixture
    async def waits(self, face: str, postgres_database: tuple[str, PostgresBackdoor]) -> AsyncIterator[Waits]:
        async with _waits(postgres_database[0], face) as waits:
            yield waits


@pytest.mark.parametrize("face", ["sync", "async"])
async def test_connections_are_killed(postgres_database: tuple[str, PostgresBackdoor], face: str) -> None:
    """A wait outlives the connections that it uses, and is told of the end by those that come after them."""
    url, backdoor = postgres_database
    kill = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"""
    async with _waits(url, face) as waits:
        chain = await waits.enqueue()
        task = waits.waiting(chain)
        await waits.is_attended()
        for _ in range(3):
            await waits.until(lambda: len(waits.listeners()) == 1)
            assert backdoor.execute(kill, {})
            await asyncio.sleep(0.3)
        await waits.other(lambda client: client.complete_job(chain.id, RECEIPT))
        assert await task == RECEIPT
        assert (waits.desks(), waits.announced()) == ([], 0)


@pytest.mark.parametrize("seconds", [0.01, 0.5])
async def test_cancelled_task(sqlite_file: Path, seconds: float) -> None:
    """Nothing is left of a wait whose task is cancelled, early or late."""
    async with _waits(f"sqlite:///{sqlite_file}", "async") as waits:
        await _cancel(waits, seconds)


@pytest.mark.parametrize("seconds", [0.01, 0.5])
async def test_cancelled_task_on_postgres(postgres_database: tuple[str, PostgresBackdoor], seconds: float) -> None:
    """The same, and no connection, and no announcement."""
    async with _waits(postgres_database[0], "async") as waits:
        await _cancel(waits, seconds)
        assert waits.announced() == 0
        await waits.until(lambda: waits.listeners() == [])


async def _cancel(waits: Waits, seconds: float) -> None:
    chain = await waits.enqueue(delay=3600)
    before = asyncio.all_tasks()
    task = asyncio.create_task(waits.place.client.wait(chain))
    await asyncio.sleep(seconds)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert waits.desks() == []
    assert asyncio.all_tasks() <= before


def test_interrupted_thread(sqlite_file: Path) -> None:
    """Ctrl-C in a thread that waits leaves nothing either."""
    app = App(f"sqlite:///{sqlite_file}")
    pay = _pay(app)
    with app.client() as client:
        chain = client.enqueue(pay.call(1))

        def interrupt(_future: object, _seconds: object) -> None:
            raise KeyboardInterrupt

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("holdfast.client.client.result_of", interrupt)
            with pytest.raises(KeyboardInterrupt):
                client.wait(chain)
    deadline = time.monotonic() + PATIENCE
    while any(thread.name == "holdfast-waiting" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
