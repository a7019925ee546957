"""Limits of queues, kept to by the workers that share them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.worker.conftest import BRISK, Ground, Hand


@asynccontextmanager
async def _workers(ground: Ground, count: int, **settings: Any) -> AsyncIterator[None]:
    config = replace(BRISK, **settings)
    workers = [ground.app.make_worker(config) for _ in range(count)]
    tasks = [asyncio.create_task(worker.run()) for worker in workers]
    try:
        yield
    finally:
        for worker in workers:
            worker.stop()
        await asyncio.gather(*tasks)


async def test_concurrency(live_ground: Ground) -> None:
    """Over all workers, of handlers; a queue without a limit is not held up."""
    ground = live_ground
    running: list[int] = []
    peaks: list[int] = []

    async def work(hand: Hand) -> None:
        running.append(1)
        peaks.append(len(running))
        await hand.pause(0.02)
        running.pop()

    async def other(_: Hand) -> None:
        ground.seen.append("other")

    limited, free = ground.job(work, queue="mail"), ground.job(other)
    await ground.client.queues.limit("mail", concurrency=3)
    await ground.client.enqueue_many([limited.call() for _ in range(60)])
    await ground.client.enqueue_many([free.call() for _ in range(20)])
    async with _workers(ground, 2):
        await ground.until(lambda: len(peaks) == 60 and len(ground.seen) == 20)
    assert max(peaks) <= 3
    rows = ground.sql("SELECT count(*) FROM {job} WHERE status = 'completed'")
    assert rows[0][0] == 80


async def test_a_limit_changed_at_run_time(live_ground: Ground) -> None:
    """Takes effect without a restart: lowered, lifted."""
    ground = live_ground
    running: list[int] = []
    peak = 0

    async def work(hand: Hand) -> None:
        nonlocal peak
        running.append(1)
        peak = max(peak, len(running))
        ground.seen.append(1)
        await hand.pause(0.03)
        running.pop()

    job = ground.job(work, queue="mail")
    await ground.client.queues.limit("mail", concurrency=6)
    async with _workers(ground, 1, concurrency=12):
        await ground.client.enqueue_many([job.call() for _ in range(60)])
        await ground.until(lambda: len(ground.seen) == 60)
        assert peak <= 6
        await ground.client.queues.limit("mail", concurrency=1)
        await asyncio.sleep(1)  # until the worker has heard of it
        peak = 0
        await ground.client.enqueue_many([job.call() for _ in range(10)])
        await ground.until(lambda: len(ground.seen) == 70)
        assert peak == 1
        await ground.client.queues.limit("mail", concurrency=None)
        await asyncio.sleep(1)
        peak = 0
        await ground.client.enqueue_many([job.call() for _ in range(60)])
        await ground.until(lambda: len(ground.seen) == 130)
        assert peak > 6


async def test_rate(live_ground: Ground) -> None:
    """In any window no more than the burst and what the rate adds; and not much less over time."""
    ground = live_ground
    starts: list[float] = []

    async def work(_: Hand) -> None:
        starts.append(time.monotonic())

    job = ground.job(work, queue="mail")
    rate, burst = 60, 6
    await ground.client.queues.limit("mail", rate=rate, burst=burst)
    await ground.client.enqueue_many([job.call() for _ in range(120)])
    async with _workers(ground, 2):
        await ground.until(lambda: len(starts) == 120, patience=30)
    starts.sort()
    # A start is counted when the job is claimed; it begins a little later, and not every one as much later.
    slack = 0.1
    for first, began in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= burst + rate * (starts[last] - began + slack)
    assert starts[-1] - starts[0] >= (120 - burst) / rate - slack


async def test_paused(live_ground: Ground) -> None:
    """Nothing is started from the pause on, until it is resumed."""
    ground = live_ground

    async def work(_: Hand) -> None:
        ground.seen.append(time.monotonic())

    job = ground.job(work, queue="mail")
    async with _workers(ground, 1):
        await ground.client.queues.pause("mail")
        await ground.client.enqueue(job.call())
        await asyncio.sleep(1)
        assert ground.seen == []
        await ground.client.queues.resume("mail")
        await ground.until(lambda: ground.seen, patience=5)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_room_is_used(live_ground: Ground, concurrency: int) -> None:
    """A limit that is reached all the time does not cost a poll after every job."""
    ground = live_ground

    async def work(_: Hand) -> None:
        ground.seen.append(1)

    job = ground.job(work, queue="mail")
    await ground.client.queues.limit("mail", concurrency=concurrency)
    await ground.client.enqueue_many([job.call() for _ in range(100)])
    began = time.monotonic()
    async with _workers(ground, 1):
        await ground.until(lambda: len(ground.seen) == 100)
    assert time.monotonic() - began < 10
