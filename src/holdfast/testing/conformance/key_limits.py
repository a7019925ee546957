"""key_limits: of each concurrency key no more run, and no more start, than its queue allows."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

from holdfast.model.call import Extras
from holdfast.model.queue import QueueLimits, ResumeTime
from holdfast.model.ring import bucket_of
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import Claim, ClaimedJob, claim_jobs, find_lanes
from holdfast.operations.complete_outside import OutsideCompletion, complete_outside
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.limit_queue import limit_queue
from holdfast.operations.pause_queue import pause_queue
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.operations.sweep_limits import Room, SweptLimits, find_limited, forget_limits, free_limits
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, LEASE, Harness, document, ids_of, lease_of
from holdfast.testing.conformance.people import cancel, reschedule, retry

CASES = Cases("key_limits")


async def _limit(
    h: Harness, concurrency: int | None = None, rate: float | None = None, burst: int | None = None
) -> None:
    limits = QueueLimits(key_concurrency=concurrency, key_rate=rate, key_burst=burst)
    await h.run(lambda: limit_queue("default", limits, None))


async def _put(h: Harness, count: int, key: str = "k", **fields: object) -> list[str]:
    return await h.put(count, more=Extras(concurrency_key=key), **fields)


async def _all(h: Harness, **options: object) -> list[ClaimedJob]:
    """Claims, until one finds nothing to claim and nothing to set aside."""
    claimed: list[ClaimedJob] = []
    for _ in range(50):
        claim = await h.claim(**options)  # type: ignore[arg-type]  # by name
        claimed += claim
        if not claim and not claim.aside:
            return claimed
    raise AssertionError("claims find no end")


async def _sweep(h: Harness) -> SweptLimits:
    swept = await h.run(lambda: find_limited(None), read_only=True)
    if swept.rooms:
        await h.run(lambda: free_limits(swept.rooms))
    return swept


def _waiting(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job} WHERE held AND limited AND status = 'pending'")[0][0])


async def _suspect(h: Harness) -> str:
    """A job whose worker died, a minute ago."""
    await h.register("w1")
    (job_id,) = await _put(h, 1)
    await _all(h)
    h.clock.advance(DEAD_AFTER + timedelta(seconds=1))
    await h.register("w2")
    await h.reap(worker="w2")
    h.clock.advance(timedelta(minutes=1))
    return job_id


# --- concurrency ------------------------------------------------------------------------------------------------------


@CASES
async def so_many_run_at_a_time(h: Harness) -> None:
    """Each key for itself; jobs without one are not limited."""
    await _limit(h, 2)
    a, b, free = await _put(h, 4, "a"), await _put(h, 3, "b"), await h.put(5)
    assert set(ids_of(await _all(h))) == {*a[:2], *b[:2], *free}
    assert _waiting(h) == 3


@CASES
async def who_leaves_makes_room(h: Harness) -> None:
    """For as many as leave, in claim order, and claimed at once."""
    await _limit(h, 2)
    ids = await _put(h, 6)
    first = await _all(h)
    await h.complete(lease_of(first[0]))
    (third,) = await _all(h)
    assert third.id == ids[2]
    await h.complete(lease_of(first[1]), lease_of(third))
    assert ids_of(await _all(h)) == ids[3:5]


@CASES
async def the_more_urgent_comes_first(h: Harness) -> None:
    """Priority counts among those that wait."""
    await _limit(h, 1)
    await _put(h, 1)
    (running,) = await _all(h)
    late, soon = await _put(h, 1, priority=5), await _put(h, 1, priority=1)
    assert await _all(h) == []
    await h.complete(lease_of(running))
    (next_one,) = await _all(h)
    assert next_one.id == soon[0]
    await h.complete(lease_of(next_one))
    assert ids_of(await _all(h)) == late


@CASES
async def every_way_out_makes_room(h: Harness) -> None:
    """Failing, snoozing, completed from outside, going on as the next job; one that is released keeps its place."""
    await _limit(h, 1)
    await h.register("w1")
    ids = await _put(h, 8)
    (job,) = await _all(h)

    async def next_is(place: int) -> ClaimedJob:
        claimed = await _all(h)
        assert ids_of(claimed) == [ids[place]]
        return claimed[0]

    await h.fail(lease_of(job), is_final=True)
    job = await next_is(1)
    later = Postponement(job.id, job.lease_generation, 3_600_000)
    await h.run(lambda: snooze_jobs([later]))
    job = await next_is(2)
    await h.fail(lease_of(job), delay=timedelta(hours=1))
    job = await next_is(3)
    await h.run(partial(complete_outside, OutsideCompletion(job.id, False, (), lambda _: None)))  # noqa: FBT003 - a job
    job = await next_is(4)
    step = Continuation(job.id, job.lease_generation, document(queue="other"))
    await h.run(lambda: continue_jobs("w1", [step]))
    job = await next_is(5)
    await h.release(lease_of(job))
    (again,) = await _all(h)
    assert again.id == job.id


@CASES
async def the_dead_make_room(h: Harness) -> None:
    """When their jobs are taken back, and not before."""
    await _limit(h, 2)
    await h.register("w1")
    ids = await _put(h, 4)
    assert ids_of(await _all(h)) == ids[:2]
    h.clock.advance(DEAD_AFTER + timedelta(seconds=1))
    await h.register("w2")
    assert await _all(h, worker="w2") == []
    await h.reap(worker="w2")
    assert ids_of(await _all(h, worker="w2")) == ids[2:4]
    assert await h.claim_suspect(worker="w2") == []


@CASES
async def suspects_count(h: Harness) -> None:
    """One whose worker died is claimed only if its key has room."""
    await _limit(h, 1)
    await h.register("w1")
    ids = await _put(h, 1)
    assert ids_of(await _all(h)) == ids
    h.clock.advance(DEAD_AFTER + timedelta(seconds=1))
    await h.register("w2")
    await h.reap(worker="w2")
    h.clock.advance(timedelta(minutes=1))
    (suspect,) = await h.claim_suspect(worker="w2")
    more = await _put(h, 1)
    assert await _all(h, worker="w2") == []
    await h.complete(lease_of(suspect), worker="w2")
    assert ids_of(await _all(h, worker="w2")) == more


@CASES
async def suspects_without_room_are_out_of_the_way(h: Harness) -> None:
    """Nobody empties a worker for one that could not start: it stands aside, and comes when there is room."""
    await _limit(h, 1)
    suspect = await _suspect(h)
    await _put(h, 1)
    (running,) = await _all(h)
    assert await h.claim_suspect(worker="w2") == []
    assert await h.run(lambda: find_lanes(["default"]), read_only=True) == []
    await h.complete(lease_of(running))
    assert ids_of(await h.claim_suspect(worker="w2")) == [suspect]


@CASES
async def suspects_wait_for_a_start(h: Harness) -> None:
    """Where a rate keeps it, one is due when it may start."""
    await _limit(h, rate=0.1, burst=1)
    suspect = await _suspect(h)
    await _put(h, 1)
    assert len(await _all(h)) == 1
    assert await h.claim_suspect(worker="w2") == []
    (lane,) = await h.run(lambda: find_lanes(["default"]), read_only=True)
    assert lane.due_in_ms == 10_000
    h.clock.advance(timedelta(seconds=10))
    assert ids_of(await h.claim_suspect(worker="w2")) == [suspect]


@CASES
async def racing_claims_take_no_more(h: Harness) -> None:
    """Eight stores at once, again and again, each for less than is there: never more than the limit."""
    await _limit(h, 3)
    await _put(h, 40, "a")
    await _put(h, 40, "b")
    stores = h.neighbours(8)
    done: set[str] = set()
    for _ in range(80):
        lanes = await h.lanes()
        claims = await asyncio.gather(*(store.run(lambda: claim_jobs("w1", lanes, 2, LEASE)) for store in stores))  # noqa: B023 - awaited here
        running = h.sql("SELECT concurrency_key, count(*) FROM {job} WHERE status = 'running' GROUP BY 1")
        assert all(count <= 3 for _, count in running), running
        got = [job for claim in claims for job in claim]
        done.update(ids_of(got))
        await h.complete(*map(lease_of, got))
        if len(done) == 80:
            return
        if not got:
            await _sweep(h)
    raise AssertionError(f"{len(done)} of 80 have run")


@CASES
async def a_raised_limit_takes_effect(h: Harness) -> None:
    """The sweep brings those that wait; without limits all of them."""
    await _limit(h, 1)
    ids = await _put(h, 5)
    assert ids_of(await _all(h)) == ids[:1]
    await _limit(h, 3)
    assert (await _sweep(h)).rooms == [Room("default", "k", 2)]
    assert ids_of(await _all(h)) == ids[1:3]
    await _limit(h)
    await _sweep(h)
    assert ids_of(await _all(h)) == ids[3:]


@CASES
async def a_lowered_limit_lets_nobody_in(h: Harness) -> None:
    """Until fewer run than it allows; what runs goes on."""
    await _limit(h, 3)
    ids = await _put(h, 5)
    running = await _all(h)
    await _limit(h, 1)
    await h.complete(lease_of(running[0]))
    assert await _all(h) == []
    await h.complete(lease_of(running[1]), lease_of(running[2]))
    assert ids_of(await _all(h)) == ids[3:4]


@CASES
async def above_a_lowered_limit_all_stand_aside(h: Harness) -> None:
    """More run than may: whoever comes is not met again and again."""
    await _limit(h, 4)
    await _put(h, 6)
    running = await _all(h)
    await _limit(h, 2)
    await _put(h, 3)
    assert (await h.claim()).aside == 3
    assert _waiting(h) == 5
    await h.complete(*map(lease_of, running))
    assert len(await _all(h)) == 2


@CASES
async def much_room_comes_in_portions(h: Harness) -> None:
    """However high a limit is raised, one sweep brings a thousand of a key at most."""
    await _limit(h, 1)
    await _put(h, 3)
    await _all(h)
    await _limit(h, 1_000_000)
    (room,) = (await _sweep(h)).rooms
    assert room.places == 1000
    assert len(await _all(h)) == 2


@CASES
async def nothing_is_stranded(h: Harness) -> None:
    """One that was put back is cancelled: the sweep brings another. What a pause keeps stays."""
    await _limit(h, 1)
    ids = await _put(h, 4)
    (running,) = await _all(h)
    await h.complete(lease_of(running))
    await cancel(h, ids[1])
    assert await _all(h) == []
    await h.run(lambda: pause_queue("default", ResumeTime(), None, None))
    assert (await _sweep(h)).rooms == []
    h.sql("DELETE FROM {queue} WHERE paused_at IS NOT NULL")
    await _limit(h, 1)
    await _sweep(h)
    assert ids_of(await _all(h)) == ids[2:3]


@CASES
async def people_may_change_who_waits(h: Harness) -> None:
    """Cancelled and retried, rescheduled: it is judged anew."""
    await _limit(h, 1)
    ids = await _put(h, 4)
    (running,) = await _all(h)
    await cancel(h, ids[1])
    await retry(h, ids[1])
    await reschedule(h, ids[2], delay=timedelta(hours=1))
    assert await _all(h) == []
    assert _waiting(h) == 2
    await h.complete(lease_of(running))
    (next_one,) = await _all(h)
    assert next_one.id in {ids[1], ids[3]}
    assert (await h.job(ids[2])).ready_at == h.now + timedelta(hours=1)


@CASES
async def nothing_is_claimed_ahead(h: Harness) -> None:
    """What lies in a buffer neither runs nor has started: such claims leave limited jobs to others."""
    await _limit(h, 5)
    await _put(h, 2)
    free = await h.put(1)
    claim = await h.claim(prefetch=True)
    assert ids_of(claim) == free
    assert claim.passed
    assert len(await _all(h)) == 2


@CASES
async def it_waits_for_both_its_keys(h: Harness) -> None:
    """Behind others of its partition key, and for room in its concurrency key: one does not undo the other."""
    await _limit(h, 1)

    def both(partition: str) -> Extras:
        return Extras(
            partition_key=partition, partition_bucket=bucket_of(partition), ordering="fifo", concurrency_key="k"
        )

    a1, a2, b1 = [await h.put_one(more=both(name)) for name in ("a", "a", "b")]
    (job,) = await _all(h)
    assert job.id == a1
    await h.complete(lease_of(job))
    (job,) = await _all(h)
    assert job.id in {a2, b1}
    await h.complete(lease_of(job))
    await _sweep(h)
    (last,) = await _all(h)
    assert {job.id, last.id} == {a2, b1}
    assert not (await h.run(lambda: find_limited(None), read_only=True)).rooms


@CASES
async def a_partition_key_does_not_put_it_back(h: Harness) -> None:
    """Somebody leaves its partition key: it waits for its limit all the same."""
    await _limit(h, 1)
    await _put(h, 1)
    (running,) = await _all(h)
    extras = Extras(partition_key="a", partition_bucket=bucket_of("a"), ordering="fifo", concurrency_key="k")
    waiting = await h.put_one(more=extras)
    assert await _all(h) == []
    other = await h.put_one(more=Extras(partition_key="a", partition_bucket=bucket_of("a"), ordering="serial"))
    await cancel(h, other)
    assert _waiting(h) == 1
    await h.complete(lease_of(running))
    assert ids_of(await _all(h)) == [waiting]


@CASES
async def of_very_many_keys_the_first_come_first(h: Harness) -> None:
    """A claim that cannot decide about all of them begins with those that have waited longest, whatever their names."""
    await _limit(h, 1)
    first = await h.put_one(more=Extras(concurrency_key="z"))
    for number in range(150):
        await h.put_one(more=Extras(concurrency_key=f"a{number}"))
    assert first in ids_of(await h.claim())


@CASES
async def one_claim_judges_both_kinds_together(h: Harness) -> None:
    """With a partition key and without: they share the places of their concurrency key."""
    await _limit(h, 1)
    extras = Extras(partition_key="a", partition_bucket=bucket_of("a"), ordering="fifo", concurrency_key="k")
    for _ in range(2):
        await h.put_one(more=extras)
        await _put(h, 1)
    assert len(await _all(h)) == 1


@CASES
async def who_waits_for_room_holds_up_his_partition_key_no_longer_than_he_is_there(h: Harness) -> None:
    """The first of a partition key stands aside for a limit and is cancelled: the next one may run."""
    await _limit(h, 1)
    await _put(h, 1)
    await _all(h)
    first, second = [
        await h.put_one(
            more=Extras(partition_key="a", partition_bucket=bucket_of("a"), ordering="fifo", concurrency_key=key)
        )
        for key in ("k", None)
    ]
    assert await _all(h) == []
    await cancel(h, first)
    assert ids_of(await _all(h)) == [second]


@CASES
async def runs_do_not_get_round_it(h: Harness) -> None:
    """Behind the first one of a partition key nothing limited comes along."""
    await _limit(h, 1)
    extras = Extras(partition_key="a", partition_bucket=bucket_of("a"), ordering="fifo", concurrency_key="k")
    ids = [await h.put_one(more=extras) for _ in range(3)]
    assert ids_of(await h.claim(run=10)) == ids[:1]
    assert (await h.job(ids[1])).status is Status.PENDING


# --- rate -------------------------------------------------------------------------------------------------------------


@CASES
async def so_many_start_per_second(h: Harness) -> None:
    """A burst, then one whenever it is due, and the lanes say when that is."""
    await _limit(h, rate=2, burst=3)
    ids = await _put(h, 8)
    assert ids_of(await _all(h)) == ids[:3]
    started = 3
    while started < 8:
        h.clock.advance(timedelta(milliseconds=499))
        assert await _all(h) == []
        h.clock.advance(timedelta(milliseconds=1))
        assert ids_of(await _all(h)) == [ids[started]]
        started += 1
    assert _waiting(h) == 0


@CASES
async def what_waits_for_a_rate_is_due(h: Harness) -> None:
    """Somebody who sleeps until the next job is due sleeps exactly as long as he should."""
    await _limit(h, rate=4, burst=1)
    await _put(h, 3)
    assert len(await _all(h)) == 1
    (lane,) = await h.lanes()
    h.clock.advance(timedelta(milliseconds=250))
    assert len(await h.claim(lanes=[lane])) == 1


@CASES
async def starts_are_saved_up_to_the_burst(h: Harness) -> None:
    """After an hour of nothing so many may start at once as the burst says, and not one more."""
    await _limit(h, rate=10, burst=2)
    await _put(h, 1)
    assert len(await _all(h)) == 1
    h.clock.advance(timedelta(hours=1))
    await _put(h, 5)
    assert len(await _all(h)) == 2


@CASES
async def a_rate_holds_in_every_window(h: Harness) -> None:
    """Claims at odd moments, by several workers: in t seconds no more than burst + rate × t starts."""
    await _limit(h, rate=5, burst=4)
    await _put(h, 60)
    began, starts = h.now, []
    for step in (0, 30, 170, 41, 259, 700, 13, 87, 990, 5, 195, 400, 1201, 60, 340, 777, 23):
        h.clock.advance(timedelta(milliseconds=step))
        lanes = await h.lanes()
        claims = await asyncio.gather(*(h.try_claim(store, lanes, "w") for store in h.neighbours(2)))
        starts += [(h.now - began).total_seconds()] * sum(map(len, claims))
        starts += [(h.now - began).total_seconds()] * len(await _all(h))
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            assert last - first + 1 <= 4 + 5 * (starts[last] - starts[first]) + 0.001
    assert len(starts) >= 5 * starts[-1] * 0.9


@CASES
async def a_rate_and_a_concurrency(h: Harness) -> None:
    """Both hold."""
    await _limit(h, 2, rate=10, burst=5)
    ids = await _put(h, 5)
    first = await _all(h)
    assert ids_of(first) == ids[:2]
    h.clock.advance(timedelta(seconds=10))
    assert await _all(h) == []
    await h.complete(*map(lease_of, first))
    assert ids_of(await _all(h)) == ids[2:4]


@CASES
async def who_waits_for_a_rate_survives(h: Harness) -> None:
    """The one that was due is cancelled: the sweep puts another in its place."""
    await _limit(h, rate=1, burst=1)
    ids = await _put(h, 4)
    assert ids_of(await _all(h)) == ids[:1]
    await cancel(h, ids[1])
    h.clock.advance(timedelta(seconds=2))
    assert await _all(h) == []
    await _sweep(h)
    assert ids_of(await _all(h)) == ids[2:3]
    h.clock.advance(timedelta(seconds=1))
    assert ids_of(await _all(h)) == ids[3:]


@CASES
async def another_rate_takes_effect(h: Harness) -> None:
    """Faster, or none at all: nobody waits for what the old rate would have allowed."""
    for key, faster in (("a", 10), ("b", None)):
        await _limit(h, rate=0.001, burst=1)
        ids = await _put(h, 4, key)
        assert ids_of(await _all(h)) == ids[:1]
        await _limit(h, rate=faster, burst=faster)
        started = len(await _all(h))
        h.clock.advance(timedelta(seconds=1))
        for _ in range(3):
            await _sweep(h)
            started += len(await _all(h))
        assert started == 3


@CASES
async def a_clock_that_is_put_back_shuts_nothing(h: Harness) -> None:
    """What was spent before counts for no more than a burst: one starts when the next may, and the others after it."""
    await _limit(h, rate=1, burst=2)
    await _put(h, 4)
    assert len(await _all(h)) == 2
    h.clock.now -= timedelta(hours=1)
    ids = await _put(h, 3)
    assert await _all(h) == []
    for job_id in ids:
        h.clock.advance(timedelta(milliseconds=999))
        assert await _all(h) == []
        h.clock.advance(timedelta(milliseconds=1))
        assert ids_of(await _all(h)) == [job_id]


@CASES
async def what_an_old_rate_left_behind_shuts_nothing(h: Harness) -> None:
    """A claim that did not know of the new rate yet has written down what it spent of the old one."""
    await _limit(h, rate=0.001, burst=1)
    ids = await _put(h, 4)
    assert ids_of(await _all(h)) == ids[:1]
    h.sql("UPDATE {queue} SET key_rate = 1")  # passing by what that claim has locked
    started = []
    for _ in range(4):
        await _sweep(h)
        started += ids_of(await _all(h))
        h.clock.advance(timedelta(seconds=1))
    assert started == ids[2:]  # the one that the old rate has made due comes at its time


@CASES
async def spent_starts_are_forgotten(h: Harness) -> None:
    """Once they are all saved up again; not while anything is owed."""
    await _limit(h, rate=1, burst=2)
    await _put(h, 2)
    await _all(h)
    await h.run(forget_limits)
    assert h.count("limited_key") == 1
    h.clock.advance(timedelta(minutes=2))
    await h.run(forget_limits)
    assert h.count("limited_key") == 0


@CASES
async def nothing_waits_without_limits(h: Harness) -> None:
    """A concurrency key in a queue without such limits is only a name."""
    ids = await _put(h, 20)
    claim: Claim = await h.claim(prefetch=True)
    assert ids_of(claim) == ids
    assert claim.aside == 0
