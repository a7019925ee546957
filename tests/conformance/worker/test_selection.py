"""What a worker takes, and from which queue first: flags, orders of queues, and partition keys shared out by a ring."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import InvalidOption
from holdfast.model.queue_order import QueueOrder
from holdfast.model.ring import Ring, bucket_of
from tests.conformance.worker.conftest import BRISK, Ground, Hand


async def test_forbidden_flags(live_ground: Ground) -> None:
    """Left to others, for as long as the function says so."""
    ground = live_ground
    forbidden = ["gpu"]

    async def note(_: Hand, number: int) -> None:
        ground.seen.append(number)

    job = ground.job(note)
    await ground.client.enqueue(job.call(number=1), flags=["gpu", "big"])
    await ground.client.enqueue(job.call(number=2), flags=["big"])
    await ground.client.enqueue(job.call(number=3))
    async with ground.app.worker(config=replace(BRISK, forbidden_flags=lambda: forbidden)):
        await ground.until(lambda: len(ground.seen) == 2)
        await asyncio.sleep(0.5)
        assert sorted(ground.seen) == [2, 3]
        forbidden.clear()
        await ground.until(lambda: len(ground.seen) == 3)
    assert ground.seen[-1] == 1


async def test_a_function_that_fails_forbids_what_it_forbade(
    live_ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker goes on, and says what is wrong."""
    ground = live_ground
    answers: list[object] = [["gpu"], "gpu"]

    def forbidden() -> list[str]:
        if not answers:
            raise RuntimeError("flags are out of order")
        return answers.pop(0)  # type: ignore[return-value]  # one of them is wrong

    async def note(_: Hand, number: int) -> None:
        ground.seen.append(number)

    job = ground.job(note)
    await ground.client.enqueue(job.call(number=1), flags=["gpu"])
    await ground.client.enqueue(job.call(number=2))
    async with ground.app.worker(config=replace(BRISK, forbidden_flags=forbidden)):
        await ground.until(lambda: not answers and ground.seen)
        await asyncio.sleep(0.5)
    assert ground.seen == [2]
    assert "must be a list of words" in caplog.text
    assert "flags are out of order" in caplog.text


@pytest.mark.parametrize("answer", ["gpu", None])
async def test_a_function_that_is_wrong_from_the_start(live_ground: Ground, answer: object) -> None:
    """Nobody knows what it would forbid: the worker does not begin, rather than take everything."""
    ground = live_ground

    def forbidden() -> Any:
        if answer is None:
            raise RuntimeError("flags are out of order")
        return answer

    async def note(_: Hand, number: int) -> None:
        ground.seen.append(number)

    job = ground.job(note)
    chain = await ground.client.enqueue(job.call(number=1), flags=["gpu"])
    with pytest.raises(InvalidOption, match=r"forbidden_flags=.*(must be a list of words|flags are out of order)"):
        async with ground.app.worker(config=replace(BRISK, forbidden_flags=forbidden)):
            await ground.until(lambda: ground.seen)
    assert (await ground.get(chain.id)).attempt == 0


async def test_a_weight_for_a_queue_that_is_not_served(live_ground: Ground) -> None:
    """It is a slip of the pen: the queue that was meant would have another weight."""
    ground = live_ground
    ground.job(_nothing)
    config = replace(BRISK, queues=["mail", "web"], queue_order={"mial": 3, "web": 1})
    with pytest.raises(InvalidOption, match=r"queue_order=.mial=3.: this worker serves 'mail', 'web'"):
        async with ground.app.worker(config=config):
            pass


async def _nothing(hand: Hand) -> None:
    pass


async def _first_taken(ground: Ground, order: QueueOrder, jobs: int = 40) -> list[str]:
    """The queues of what a worker with one slot started, in this order."""

    async def note(hand: Hand) -> None:
        ground.seen.append(hand.ctx.job.queue)

    job = ground.job(note)
    for queue in ("web", "mail"):
        await ground.client.enqueue_many([job.call() for _ in range(jobs)], queue=queue)
    config = replace(BRISK, queues=["web", "mail"], concurrency=1, batch=1, queue_order=order)
    async with ground.app.worker(config=config):
        await ground.until(lambda: len(ground.seen) == 2 * jobs)
    return list(ground.seen)


