"""`app.drain()`: everything due is run, and what becomes due by that; nothing else is waited for."""

from __future__ import annotations

import asyncio
import functools
import time
from datetime import datetime, timedelta
from typing import Any

import pytest

from holdfast import Cancel, DeadLetter, Drained, JobHandle, Retry, Snooze, Status, WorkerConfig
from holdfast.app import draining
from tests.conformance.worker.conftest import Ground, Hand, settled


async def test_what_becomes_due_by_what_is_run(ground: Ground) -> None:
    """Jobs that handlers enqueue, the next jobs of chains, and jobs that are unblocked, over several steps."""
    order: list[str] = []

    async def last(hand: Hand) -> None:
        order.append("last")

    async def enqueued(hand: Hand) -> None:
        order.append("enqueued")

    async def second(hand: Hand) -> int:
        order.append("second")
        return 2

    finals, others, seconds = ground.job(last), ground.job(enqueued, queue="other"), ground.job(second)

    async def first(hand: Hand) -> Any:
        order.append("first")
        await settled(hand.client.enqueue(others.call()))
        return await hand.continue_with(seconds.call())

    firsts = ground.job(first)
    chain = await ground.client.enqueue(firsts.call())
    behind = await ground.client.enqueue(finals.call(), blockers=[chain])
    behind_that = await ground.client.enqueue(finals.call(), blockers=[behind])
    assert await ground.app.adrain() == Drained(completed=5)
    assert order[0] == "first"
    assert order.index("second") < order.index("last")
    assert sorted(order) == ["enqueued", "first", "last", "last", "second"]
    assert (await ground.get(behind_that.id)).status is Status.COMPLETED
    assert await ground.app.adrain() == Drained()


@pytest.mark.parametrize("limits", [{"rate": 40, "burst": 5}, {"concurrency": 2}], ids=["rate", "concurrency"])
async def test_limited_queues(live_ground: Ground, caplog: pytest.LogCaptureFixture, limits: dict[str, int]) -> None:
    """What must wait for a permit or a token is due: one worker waits for it."""
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)

    job = ground.job(work)
    await ground.client.queues.limit("default", **limits)
    await ground.client.enqueue_many([job.call(number=number) for number in range(30)])
    with caplog.at_level("INFO", "holdfast.maintenance"):
        assert await ground.app.adrain(timeout=30) == Drained(completed=30)
    assert sorted(ground.seen) == list(range(30))
    assert caplog.text.count("this worker leads") <= 2


async def test_every_outcome_has_its_count(ground: Ground) -> None:
    """By what the database took; retries that become due later are left for later."""
    assert ground.clock is not None

    async def work(hand: Hand, number: int) -> None:
        match number:
            case 1:
                raise ValueError("again later")
            case 2:
                raise DeadLetter("never")
            case 3:
                raise Cancel("needless")
            case 4:
                raise Snooze(60)

    handle = ground.job(work, retry=Retry(max_attempts=2))
    for number in range(6):
        await ground.put(handle, number=number)
    await ground.client.enqueue(handle.call(number=0), delay=3600)
    counts = await ground.app.adrain()
    assert counts == Drained(completed=2, retried=1, dead=1, cancelled=1, snoozed=1)
    assert counts.failed == 2
    assert await ground.app.adrain() == Drained()
    ground.clock.advance(60)
    assert await ground.app.adrain() == Drained(dead=1, snoozed=1)
    ground.clock.advance(3540)
    assert await ground.app.adrain() == Drained(completed=1, snoozed=1)


async def test_expired_jobs_are_expired(ground: Ground) -> None:
    """Not run, but cancelled and counted; whoever waits for one and runs all the same is run by the same drain."""
    assert ground.clock is not None

    async def work(hand: Hand) -> None:
        ground.seen.append(hand.job.id)

    handle = ground.job(work)
    late = await ground.client.enqueue(handle.call(), expires=60)
    in_time = await ground.client.enqueue(handle.call(), expires=3600)
    behind = await ground.client.enqueue(handle.call(), blockers=[late], on_blocker_failure="run")
    with_it = await ground.client.enqueue(handle.call(), blockers=[late], on_blocker_failure="cancel")
    ground.clock.advance(61)
    assert await ground.app.adrain() == Drained(completed=2, expired=1)
    assert sorted(ground.seen) == sorted([in_time.id, behind.id])
    job = await ground.get(late.id)
    assert (job.status, job.attempt) == (Status.CANCELLED, 0)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "Expired"
    assert (await ground.get(with_it.id)).status is Status.CANCELLED


