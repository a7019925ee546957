"""A queue with limits that do not bind is claimed from like any other: many at once, while others are written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Batch
from holdfast.operations.statement import Verb
from holdfast.worker.patient_store import PatientStore
from tests.conformance.worker.conftest import BRISK, Ground, Hand
from tests.crew.limited import worst_excess

_JOBS = 400
_SLOTS = 10


@pytest.fixture
def kind() -> str:
    return "async"


@pytest.fixture
def overlaps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], tuple[int, int]]:
    """How many claims were sent, and how many of them while completions were under way."""
    run = PatientStore.run
    under_way: list[str] = []
    claims = during = 0

    async def watched(self: PatientStore, verb: Verb[Any], *, read_only: bool = False) -> Any:
        nonlocal claims, during
        operation = verb()
        name = next(operation).name
        operation.close()
        if name == "claim_jobs":
            claims += 1
            during += "complete_jobs" in under_way
        under_way.append(name)
        try:
            return await run(self, verb, read_only=read_only)
        finally:
            under_way.remove(name)

    monkeypatch.setattr(PatientStore, "run", watched)
    # So that there is a statement under way whenever something waits to be written.
    monkeypatch.setattr("holdfast.worker.outcomes._LONGEST_GATHERING", 0.0)
    return lambda: (claims, during)


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        pytest.param({"rate": 100_000, "burst": 10_000}, 1 / 3, id="rate"),
        pytest.param({"concurrency": 5}, 1 / 3, id="concurrency"),
        pytest.param({"key_concurrency": 100}, 0.6, id="keys"),
    ],
)
async def test_claims_do_not_wait_for_completions(
    live_ground: Ground, overlaps: Callable[[], tuple[int, int]], limits: dict[str, int], least: float
) -> None:
    """Also where what is claimed must have a slot."""
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("default", **limits)
    await live_ground.client.enqueue_many([job.call(number=number) for number in range(_JOBS)])
    async with live_ground.app.worker(config=replace(BRISK, concurrency=_SLOTS)):
        await live_ground.until(lambda: len(done) == _JOBS)
    claims, during = overlaps()
    assert during > claims * least


async def test_nobody_sleeps_beside_free_slots(live_ground: Ground) -> None:
    """What a limited key admits is claimed for free slots only: one that is freed before the worker sleeps counts."""
    done: list[int] = []

    async def work(_: Hand, number: int) -> None:
        done.append(number)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("default", key_concurrency=1000)
    calls = [job.call(number=number).options(concurrency_key="key") for number in range(1000)]
    await live_ground.client.enqueue_many(calls)
    config = replace(BRISK, concurrency=20, poll=timedelta(seconds=60))
    async with live_ground.app.worker(config=config):
        await live_ground.until(lambda: len(done) == 1000)


async def _starts_under(live_ground: Ground, **limits: int) -> list[float]:
    starts: list[float] = []

    async def work(_: Hand, number: int) -> None:
        starts.append(time.monotonic())
        await asyncio.sleep(0)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("default", **limits)
    await live_ground.client.enqueue_many([job.call(number=number) for number in range(5 * _JOBS)])
    async with live_ground.app.worker(config=replace(BRISK, concurrency=_SLOTS)):
        await live_ground.until(lambda: len(starts) == 5 * _JOBS)
    return starts


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"rate": 100_000, "burst": 10_000}, id="rate"),
        pytest.param({"concurrency": 5}, id="concurrency"),
    ],
)
async def test_jobs_are_claimed_ahead_of_their_slots(
    live_ground: Ground, overlaps: Callable[[], tuple[int, int]], limits: dict[str, int]
) -> None:
    """As in a queue without limits: many at once, also of what has permits."""
    await _starts_under(live_ground, **limits)
    claims, _ = overlaps()
    assert claims < 5 * _JOBS / _SLOTS / 2


async def test_a_rate_is_one_of_starts(live_ground: Ground) -> None:
    """However long before them they were claimed."""
    starts = await _starts_under(live_ground, rate=4_000, burst=400)
    # A job counts as started when its task is made; the handler's first line may come a turn of the loop later.
    assert worst_excess(starts, 4_000) <= 400 + _SLOTS


async def test_what_limits_leave_says_nothing_of_the_slots(live_ground: Ground) -> None:
    """Claims of one job after the other, each of them full, beside a handler that takes many: nothing is hoarded."""

    async def hoard(_: Hand, number: int) -> None:
        await asyncio.sleep(30)

    @live_ground.app.job(batch=200)
    async def bulk(batch: Batch[int]) -> None: ...

    started: list[int] = []

    async def work(_: Hand, number: int) -> None:
        started.append(number)

    job, slow = live_ground.job(work, queue="limited"), live_ground.job(hoard, queue="slow")
    await live_ground.client.queues.limit("limited", rate=60, burst=1)
    await live_ground.client.enqueue_many([job.call(number=number) for number in range(100)])
    config = replace(BRISK, concurrency=5, queues=["limited", "slow", "default"], stop_deadline=timedelta(0))
    async with live_ground.app.worker(config=config):
        await live_ground.until(lambda: len(started) > 20)
        await live_ground.client.enqueue_many([slow.call(number=number) for number in range(100)])
        running = "SELECT count(*) FROM {job} WHERE queue = 'slow' AND status = 'running'"
        await live_ground.until(lambda: live_ground.sql(running)[0][0] >= 5)
        assert live_ground.sql(running)[0][0] < 30


async def test_a_job_that_goes_back_unstarted_costs_no_start(live_ground: Ground) -> None:
    """It was claimed behind a long one: its token is there again for whoever gets the slot."""
    is_busy = asyncio.Event()
    started: list[float] = []

    async def work(_: Hand, number: int) -> None:
        if number == _JOBS:
            is_busy.set()
            await asyncio.sleep(1.5)

    async def late(_: Hand) -> None:
        started.append(time.monotonic())

    job, limited = live_ground.job(work), live_ground.job(late, queue="limited")
    await live_ground.client.queues.limit("limited", rate=0.5, burst=1)
    # One that asks for its share while no slot is free says that it wants none, and gives up what it has saved.
    patient = replace(
        BRISK,
        concurrency=1,
        queues=["default", "limited"],
        heartbeat=timedelta(seconds=60),
        dead_after=timedelta(seconds=300),
    )
    async with live_ground.app.worker(config=patient) as worker:
        engine: Any = worker._engine
        await live_ground.until(lambda: engine._shares.room("limited") == 1)
        await live_ground.client.enqueue_many([job.call(number=number) for number in range(_JOBS + 1)])
        await is_busy.wait()
        job_claimed_ahead = await live_ground.client.enqueue(limited.call())
        began = time.monotonic()
        await live_ground.until(lambda: started)
    assert started[0] - began < 1.9
    assert (await live_ground.get(job_claimed_ahead.id)).attempt == 1
