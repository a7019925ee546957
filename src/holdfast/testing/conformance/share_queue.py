"""share_queue: the limits of a queue dealt out to workers, and claims that keep to it."""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.model.queue import QueueLimits
from holdfast.model.sharing import Limits, Share
from holdfast.operations.claim_jobs import claim_suspect
from holdfast.operations.limit_queue import limit_queue
from holdfast.operations.share_queue import SharedQueue, share_queue
from holdfast.operations.statement import Operation, Statement
from holdfast.operations.worker_life import forget_workers, retire_worker
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, LEASE, Harness

CASES = Cases("share_queue")

_RACERS, _ROUNDS = 4, 25


async def _limit(
    h: Harness, concurrency: int | None = None, rate: float | None = None, burst: int | None = None
) -> None:
    await h.run(lambda: limit_queue("default", QueueLimits(concurrency, rate, burst), None))


async def _ask(h: Harness, worker: str, wanted: int, in_use: int = 0, *, is_known: bool = True) -> SharedQueue:
    return await h.run(lambda: share_queue(worker, "default", in_use, wanted, is_known=is_known))


async def _enter(h: Harness, *workers: str) -> None:
    await h.register(*workers)
    for worker in workers:
        assert (await _ask(h, worker, 0)).is_new


def _rows(h: Harness) -> dict[str, Share]:
    rows = h.sql("SELECT worker_id, permits, in_use, wanted, rate, burst FROM {queue_share} WHERE queue = 'default'")
    return {share.worker_id: share for share in (Share(*row) for row in rows)}


@CASES
async def without_limits_there_is_nothing_to_share(h: Harness) -> None:
    """No row is made, whether nobody ever configured the queue or the limits are gone."""
    assert await _ask(h, "w1", 5) == SharedQueue(Limits(), Share("w1", wanted=5))
    await _limit(h, 5)
    await _limit(h)
    assert (await _ask(h, "w1", 5)).limits == Limits()
    assert _rows(h) == {}


@CASES
async def entered_with_nothing(h: Harness) -> None:
    """Who is new gets its share when it asks again, and knows that it is new."""
    await h.register("w1")
    await _limit(h, 10, 2.5, 20)
    first = await _ask(h, "w1", 4, 1)
    assert (first.is_new, first.limits) == (True, Limits(10, 2_500_000, 20))
    assert first.share == Share("w1", 0, 1, 4, 0, 0) == _rows(h)["w1"]
    second = await _ask(h, "w1", 4, 1)
    assert not second.is_new
    assert second.share == Share("w1", 4, 1, 4, 2_500_000, 20) == _rows(h)["w1"]
    assert (second.allowed, second.is_owed) == (4, False)


@CASES
async def turns_go_by_the_clock_of_the_database(h: Harness) -> None:
    """What cannot be divided is the other's half a minute later, and whoever asks when, they agree on whose it is."""
    await _limit(h, 1)
    await _enter(h, "w1", "w2")
    holders = []
    for _ in range(4):
        for worker in ("w1", "w2", "w1"):
            await _ask(h, worker, 1)
        holders.append([worker for worker, share in _rows(h).items() if share.permits])
        h.clock.advance(30)
    assert holders in ([["w1"], ["w2"]] * 2, [["w2"], ["w1"]] * 2)


@CASES
async def who_does_not_know_is_entered_anew(h: Harness) -> None:
    """What it had is for others: it may not even know that it had it."""
    await _limit(h, 10, 5, 10)
    await _enter(h, "w1", "w2")
    await _ask(h, "w1", 10)
    assert (await _ask(h, "w1", 10, 3, is_known=False)).is_new
    assert _rows(h)["w1"] == Share("w1", 0, 3, 10, 0, 0)
    # What it runs is not free all the same.
    assert (await _ask(h, "w2", 10)).share.permits == 5
    await _ask(h, "w1", 3, 3)
    assert (await _ask(h, "w2", 10)).share.permits == 7


@CASES
async def two_share(h: Harness) -> None:
    """The first has all until the second wants some; then each has half, whoever asks when."""
    await _limit(h, 10, 7, 9)
    await _enter(h, "w1", "w2")
    first = await _ask(h, "w1", 20)
    assert (first.share.permits, first.share.rate, first.share.burst) == (10, 7_000_000, 9)
    second = await _ask(h, "w2", 20)
    assert (second.share.permits, second.share.rate, second.share.burst, second.is_owed) == (0, 0, 0, True)
    first = await _ask(h, "w1", 20, in_use=6)
    assert (first.share.permits, first.allowed, first.share.burst) == (6, 5, 5)
    second = await _ask(h, "w2", 20)
    assert (second.share.permits, second.share.burst, second.is_owed) == (4, 4, True)
    await _ask(h, "w1", 20, in_use=5)
    assert (await _ask(h, "w2", 20)).share.permits == 5


