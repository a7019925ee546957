"""A concurrency limit counts handlers: jobs may lie at hand beside those that run, but not where others have room.

What they do by themselves is in `tests/unit/worker/test_permits.py`; here they run on databases.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast import Batch, Retry
from tests.conformance.worker.conftest import BRISK, Ground, Hand

#: nobody is in a hurry at the end: what runs is to be let go of
LOOSE = replace(BRISK, stop_deadline=timedelta(0))


@pytest.fixture
def kind() -> str:
    return "async"


class Rooms:
    """Counts who is in a handler."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0

    def __enter__(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)

    def __exit__(self, *_: object) -> None:
        self.inside -= 1


_PERMITS = "SELECT permits FROM {queue_share} WHERE queue = 'limited'"


def leased(ground: Ground, queue: str = "default") -> int:
    text = f"SELECT count(*) FROM {{job}} WHERE status = 'running' AND queue = '{queue}'"
    return int(ground.sql(text)[0][0])


async def test_long_jobs_are_not_claimed_ahead(live_ground: Ground) -> None:
    """Of jobs that do not end a worker holds as many as it may run, however many slots are free."""
    running = 0

    async def work(hand: Hand) -> None:
        nonlocal running
        running += 1
        await asyncio.sleep(60)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("default", concurrency=2)
    await live_ground.client.enqueue_many([job.call() for _ in range(50)])
    async with live_ground.app.worker(config=replace(LOOSE, concurrency=10)):
        await live_ground.until(lambda: running == 2)
        for _ in range(60):
            assert leased(live_ground) == 2
            await asyncio.sleep(0.01)
    assert running == 2


async def test_what_cannot_start_goes_to_who_can_start_it(live_ground: Ground) -> None:
    """Short jobs, which are claimed ahead, and then long ones: as many of these run at a time as the limit allows.

    Some of them were at hand of one worker, which has permits for two; they go back as if they had never been claimed.
    """
    rooms = Rooms()
    gate = asyncio.Event()

    async def work(hand: Hand, number: int) -> None:
        if number >= 1000:
            with rooms:
                await gate.wait()

    job = live_ground.job(work)
    await live_ground.client.queues.limit("default", concurrency=4)
    calls = [job.call(number=number) for number in (*range(400), *range(1000, 1008))]
    chains = await live_ground.client.enqueue_many(calls)
    config = replace(LOOSE, concurrency=6)
    async with live_ground.app.worker(config=config), live_ground.app.worker(config=config):
        await live_ground.until(lambda: rooms.inside == 4)
        gate.set()
        await live_ground.until_status(chains[-1].id, "completed")
    assert rooms.most == 4
    assert {(await live_ground.get(chain.id)).attempt for chain in chains[-8:]} == {1}


async def test_others_do_not_wait_behind_them(live_ground: Ground) -> None:
    """Hundreds of jobs for the one permit of their queue, in front of those of another: these start.

    And those that wait go back, though the worker is never without something to start.
    """
    gate = asyncio.Event()
    done: Counter[str] = Counter()

    async def limited(hand: Hand, number: int) -> None:
        if number == 300:
            await gate.wait()
        done["limited"] += 1

    async def free(hand: Hand) -> None:
        await asyncio.sleep(0.005)
        done["free"] += 1

    first = live_ground.job(limited, queue="limited", priority=-10)
    second = live_ground.job(free, queue="free")
    await live_ground.client.queues.limit("limited", concurrency=1)
    await live_ground.client.enqueue_many([first.call(number=number) for number in range(600)])
    async with live_ground.app.worker(config=replace(LOOSE, concurrency=3, queues=["limited", "free"])):
        await live_ground.until(lambda: done["limited"] == 300)
        await live_ground.client.enqueue_many([second.call() for _ in range(2_000)])
        await live_ground.until(lambda: leased(live_ground, "limited") == 1)
        assert done["free"] < 2_000
        await live_ground.until(lambda: done["free"] == 2_000)
        assert done["limited"] == 300
        gate.set()
        await live_ground.until(lambda: done["limited"] == 600)


