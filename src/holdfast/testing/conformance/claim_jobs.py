"""claim_jobs: each due job goes to one worker, in order, under a new generation."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from holdfast.model.clock import iso
from holdfast.model.ids import new_ids
from holdfast.model.scan_position import ScanPosition
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import claim_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, LEASE, Harness, document, ids_of, lease_of

CASES = Cases("claim_jobs")


@CASES
async def takes_a_lease(h: Harness) -> None:
    """Attempt and generation grow by one; owner, lease and time are set; the rest stays."""
    job_id = await h.put_one(input={"n": 1}, tenant="acme", timeout_ms=500, max_attempts=7)
    before = await h.job(job_id)
    h.clock.advance(5)
    (claimed,) = await h.claim(worker="worker-7")
    assert (claimed.id, claimed.attempt, claimed.lease_generation, claimed.type_name) == (job_id, 1, 1, "sum")
    assert (claimed.queue, claimed.priority, claimed.seq) == ("default", 0, before.seq)
    assert (claimed.timeout_ms, claimed.max_attempts, claimed.tenant) == (500, 7, "acme")
    job = await h.job(job_id)
    assert (job.status, job.attempt, job.lease_generation, job.leased_by) == (Status.RUNNING, 1, 1, "worker-7")
    assert (job.leased_until, job.last_attempt_at) == (h.now + LEASE, h.now)
    assert (job.created_at, job.ready_at, job.input) == (before.created_at, before.ready_at, before.input)


@CASES
async def nothing_to_claim(h: Harness) -> None:
    """No lanes, an empty queue, and everything running: nothing, and no error."""
    assert await h.claim(lanes=[]) == []
    await h.put()
    lanes = await h.lanes()
    assert len(await h.claim(lanes=lanes)) == 1
    assert await h.claim(lanes=lanes) == []
    assert await h.claim() == []


@CASES
async def returns_at_most_the_limit(h: Harness) -> None:
    """A claim of n takes the first n and leaves the others untouched."""
    ids = await h.put(10)
    assert ids_of(await h.claim(3)) == ids[:3]
    assert [(await h.job(job_id)).status for job_id in ids[3:]] == [Status.PENDING] * 7
    assert ids_of(await h.claim(100)) == ids[3:]


@CASES
async def orders_by_priority_then_ready_time_then_seq(h: Harness) -> None:
    """Smaller priority first, then who became claimable earlier, then the order of enqueue."""
    start = h.now
    wanted: list[tuple[int, int, str]] = []
    for priority, minute in ((5, 0), (-5, 3), (0, 2), (0, 0), (-5, 1), (0, 1), (5, 0), (0, 2)):
        job_id = await h.put_one(priority=priority, at=start + timedelta(minutes=minute))
        wanted.append((priority, minute, job_id))
    h.clock.advance(timedelta(minutes=10))
    expected = [job_id for _, _, job_id in sorted(wanted, key=lambda item: item[:2])]
    assert ids_of(await h.claim()) == expected


@CASES
async def orders_inside_one_batch(h: Harness) -> None:
    """The same inside one enqueue, with ids that sort the other way round."""
    ids = sorted(new_ids(6), reverse=True)
    priorities = (3, 1, 2, 1, 3, 2)
    await h.enqueue(*(document(id=job_id, priority=priority) for job_id, priority in zip(ids, priorities, strict=True)))
    assert ids_of(await h.claim()) == [ids[place] for place in (1, 3, 2, 5, 0, 4)]


@CASES
async def limit_cuts_across_priorities(h: Harness) -> None:
    """A limit takes the best of all priorities, not some of each."""
    late = await h.put(3, priority=2)
    early = await h.put(3, priority=1)
    assert ids_of(await h.claim(4)) == [*early, late[0]]


@CASES
async def limit_takes_the_earliest(h: Harness) -> None:
    """Of one priority, the job that became claimable first is taken first, though it was enqueued last."""
    late, middle, early = [await h.put_one(at=h.now + timedelta(seconds=seconds)) for seconds in (30, 20, 10)]
    h.clock.advance(60)
    assert [ids_of(await h.claim(1)) for _ in range(3)] == [[early], [middle], [late]]


@CASES
async def future_jobs_wait(h: Harness) -> None:
    """A job is not claimed a microsecond before its time, and is claimed at it."""
    job_id = await h.put_one(at=h.now + timedelta(seconds=10))
    h.clock.advance(timedelta(seconds=10) - timedelta(microseconds=1))
    assert await h.claim() == []
    h.clock.advance(timedelta(microseconds=1))
    assert ids_of(await h.claim()) == [job_id]


@CASES
async def blocked_held_and_finished_jobs_are_left(h: Harness) -> None:
    """Only pending jobs that are not held are claimed."""
    for change in (
        "status = 'blocked', waiting_for = 1",
        "held = true",
        "status = 'cancelled', finished_at = :now",
        "status = 'completed', finished_at = :now",
        "status = 'dead_letter', finished_at = :now",
    ):
        job_id = await h.put_one()
        lanes = await h.lanes()
        arguments = {"now": iso(h.now)} if ":now" in change else {}
        h.sql("UPDATE {job} SET " + change + " WHERE id = :id", id=job_id, **arguments)  # noqa: S608 - fixed texts
        assert await h.claim(lanes=lanes) == [], change


@CASES
async def suspects_are_left(h: Harness) -> None:
    """A job whose worker died is not taken together with others."""
    suspect = await h.put_one()
    other = await h.put_one()
    lanes = await h.lanes()
    h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=suspect)
    assert ids_of(await h.claim(lanes=lanes)) == [other]


@CASES
async def takes_only_from_the_queues_asked(h: Harness) -> None:
    """Jobs of other queues stay, however similar their names."""
    for queue in ("Default", "default ", "default%", "d_fault"):
        await h.put(queue=queue)
    wanted = await h.put_one(queue="default")
    assert ids_of(await h.claim()) == [wanted]
    assert len(await h.claim(queues=("Default", "d_fault"))) == 2


@CASES
async def several_queues_share_the_order(h: Harness) -> None:
    """With two queues the smaller priority still goes first."""
    slow = await h.put_one(queue="a", priority=1)
    fast = await h.put_one(queue="b", priority=0)
    assert ids_of(await h.claim(queues=("a", "b"))) == [fast, slow]


@CASES
async def position_moves_forward(h: Harness) -> None:
    """A claim that starts where the last one ended finds exactly what comes after it."""
    ids = await h.put(9)
    position = ScanPosition()
    position.advance(await h.claim(3))
    for start in (3, 6):
        claimed = await h.claim(3, lanes=position.lanes)
        assert ids_of(claimed) == ids[start : start + 3]
        position.advance(claimed)
    assert await h.claim(3, lanes=position.lanes) == []
    later = await h.put_one()
    assert ids_of(await h.claim(3, lanes=position.lanes)) == [later]


@CASES
async def position_skips_what_lies_behind(h: Harness) -> None:
    """What came back behind the position is found by looking back, and only then."""
    ids = await h.put(4)
    claimed = await h.claim(2)
    position = ScanPosition()
    position.advance(claimed)
    await h.release(lease_of(claimed[0]))
    assert ids_of(await h.claim(lanes=position.lanes)) == ids[2:]
    assert ids_of(await h.claim()) == [ids[0]]


@CASES
async def generation_never_goes_back(h: Harness) -> None:
    """Release refunds the attempt, not the generation; failure keeps both."""
    job_id = await h.put_one()
    for generation in (1, 2, 3):
        lease = await h.claim_one()
        assert (lease.lease_generation, (await h.job(job_id)).attempt) == (generation, 1)
        await h.release(lease)
    lease = await h.claim_one()
    await h.fail(lease)
    (claimed,) = await h.claim()
    assert (claimed.lease_generation, claimed.attempt) == (5, 2)


@CASES
async def brings_the_last_error(h: Harness) -> None:
    """From the second attempt on, a claim carries what the one before failed with."""
    (lease,) = await h.put_and_claim()
    await h.fail(lease)
    (claimed,) = await h.claim()
    assert claimed.last_attempt_error is not None
    assert "no such order" in str(claimed.last_attempt_error)


@CASES
async def prefetch_is_marked_promoted_and_dropped(h: Harness) -> None:
    """A prefetching claim leaves a mark, a later one promotes it, a later one drops it; an empty claim leaves none."""
    assert await h.claim(prefetch=True) == []
    assert h.count("prefetch") == 0
    await h.put(4)
    first = await h.claim(2, prefetch=True)
    assert len({job.claimed_at for job in first}) == 1
    assert first[0].claimed_at is not None
    assert _marks(h) == [False]
    h.clock.advance(1)
    second = await h.claim(2, prefetch=True, start=first[0].claimed_at)
    assert len(second) == 2
    assert _marks(h) == [True, False]
    h.clock.advance(1)
    assert await h.claim(lanes=[], start=second[0].claimed_at, drops=[first[0].claimed_at]) == []
    assert _marks(h) == [True]


@CASES
async def prefetch_marks_are_the_workers_own(h: Harness) -> None:
    """Promoting or dropping a batch leaves another worker's mark of the same instant alone."""
    await h.put(4)
    mine = await h.claim(2, worker="w1", prefetch=True)
    await h.claim(2, worker="w2", prefetch=True)
    assert mine[0].claimed_at is not None
    h.clock.advance(1)
    await h.claim(worker="w1", start=mine[0].claimed_at)
    assert _marks(h) == [True, False]
    await h.claim(worker="w1", drops=[mine[0].claimed_at])
    assert h.sql("SELECT worker_id FROM {prefetch}") == [("w2",)]
    assert _marks(h) == [False]