@CASES
async def what_is_asked_for_is_guarded(h: Harness) -> None:
    """Whatever a worker writes, the database keeps the sums; less may always be had."""
    await _limit(h, 10, 1.5, 6)
    await _enter(h, "w1", "w2", "w3")

    async def write(worker: str, permits: int, rate: int, burst: int, in_use: int = 0) -> tuple[int, ...]:
        def verb() -> Operation[tuple[int, ...]]:
            share = {"permits": permits, "in_use": in_use, "wanted": 0, "rate": rate, "burst": burst}
            rows = yield Statement("share_queue", {"queue": "default", "worker": worker, **share})
            return tuple(rows[0])

        return await h.run(verb)

    assert await write("w1", 11, 1_500_001, 7) == (0, 0, 0)
    assert await write("w1", 7, 1_000_000, 4) == (7, 1_000_000, 4)
    assert await write("w2", 4, 500_001, 3) == (0, 0, 0)
    assert await write("w2", 3, 500_000, 2) == (3, 500_000, 2)
    assert await write("w3", 1, 1, 1) == (0, 0, 0)
    assert await write("w1", 8, 1_000_001, 5) == (7, 1_000_000, 4)
    assert await write("w1", 2, 0, 1) == (2, 0, 1)
    assert await write("w3", 5, 1_000_000, 3) == (5, 1_000_000, 3)
    # Who runs more than its permits counts with what it runs.
    assert await write("w3", 0, 0, 0, in_use=5) == (0, 0, 0)
    assert await write("w2", 4, 0, 0) == (3, 0, 0)
    await _limit(h, 4)
    assert await write("w2", 3, 0, 0) == (3, 0, 0)


@CASES
async def a_lowered_limit_calls_back(h: Harness) -> None:
    """Nobody grows before all have gone down, and who runs too much claims nothing."""
    await _limit(h, 10)
    await _enter(h, "w1", "w2", "w3")
    await _ask(h, "w1", 5)
    await _ask(h, "w2", 5)
    await _limit(h, 4)
    assert (await _ask(h, "w3", 5)).share.permits == 0
    first = await _ask(h, "w1", 5, in_use=5)
    assert (first.share.permits, first.allowed) == (5, 2)
    assert (await _ask(h, "w2", 5, in_use=0)).share.permits == 1
    assert (await _ask(h, "w3", 5)).share.permits == 0
    assert (await _ask(h, "w1", 5, in_use=2)).share.permits == 2
    assert (await _ask(h, "w3", 5)).share.permits == 1


@CASES
async def a_raised_limit_is_there_for_all(h: Harness) -> None:
    """At the next time of asking."""
    await _limit(h, 2, 1, 2)
    await _enter(h, "w1", "w2")
    await _ask(h, "w1", 9)
    await _limit(h, 12, 4, 8)
    assert (await _ask(h, "w2", 9)).share == Share("w2", 6, 0, 9, 2_000_000, 4)
    assert (await _ask(h, "w1", 9)).share == Share("w1", 6, 0, 9, 2_000_000, 4)


@CASES
async def a_dead_workers_share_is_in_use_until_its_jobs_are_back(h: Harness) -> None:
    """Marked dead is not enough: what it holds may still run."""
    await _limit(h, 3)
    await _enter(h, "w1", "w2")
    await _ask(h, "w1", 3)
    await h.put(2)
    assert len(await h.claim(2, worker="w1")) == 2
    await _ask(h, "w1", 3, in_use=2)
    h.clock.advance(DEAD_AFTER * 2)
    await h.register("w2")
    assert (await _ask(h, "w2", 3)).share.permits == 0
    assert await h.run(lambda: forget_workers(DEAD_AFTER)) == ["w1"]
    assert (await _ask(h, "w2", 3)).share.permits == 0
    assert (await h.reap(worker="w2")).returned == 2
    assert (await _ask(h, "w2", 3)).share.permits == 3
    assert set(_rows(h)) == {"w2"}


@CASES
async def the_silent_are_not_dead(h: Harness) -> None:
    """A share is not taken from a worker because it did not ask for a while."""
    await _limit(h, 3)
    await _enter(h, "w1", "w2")
    await _ask(h, "w1", 3)
    h.clock.advance(DEAD_AFTER * 5)
    assert (await _ask(h, "w2", 3)).share.permits == 0
    assert _rows(h)["w1"].permits == 3