async def test_who_stops_leaves_its_part_to_others(live_ground: Ground) -> None:
    """At once, however long it takes over its last job."""
    long_gate, gate = asyncio.Event(), asyncio.Event()
    rooms = Rooms()

    async def long(hand: Hand) -> None:
        with rooms:
            await long_gate.wait()

    async def limited(hand: Hand) -> None:
        with rooms:
            await gate.wait()

    first, second = live_ground.job(long, queue="long"), live_ground.job(limited, queue="limited")
    await live_ground.client.queues.limit("limited", concurrency=4)
    stays = replace(LOOSE, queues=["limited"])
    goes = replace(LOOSE, queues=["long", "limited"], stop_deadline=timedelta(seconds=60))
    async with live_ground.app.worker(config=goes) as one, live_ground.app.worker(config=stays):
        await live_ground.put(first)
        await live_ground.until(lambda: rooms.inside == 1)
        await live_ground.until(lambda: [row[0] for row in live_ground.sql(_PERMITS)] == [2, 2])
        one.stop()
        await live_ground.client.enqueue_many([second.call() for _ in range(4)])
        await live_ground.until(lambda: rooms.inside == 5)
        gate.set()
        long_gate.set()


async def test_batches_count_by_their_jobs(live_ground: Ground) -> None:
    """A call takes as many as may run, no more; and all are done."""
    sizes: list[int] = []
    rooms = Rooms()

    @live_ground.app.job(batch=50)
    async def bulk(batch: Batch[int]) -> None:
        sizes.append(len(batch))
        for _ in batch:
            rooms.__enter__()
        await asyncio.sleep(0)
        for _ in batch:
            rooms.__exit__()

    await live_ground.client.queues.limit("default", concurrency=7)
    await live_ground.client.enqueue_many([bulk.call(number) for number in range(300)])
    async with live_ground.app.worker(config=BRISK):
        await live_ground.until(lambda: sum(sizes) == 300)
    assert rooms.most <= 7
    assert max(sizes) > 1


async def test_keys_and_tenants_and_permits(live_ground: Ground) -> None:
    """Fair by tenant, jobs of few partition keys, one at a time of each, three at a time of all."""
    rooms = Rooms()
    order: dict[int, list[int]] = {}

    async def work(hand: Hand, number: int) -> None:
        with rooms:
            order.setdefault(number % 5, []).append(number)
            await asyncio.sleep(0)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("default", concurrency=3, fair_by="tenant")
    calls = [job.call(number=number).options(partition_key=f"key {number % 5}") for number in range(200)]
    await live_ground.client.enqueue_many(calls[:100], tenant="acme")
    await live_ground.client.enqueue_many(calls[100:])
    async with live_ground.app.worker(config=replace(BRISK, concurrency=8)):
        await live_ground.until(lambda: sum(map(len, order.values())) == 200)
    assert rooms.most <= 3
    assert all(numbers == sorted(numbers) for numbers in order.values())


async def test_a_limit_that_comes_while_a_run_of_a_key_is_at_hand(live_ground: Ground) -> None:
    """Its followers count as they start, and keep their order."""
    rooms = Rooms()
    seen: list[int] = []

    async def work(hand: Hand, number: int) -> None:
        with rooms:
            seen.append(number)
            if number == 50:
                await live_ground.client.queues.limit("default", concurrency=1)
                worker._engine._shares.look_soon()
                await live_ground.until(lambda: worker._engine._shares.permits("default") == 1)
                rooms.most = 0
            await asyncio.sleep(0)

    job = live_ground.job(work)
    calls = [job.call(number=number) for number in range(400)]
    await live_ground.client.enqueue_many([call.options(partition_key=f"k{n % 2}") for n, call in enumerate(calls)])
    async with live_ground.app.worker(config=replace(BRISK, concurrency=8)) as running:
        worker: Any = running
        await live_ground.until(lambda: len(seen) == 400)
    # The other key's job of that moment was running already.
    assert rooms.most <= 2
    assert [number for number in seen if number % 2] == list(range(1, 400, 2))
    assert [number for number in seen if not number % 2] == list(range(0, 400, 2))