@CASES
async def parallel_claims_are_disjoint(h: Harness) -> None:
    """Race: eight claimers empty a queue; every job goes to exactly one, under generation 1."""
    stores = h.neighbours(8)
    for _ in range(4):
        ids = await h.put(240)
        lanes = await h.lanes()

        async def claim_all(number: int) -> list[str]:
            taken: list[str] = []
            while batch := await stores[number].run(lambda: claim_jobs(f"w{number}", lanes, 7, LEASE)):  # noqa: B023 - awaited in this round
                assert {job.lease_generation for job in batch} == {1}
                taken += ids_of(batch)
            return taken

        shares = await asyncio.gather(*map(claim_all, range(8)))
        taken = [job_id for share in shares for job_id in share]
        # A claimer may meet only locked rows and stop early: what nobody got is still there for the next claim.
        taken += ids_of(await h.claim(worker="last"))
        assert sorted(taken) == sorted(ids)
        for number, share in enumerate(shares):
            for job_id in share[:1]:
                assert (await h.job(job_id)).leased_by == f"w{number}"


@CASES.on_postgres
async def locked_jobs_are_skipped(h: Harness) -> None:
    """A job that somebody has locked is passed over, not waited for."""
    ids = await h.put(3)
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=ids[0]):
        assert ids_of(await h.claim()) == ids[1:]
    assert ids_of(await h.claim()) == [ids[0]]