async def test_more_expired_jobs_than_one_batch(ground: Ground) -> None:
    """Round after round, until none is left."""
    assert ground.clock is not None

    async def work(hand: Hand) -> None: ...

    handle = ground.job(work)
    await ground.client.enqueue_many([handle.call() for _ in range(1001)], expires=1)
    ground.clock.advance(2)
    assert await ground.app.adrain() == Drained(expired=1001)


async def test_from_sync_code(live_ground: Ground) -> None:
    """With the database's clock; inside an event loop it says what to use instead."""

    async def work(hand: Hand) -> None: ...

    handle = live_ground.job(work)
    for _ in range(3):
        await live_ground.put(handle)
    with pytest.raises(RuntimeError, match=r"cannot run inside an event loop; use: await app\.adrain\(\)"):
        live_ground.app.drain()
    assert await asyncio.to_thread(live_ground.app.drain) == Drained(completed=3)
    assert await asyncio.to_thread(live_ground.app.drain, concurrency=1, timeout=30) == Drained()


async def test_what_is_not_for_this_app_is_left(ground: Ground) -> None:
    """Other queues, and types that are declared here but handled elsewhere."""

    async def work(hand: Hand) -> None: ...

    ground.job(work)
    foreign: JobHandle[..., Any] = ground.app.declare("elsewhere", queue="foreign")
    job_id = await ground.put(foreign)
    assert await ground.app.adrain() == Drained()
    assert (await ground.get(job_id)).status is Status.PENDING
    assert await ground.app.adrain(queues=["foreign"]) == Drained(refused=1)


async def test_handlers_may_take_longer_than_a_worker_waits_when_it_stops(ground: Ground) -> None:
    """The worker of a drain is told to stop as soon as there is nothing to claim; what runs is not hurried."""

    async def slow(hand: Hand) -> str:
        await hand.pause(1.5)
        return "done"

    job_id = await ground.put(ground.job(slow))
    assert await ground.app.adrain(timeout=timedelta(seconds=30)) == Drained(completed=1)
    assert (await ground.get(job_id)).output == "done"


async def _orphan(ground: Ground, queue: str = "default") -> str:
    """A job in the hands of a worker that nobody knows any more, which had not started it."""

    async def work(hand: Hand) -> None: ...

    job_id = await ground.put(ground.job(work, queue=queue))
    ground.sql("UPDATE {job} SET status = 'running', attempt = 1, lease_generation = 1, leased_by = 'ghost', "
               "leased_until = ready_at, last_attempt_at = ready_at")  # fmt: skip
    ground.sql("INSERT INTO {prefetch} (worker_id, claimed_at) SELECT 'ghost', last_attempt_at FROM {job}")
    return job_id


async def test_what_the_dead_held_is_waited_for(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the drain has been heard for long enough to judge; then it is taken back, and run."""
    brief = functools.partial(WorkerConfig, heartbeat=timedelta(seconds=0.2), dead_after=timedelta(seconds=1))
    monkeypatch.setattr(draining, "WorkerConfig", brief)
    job_id = await _orphan(ground)
    assert await ground.app.adrain(timeout=20) == Drained(completed=1)
    assert (await ground.get(job_id)).attempt == 1


async def test_what_the_dead_held_is_taken_at_once_where_others_were_heard(ground: Ground) -> None:
    """Drains before this one have shown that the database could be reached all the time."""
    await _orphan(ground)
    now = ground.sql("SELECT max(ready_at) FROM {job}")[0][0]
    ground.sql(
        "INSERT INTO {retired} (worker_id, heard_since, last_seen_at) VALUES ('before', :since, :now)",
        since=now - timedelta(hours=1) if isinstance(now, datetime) else "2000-01-01T00:00:00.000000Z",
        now=now,
    )
    began = time.monotonic()
    assert await ground.app.adrain(timeout=19) == Drained(completed=1)
    assert time.monotonic() - began < WorkerConfig().dead_after.total_seconds() / 2


async def test_what_the_dead_held_in_other_queues_is_not_waited_for(ground: Ground) -> None:
    job_id = await _orphan(ground, "other")
    assert await ground.app.adrain(queues=["default"], timeout=10) == Drained()
    assert (await ground.get(job_id)).status is Status.RUNNING