async def test_queues_of_one_priority_are_served_like_one(live_ground: Ground) -> None:
    """What has waited longest comes first, whatever the names of the queues, but for what one claim brings."""
    ground = live_ground

    async def note(hand: Hand) -> None:
        ground.seen.append(hand.ctx.job.queue)

    job = ground.job(note)
    for queue, count in (("a", 40), ("b", 1), ("a", 40), ("b", 1)):
        await ground.client.enqueue_many([job.call() for _ in range(count)], queue=queue)
    async with ground.app.worker(config=replace(BRISK, queues=["a", "b"], concurrency=1, batch=5)):
        await ground.until(lambda: len(ground.seen) == 82)
    first = ground.seen.index("b")
    assert first < 60
    assert ground.seen.index("b", first + 1) > first + 1


async def test_strict_order_of_queues(live_ground: Ground) -> None:
    """One queue before the other, whatever the priorities."""
    assert await _first_taken(live_ground, "strict") == ["web"] * 40 + ["mail"] * 40


async def test_weighted_queues(live_ground: Ground) -> None:
    """In about these shares, and none is left out."""
    first = Counter((await _first_taken(live_ground, {"web": 9, "mail": 1}, 80))[:80])
    assert first["web"] > 55
    assert first["mail"] >= 1


async def test_weights_hold_where_jobs_come_in_runs(live_ground: Ground) -> None:
    """Jobs of one partition key are claimed many at a time, but not more of them than their queue's share."""
    ground = live_ground

    # Without a context the next of a run starts at once.
    @ground.app.job()
    async def note(queue: str) -> None:
        ground.seen.append(queue)
        await asyncio.sleep(0.004)

    keyed = [note.call(queue="web").options(partition_key=f"key {number % 10}") for number in range(300)]
    await ground.client.enqueue_many(keyed, queue="web")
    await ground.client.enqueue_many([note.call(queue="mail") for _ in range(300)], queue="mail")
    config = replace(BRISK, queues=["web", "mail"], concurrency=2, queue_order={"mail": 3, "web": 1})
    async with ground.app.worker(config=config):
        await ground.until(lambda: len(ground.seen) >= 200)
    first = Counter(ground.seen[:200])
    assert first["mail"] > 120, first


async def test_workers_share_keys_by_the_ring(live_ground: Ground) -> None:
    """Each runs its own; when one has left, the other runs all."""
    ground = live_ground

    async def note(hand: Hand, number: int) -> None:
        ground.seen.append((number, hand.ctx.job.leased_by))

    job = ground.job(note)
    config = replace(BRISK, affinity="ring", heartbeat=timedelta(milliseconds=100), dead_after=timedelta(seconds=1))
    first, second = ground.app.make_worker(config), ground.app.make_worker(config)
    tasks = [asyncio.create_task(worker.run()) for worker in (first, second)]
    await first.started.wait()
    await second.started.wait()
    await asyncio.sleep(1)  # until both have seen each other
    await ground.client.enqueue_many(
        [job.call(number=number).options(partition_key=f"key {number}") for number in range(100)]
    )
    await ground.until(lambda: len(ground.seen) == 100)
    ring = Ring([first.id, second.id])
    assert {worker for _, worker in ground.seen} == {first.id, second.id}
    assert [
        (number, worker) for number, worker in ground.seen if ring.owners[bucket_of(f"key {number}")] != worker
    ] == []
    ground.seen.clear()
    first.stop()
    await tasks[0]
    await ground.client.enqueue_many(
        [job.call(number=number).options(partition_key=f"key {number}") for number in range(50)]
    )
    await ground.until(lambda: len(ground.seen) == 50, patience=9)
    assert {worker for _, worker in ground.seen} == {second.id}
    second.stop()
    await tasks[1]