@CASES
async def uncommitted_jobs_are_not_claimed(h: Harness) -> None:
    """A job of a transaction that has not committed is nobody's; rolled back, it never was."""
    await h.put()
    lanes = await h.lanes()
    await h.claim()
    insert = (
        "INSERT INTO {job} "
        "(id, chain_id, type_name, chain_type_name, queue, input, created_at, scheduled_at, ready_at) "
        "VALUES (:id, :id, 'sum', 'sum', 'default', '{{}}', :now, :now, :now)"
    )
    (job_id,) = new_ids(1)
    with h.holding(insert, id=job_id, now=iso(h.now)):
        assert await h.find(job_id) is None
        if h.dialect == "postgres":  # SQLite has one writer: a claim would wait for the other transaction
            assert await h.claim(lanes=lanes) == []
    assert await h.claim(lanes=lanes) == []


@CASES
async def reclaims_what_was_reaped(h: Harness) -> None:
    """A job taken from an expired lease goes to the next worker with the next generation and attempt."""
    await h.register("w1", "w2")
    job_id = await h.put_one()
    await h.claim(worker="w1")
    h.clock.advance(LEASE + timedelta(seconds=1))
    await h.register("w1", "w2")
    await h.reap()
    h.clock.advance(DEAD_AFTER)
    (claimed,) = await h.claim(worker="w2")
    assert (claimed.id, claimed.attempt, claimed.lease_generation) == (job_id, 2, 2)


def _marks(h: Harness) -> list[bool]:
    """Of each mark, oldest first, whether it is promoted."""
    rows = h.sql("SELECT is_promoted FROM {prefetch} ORDER BY claimed_at, worker_id")
    return [bool(is_promoted) for (is_promoted,) in rows]
