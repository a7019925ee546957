"""What operators see and do through both faces of the client."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import App, Retry, WorkerConfig
from holdfast.errors import InvalidOption
from holdfast.testing import adrain
from tests.conformance.client.conftest import Place, settled


async def test_stats_and_queues(place: Place) -> None:
    """Counts by queue, type and state; throughput by type; queues with sums."""

    async def work(n: int) -> int:
        if n < 0:
            raise ValueError("negative")
        return n

    job = place.app.job(queue="numbers", retry=Retry(max_attempts=1))(work)
    await settled(place.client.enqueue_many([job.call(n=n) for n in (1, 2, -1)]))
    await adrain(place.app)
    await settled(place.client.enqueue_many([job.call(n=n) for n in range(3)]))
    await settled(place.client.enqueue(job.call(n=9), delay=600))

    stats = await settled(place.client.stats())

    assert {(c.queue, c.type_name, c.state): c.jobs for c in stats.counts} == {
        ("numbers", "work", "ready"): 3,
        ("numbers", "work", "scheduled"): 1,
        ("numbers", "work", "dead_letter"): 1,
    }
    assert {(t.queue, t.type_name) for t in stats.throughput} == {("numbers", "work")}
    assert (sum(t.completed for t in stats.throughput), sum(t.failed for t in stats.throughput)) == (2, 1)
    (queue,) = await settled(place.client.queues.list())
    assert (queue.name, queue.ready, queue.scheduled, queue.dead_letters, queue.workers) == ("numbers", 3, 1, 1, 0)


async def test_workers_and_their_release(place: Place) -> None:
    """A living worker is listed as the leader; what it runs is taken from it, and it is told."""
    started, told = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.set()
            raise

    job = place.app.job(queue="held")(hold)
    chain = await settled(place.client.enqueue(job.call()))
    config = WorkerConfig(queues=["held"], concurrency=1, renew=timedelta(seconds=0.5), lease=timedelta(seconds=60))
    async with place.app.worker(config=config) as worker:
        await asyncio.wait_for(started.wait(), 20)
        (record,) = await settled(place.client.workers.list())
        assert (record.id, record.status, record.queues, record.running) == (worker.id, "alive", ["held"], 1)
        assert record.metadata["concurrency"] == 1

        release = await settled(place.client.workers.release(worker.id, actor="ada"))

        assert (release.is_known, release.released, release.locked) == (True, [chain.id], [])
        await asyncio.wait_for(told.wait(), 30)
        worker.stop()
        worker.stop()


@pytest.mark.parametrize(
    ("call", "option"),
    [
        (lambda client: client.workers.release(""), "worker_id"),
        (lambda client: client.workers.release(7), "worker_id"),
        (lambda client: client.workers.release("w1", actor=""), "actor"),
        (lambda client: client.stats(within=-1), "within"),
        (lambda client: client.queues.pause(""), "name"),
        (lambda client: client.queues.pause("q", resume_at=-1), "resume_at"),
        (lambda client: client.queues.pause("q", resume_at=0), "resume_at"),
        (lambda client: client.queues.pause("q", resume_at=datetime(2030, 1, 1)), "resume_at"),  # noqa: DTZ001 - that is the point
        (lambda client: client.queues.pause("q", resume_at=datetime(2020, 1, 1, tzinfo=UTC)), "resume_at.*passed"),
        (lambda client: client.queues.pause("q", reason=""), "reason"),
        (lambda client: client.queues.resume("q", actor=""), "actor"),
        (lambda client: client.queues.limit("q", concurrency=0), "concurrency=0.*pause it"),
        (lambda client: client.queues.limit("q", concurrency=True), "concurrency"),
        (lambda client: client.queues.limit("q", concurrency=1.5), "concurrency"),
        (lambda client: client.queues.limit("q", rate=0), "rate"),
        (lambda client: client.queues.limit("q", rate=float("nan")), "rate"),
        (lambda client: client.queues.limit("q", rate=1, burst=0), "burst"),
        (lambda client: client.queues.limit("q", burst=5), "burst=5.*rate="),
    ],
)
async def test_bad_input(place: Place, call: Any, option: str) -> None:
    """Named, and nothing is written."""
    with pytest.raises(InvalidOption, match=option):
        await settled(call(place.client))
    assert await settled(place.client.queues.list()) == []


async def test_a_paused_queue_rests_and_is_woken(place: Place) -> None:
    """A worker that is there takes nothing of it, goes on by itself at the end of a pause, and at once when resumed."""
    ran: asyncio.Queue[int] = asyncio.Queue()

    async def note(n: int) -> None:
        await ran.put(n)

    app = App(place.url)  # one that notifies
    client: Any = app.client() if place.face == "sync" else app.async_client()
    job = app.job(queue="slow")(note)
    config = WorkerConfig(queues=["slow"], concurrency=2, poll=timedelta(seconds=60))
    async with app.worker(config=config):
        await settled(client.enqueue(job.call(n=0)))
        assert await asyncio.wait_for(ran.get(), 20) == 0
        settings = await settled(client.queues.pause("slow", reason="deploy", actor="ada"))
        assert (settings.paused_by, settings.pause_reason, settings.resume_at) == ("ada", "deploy", None)
        await settled(client.enqueue(job.call(n=1)))
        await asyncio.sleep(0.5)
        assert ran.empty()
        (record,) = [each for each in await settled(client.queues.list()) if each.name == "slow"]
        assert (record.paused_at, record.pause_reason) == (settings.paused_at, "deploy")

        assert (await settled(client.queues.resume("slow"))).paused_at is None
        assert await asyncio.wait_for(ran.get(), 10) == 1

        await settled(client.queues.pause("slow"))
        await settled(client.enqueue(job.call(n=2)))
        await asyncio.sleep(0.2)
        await settled(client.queues.pause("slow", resume_at=timedelta(seconds=1)))
        assert ran.empty()
        assert await asyncio.wait_for(ran.get(), 10) == 2
    await settled(client.close())
    app.close()


async def test_limits_are_shown(place: Place) -> None:
    """As they were given, the burst of a rate filled in; the next ones replace them."""
    settings = await settled(place.client.queues.limit("mail", concurrency=5, rate=2.5, actor="ada"))
    assert (settings.concurrency, settings.rate, settings.burst) == (5, 2.5, 2)
    assert (await settled(place.client.queues.limit("mail", rate=0.1))).burst == 1
    (record,) = await settled(place.client.queues.list())
    assert (record.name, record.concurrency, record.rate, record.burst) == ("mail", None, 0.1, 1)
    await settled(place.client.queues.limit("mail"))
    assert await settled(place.client.queues.list()) == []