async def test_two_limits_and_a_rate(live_ground: Ground) -> None:
    """A queue with permits and tokens, and one of which keys are limited too: everything is done, within both."""
    rooms = {name: Rooms() for name in ("both", "keyed")}

    async def work(hand: Hand, number: int) -> None:
        with rooms[hand.job.queue]:
            await asyncio.sleep(0.002)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("both", concurrency=3, rate=2_000, burst=100)
    await live_ground.client.queues.limit("keyed", concurrency=3, key_concurrency=2)
    calls = [job.call(number=number) for number in range(150)]
    await live_ground.client.enqueue_many([call.options(queue="both") for call in calls])
    keyed = [call.options(queue="keyed", concurrency_key=f"k{n % 3}") for n, call in enumerate(calls)]
    await live_ground.client.enqueue_many(keyed)
    async with live_ground.app.worker(config=replace(BRISK, concurrency=10, queues=["both", "keyed"])):
        left = "SELECT count(*) FROM {job} WHERE status <> 'completed'"
        await live_ground.until(lambda: live_ground.sql(left) == [(0,)])
    assert [room.most for room in rooms.values()] == [3, 3]


async def test_a_suspect_takes_a_permit(live_ground: Ground) -> None:
    """It is run alone, within the limit, and so are the others after it."""
    rooms = Rooms()
    done: list[int] = []

    async def work(hand: Hand, number: int) -> None:
        with rooms:
            await asyncio.sleep(0.005)
            done.append(number)

    job = live_ground.job(work)
    chains = await live_ground.client.enqueue_many([job.call(number=number) for number in range(30)])
    live_ground.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=chains[20].id)
    await live_ground.client.queues.limit("default", concurrency=1)
    async with live_ground.app.worker(config=replace(BRISK, concurrency=10)):
        await live_ground.until(lambda: len(done) == 30)
    assert rooms.most == 1


async def test_who_gets_no_permit_is_idle(live_ground: Ground) -> None:
    """A worker that is to end when nothing is due does, though another one had the only permit all the time."""
    done: list[int] = []

    async def work(hand: Hand, number: int) -> None:
        await asyncio.sleep(0.01)
        done.append(number)

    job = live_ground.job(work)
    await live_ground.client.queues.limit("default", concurrency=1)
    await live_ground.client.enqueue_many([job.call(number=number) for number in range(20)])
    second = live_ground.app.make_worker(replace(BRISK, until_idle=True))
    async with live_ground.app.worker(config=BRISK), asyncio.timeout(20):
        await second.run()
    assert len(done) == 20


@pytest.mark.parametrize("kind", ["thread"])
async def test_a_thread_that_was_abandoned_keeps_its_permit(live_ground: Ground) -> None:
    """Its job is over at its timeout and tried again; the handler goes on, and no other one beside it."""
    rooms = Rooms()
    starts: list[float] = []

    async def work(hand: Hand, number: int) -> None:
        with rooms:
            starts.append(time.monotonic())
            if len(starts) == 1:
                await hand.pause(1.0)

    job = live_ground.job(work, timeout=0.2, retry=Retry(max_attempts=3, initial=0.01, jitter=0))
    await live_ground.client.queues.limit("default", concurrency=1)
    chains = await live_ground.client.enqueue_many([job.call(number=number) for number in range(3)])
    async with live_ground.app.worker(config=BRISK):
        await live_ground.until_status(chains[0].id, "pending")
        for chain in chains:
            await live_ground.until_status(chain.id, "completed")
    assert rooms.most == 1
    assert starts[1] - starts[0] >= 1.0
