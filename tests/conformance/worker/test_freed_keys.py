"""Whoever takes a job away from its key wakes who runs the next one: nobody waits for a poll."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast import DeadLetter, Dedup
from tests.conformance.worker.conftest import BRISK, Ground, Hand, settled

#: far longer than a test is patient
PATIENT = replace(BRISK, poll=timedelta(seconds=120))


@pytest.fixture
def kind() -> str:
    return "async"


@pytest.mark.parametrize("way", ["cancel", "delete", "remove"])
async def test_a_job_that_waits_is_taken_away(live_ground: Ground, way: str) -> None:
    """The first of its key waits for its time, the second behind it; without the first the second starts at once."""
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)

    job = ground.job(work, partition_key="k", dedup=lambda number: f"{number}")
    async with ground.app.worker(config=PATIENT):
        first = await ground.client.enqueue(job.call(number=1).options(delay=3600))
        await ground.client.enqueue(job.call(number=2))
        # Its turn came and it was set aside, or it will be met behind the first: whichever, the worker sleeps now.
        await ground.client.enqueue(job.call(number=3).options(partition_key="other"))
        await ground.until(lambda: ground.seen == [3])
        await ground.until(lambda: ground.sql("SELECT 1 FROM {job} WHERE held"))
        await asyncio.sleep(0.5)
        if way == "cancel":
            await ground.client.cancel([first.id])
        elif way == "delete":
            await ground.client.delete_chains([first.id])
        else:
            await ground.client.remove(job, "1")
        await ground.until(lambda: ground.seen == [3, 2])


async def test_a_running_job_is_deleted(live_ground: Ground) -> None:
    """What waits for room in its concurrency key starts at once."""
    ground = live_ground
    gate = asyncio.Event()

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)
        if number == 1:
            await gate.wait()

    job = ground.job(work, concurrency_key="k")
    await ground.client.queues.limit("default", key_concurrency=1)
    async with ground.app.worker(config=PATIENT):
        first = await ground.client.enqueue(job.call(number=1))
        await ground.until(lambda: ground.seen == [1])
        await ground.client.enqueue(job.call(number=2))
        await ground.until(lambda: ground.sql("SELECT 1 FROM {job} WHERE held"))
        await asyncio.sleep(0.5)
        await ground.client.delete_chains([first.id])
        await ground.until(lambda: ground.seen == [1, 2])
        gate.set()


@pytest.mark.parametrize("way", ["settled", "replaced", "replaced in a transaction"])
async def test_a_job_gives_way_to_something_else(live_ground: Ground, way: str) -> None:
    """Cancelled with what it waits for, or replaced by one of another queue: the next one of its key starts at once."""
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)

    async def fail(_: Hand) -> None:
        raise DeadLetter("no")

    job = ground.job(work, partition_key="k")
    spoilt = ground.job(fail, queue="elsewhere")
    async with ground.app.worker(config=replace(PATIENT, queues=["default"])):
        blocker = await ground.client.enqueue(spoilt.call())
        waiting = job.call(number=1).options(dedup=Dedup("first", on_conflict="replace"))
        if way == "settled":
            await ground.client.enqueue(waiting, blockers=[blocker], on_blocker_failure="cancel")
        else:
            await ground.client.enqueue(waiting, delay=3600)
        await ground.client.enqueue(job.call(number=2))
        await ground.client.enqueue(job.call(number=3).options(partition_key="other"))
        await ground.until(lambda: ground.seen == [3])
        await ground.until(lambda: ground.sql("SELECT 1 FROM {job} WHERE held"))
        await asyncio.sleep(0.5)
        if way == "settled":
            async with ground.app.worker(config=replace(PATIENT, queues=["elsewhere"])):
                await ground.until(lambda: ground.seen == [3, 2])
        elif way == "replaced":
            await ground.client.enqueue(waiting, queue="elsewhere")
            await ground.until(lambda: ground.seen == [3, 2])
        else:
            connection = await ground.connect()
            await ground.client.enqueue(waiting, queue="elsewhere", tx=connection)
            await settled(connection.commit())
            await settled(connection.close())
            await ground.until(lambda: ground.seen == [3, 2])


async def test_a_job_that_is_replaced_in_a_transaction(live_ground: Ground) -> None:
    """It was to start in an hour and starts at once now: its queue is told with the commit."""
    ground = live_ground

    async def work(hand: Hand, number: int) -> None:
        ground.seen.append(number)

    job = ground.job(work, dedup=lambda number: Dedup("k", on_conflict="replace"))
    async with ground.app.worker(config=PATIENT):
        await ground.client.enqueue(job.call(number=1), delay=3600)
        await asyncio.sleep(0.5)
        connection = await ground.connect()
        await ground.client.enqueue(job.call(number=2), tx=connection)
        await settled(connection.commit())
        await settled(connection.close())
        await ground.until(lambda: ground.seen == [2])


async def test_a_job_fails_for_good_while_its_worker_stops(live_ground: Ground) -> None:
    """Somebody else runs the next one of its key, at once."""
    ground = live_ground
    gate = asyncio.Event()

    async def work(_: Hand, number: int) -> None:
        ground.seen.append(number)
        if number == 1:
            await gate.wait()
            raise DeadLetter("no")

    job = ground.job(work, partition_key="k")
    async with ground.app.worker(config=PATIENT) as first:
        await ground.client.enqueue(job.call(number=1))
        await ground.until(lambda: ground.seen == [1])
        async with ground.app.worker(config=PATIENT):
            await ground.client.enqueue(job.call(number=2))
            await ground.until(lambda: ground.sql("SELECT 1 FROM {job} WHERE held"))
            first.stop()
            await asyncio.sleep(0.5)  # the other one sleeps
            gate.set()
            await ground.until(lambda: ground.seen == [1, 2])
