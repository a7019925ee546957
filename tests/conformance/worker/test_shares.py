"""Workers that keep to their shares: what the database sees of them never exceeds a limit."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any

import pytest

from holdfast import App
from holdfast.client import Client
from holdfast.operations.reap_jobs import reap_jobs
from holdfast.operations.worker_life import forget_workers
from tests.conformance.backdoors import SqliteBackdoor
from tests.crew.limited import DEAD_AFTER, QUEUE, work, work_in_a_process, worst_excess
from tests.crew.waiting import wait_for

Place = tuple[str, Any]


def tables(place: Place) -> str:
    return "holdfast_" if isinstance(place[1], SqliteBackdoor) else "holdfast."


def running(place: Place) -> int:
    text = f"SELECT count(*) FROM {tables(place)}job WHERE status = 'running' AND queue = :queue"
    return int(place[1].execute(text, {"queue": QUEUE})[0][0])


def is_dealt_out(place: Place, limit: int, workers: int) -> bool:
    """All have been told of it, and no more may run by what they were told."""
    most = "CASE WHEN in_use > permits THEN in_use ELSE permits END"
    text = f"SELECT count(*), coalesce(sum({most}), 0) FROM {tables(place)}queue_share WHERE queue = :queue"
    ((told, dealt),) = place[1].execute(text, {"queue": QUEUE})
    return bool(told == workers and dealt <= limit)


def completed(place: Place) -> int:
    text = f"SELECT count(*) FROM {tables(place)}job WHERE status = 'completed'"
    return int(place[1].execute(text, {})[0][0])


def starts(place: Place) -> list[float]:
    """By the clock of the database, in seconds."""
    text = f"SELECT last_attempt_at FROM {tables(place)}job WHERE status = 'completed'"
    moments = [value for (value,) in place[1].execute(text, {})]
    return sorted(
        (value if isinstance(value, datetime) else datetime.fromisoformat(value)).timestamp() for value in moments
    )


@pytest.fixture
def client(place: Place) -> Any:
    app = App(place[0], notify=False)

    @app.job(queue=QUEUE)
    def nothing(n: int) -> None: ...

    with app.client() as client:
        client.enqueue_many([nothing.call(n=n) for n in range(2000)])
        yield client
    app.close()


class Most:
    """The most that was seen at a time."""

    def __init__(self) -> None:
        self.value = 0


@asynccontextmanager
async def watched(look: Callable[[], int]) -> AsyncIterator[Most]:
    most = Most()

    async def watch() -> None:
        while True:
            most.value = max(most.value, await asyncio.to_thread(look))
            await asyncio.sleep(0.001)

    watcher = asyncio.create_task(watch())
    yield most
    watcher.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watcher


@asynccontextmanager
async def crew_of(place: Place, names: list[str], hold: float = 0.02) -> AsyncIterator[None]:
    """They work until the block ends."""
    crew = asyncio.create_task(work(place[0], names, 60, hold))
    try:
        yield
    finally:
        crew.cancel()
        await asyncio.gather(crew, return_exceptions=True)


async def test_no_more_run_than_may(place: Place, client: Client) -> None:
    """Four workers of four slots each, and a limit of five: it is reached, and not exceeded."""
    client.queues.limit(QUEUE, concurrency=5)
    async with watched(lambda: running(place)) as most, crew_of(place, ["w1", "w2", "w3", "w4"]):
        await asyncio.sleep(2.5)
        await asyncio.to_thread(wait_for, lambda: most.value >= 3 and completed(place) > 50, "the limit is used")
    assert most.value <= 5


async def test_processes(place: Place, client: Client) -> None:
    """Three processes of two workers each."""
    client.queues.limit(QUEUE, concurrency=4)
    spawn = multiprocessing.get_context("spawn")
    crews = [
        spawn.Process(target=work_in_a_process, args=(place[0], [f"p{number}a", f"p{number}b"], 4, 0.02))
        for number in range(3)
    ]
    async with watched(lambda: running(place)) as most:
        for crew in crews:
            crew.start()
        for crew in crews:
            await asyncio.to_thread(crew.join, 60)
    assert [crew.exitcode for crew in crews] == [0, 0, 0]
    assert 2 <= most.value <= 4
    assert completed(place) > 20


async def test_a_limit_that_is_changed_takes_effect(place: Place, client: Client) -> None:
    """Set while they work, lowered, raised and taken away; each time within seconds, without a restart."""

    async def until(is_so: Callable[[], bool], what: str) -> None:
        await asyncio.to_thread(wait_for, is_so, what)

    def is_used(limit: int) -> bool:
        return running(place) >= limit / 2

    async def most_of_late(seconds: float = 0.7) -> int:
        async with watched(lambda: running(place)) as most:
            await asyncio.sleep(seconds)
        return most.value

    async with crew_of(place, ["w1", "w2", "w3"], 0.05):
        await until(lambda: running(place) > 6, "they work without a limit")
        for limit in (6, 2, 9):
            await asyncio.to_thread(client.queues.limit, QUEUE, concurrency=limit)
            await until(partial(is_dealt_out, place, limit, workers=3), "it is dealt out")
            assert await most_of_late() <= limit
            await until(partial(is_used, limit), "it is used")
        await asyncio.to_thread(client.queues.limit, QUEUE)
        await until(lambda: running(place) > 9, "they work without a limit again")


async def test_a_dead_workers_part_is_free_when_its_jobs_are_back(place: Place, client: Client) -> None:
    """One is killed with everything it has; the other gets all of it, and not before the jobs are taken back."""
    client.queues.limit(QUEUE, concurrency=4)
    async with watched(lambda: running(place)) as most:
        await work(place[0], ["victim"], 1.5, 30)
        assert running(place) == 4
        heir = asyncio.create_task(work(place[0], ["heir"], 30, 0.02))
        try:
            await asyncio.sleep(DEAD_AFTER.total_seconds() + 0.5)
            assert completed(place) == 0
            store = client._store
            await asyncio.to_thread(store.run, lambda: forget_workers(DEAD_AFTER))
            await asyncio.sleep(1)
            assert completed(place) == 0
            await asyncio.to_thread(store.run, lambda: reap_jobs("heir", DEAD_AFTER))
            await asyncio.to_thread(wait_for, lambda: completed(place) >= 20, "the heir works")
        finally:
            heir.cancel()
            await asyncio.gather(heir, return_exceptions=True)
    assert most.value == 4


async def test_no_window_has_more_starts_than_the_rate_allows(place: Place, client: Client) -> None:
    """By the database's clock, over three workers whose shares move."""
    client.queues.limit(QUEUE, rate=40, burst=6)
    crew = asyncio.create_task(work(place[0], ["w1", "w2", "w3"], 3, 0.005))
    await asyncio.sleep(1.5)
    await work(place[0], ["w4", "w5"], 1, 0.005)
    await crew
    moments = starts(place)
    assert worst_excess(moments, 40) <= 6.001
    assert len(moments) > 15  # a busy machine starts fewer