@CASES
async def who_has_left_leaves_its_share(h: Harness) -> None:
    """But for as long as something is leased by it."""
    await _limit(h, 3)
    await _enter(h, "w1", "w2")
    await _ask(h, "w1", 3)
    await h.put(1)
    (lease,) = await h.claim(1, worker="w1")
    await h.run(lambda: retire_worker("w1"))
    assert (await _ask(h, "w2", 3)).share.permits == 0
    await h.reap(worker="w2")
    assert (await h.job(lease.id)).leased_by is None
    assert (await _ask(h, "w2", 3)).share.permits == 3


@CASES
async def what_ran_before_there_was_a_limit_counts(h: Harness) -> None:
    """Its worker is entered by the limit itself, so that nobody else is given what it uses."""
    await h.register("w1", "w2")
    await h.put_and_claim(3, worker="w1")
    await h.put_and_claim(1, worker="w1", queue="default")
    await _limit(h, 5)
    assert _rows(h) == {"w1": Share("w1", in_use=4)}
    assert (await _ask(h, "w2", 5)).is_new
    assert (await _ask(h, "w2", 5)).share.permits == 1
    await h.put(1)
    assert await h.claim(worker="w1") == []
    assert (await _ask(h, "w1", 5, in_use=4, is_known=False)).is_new
    assert (await _ask(h, "w1", 5, in_use=0)).share.permits == 3


@CASES
async def claims_need_a_share(h: Harness) -> None:
    """From the moment that the limit is set, also of those who have not heard of it; other queues are not concerned."""
    await h.register("w1")
    await h.put(2)
    await h.put(1, queue="other")
    lanes = await h.lanes("default", "other")
    await _limit(h, 5)
    assert [job.queue for job in await h.claim(lanes=lanes)] == ["other"]
    await _ask(h, "w1", 1)
    assert await h.claim(lanes=lanes) == []
    await _ask(h, "w1", 1)
    assert await h.claim(lanes=lanes, worker="w2") == []
    assert len(await h.claim(1, lanes=lanes)) == 1
    await _ask(h, "w1", 0)
    assert await h.claim(lanes=lanes) == []
    await _limit(h)
    assert len(await h.claim(lanes=lanes)) == 1


@CASES
async def claims_need_a_share_of_the_rate(h: Harness) -> None:
    """Of each limit that there is."""
    await _limit(h, 5, 1, 1)
    await _enter(h, "w1", "w2")
    await h.put(2)
    await _ask(h, "w1", 1)
    second = await _ask(h, "w2", 1)
    assert (second.share.permits, second.share.burst) == (1, 0)
    assert await h.claim(worker="w2") == []
    assert len(await h.claim(1, worker="w1")) == 1


@CASES
async def suspects_need_a_share(h: Harness) -> None:
    """As any other job."""
    await h.register("w1")
    job_id = await h.put_one()
    h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=job_id)
    await _limit(h, 1)
    assert await h.run(lambda: claim_suspect("w1", ["default"], LEASE)) == []
    await _ask(h, "w1", 1)
    await _ask(h, "w1", 1)
    assert len(await h.run(lambda: claim_suspect("w1", ["default"], LEASE))) == 1


@CASES
async def racing_for_shares(h: Harness) -> None:
    """Through connections of their own, all at once and again and again: never more than there is."""
    await _limit(h, 7, 3, 5)
    names = [f"w{number}" for number in range(_RACERS)]
    await _enter(h, *names)
    stores = h.neighbours(_RACERS)
    worst = (0, 0, 0)
    is_over = False

    async def race(place: int) -> None:
        nonlocal worst
        had = 0
        for round_number in range(_ROUNDS):
            # Sometimes everybody wants everything, sometimes nothing.
            wanted = (0, 9, 2, 9, 9)[(round_number + place) % 5]
            in_use = min(had, (round_number * 7 + place) % 4)
            verb = partial(share_queue, names[place], "default", in_use, wanted, is_known=True)
            had = (await stores[place].run(verb)).share.permits

    async def watch() -> None:
        nonlocal worst
        while not is_over:
            shares = _rows(h).values()
            sums = (sum(s.permits for s in shares), sum(s.rate for s in shares), sum(s.burst for s in shares))
            worst = (max(worst[0], sums[0]), max(worst[1], sums[1]), max(worst[2], sums[2]))
            await asyncio.sleep(0)

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*(race(place) for place in range(_RACERS)))
    is_over = True
    await watcher
    assert worst[0] <= 7, worst
    assert worst[1] <= 3_000_000, worst
    assert worst[2] <= 5, worst
    assert min(worst) > 0
