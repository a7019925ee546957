"""find_lanes and next_due: where claimable jobs are, and how long until the next one is due."""

from __future__ import annotations

from datetime import timedelta

from holdfast.operations.claim_jobs import FoundLane, find_lanes, next_due
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness

CASES = Cases("find_lanes")


async def _lanes(h: Harness, *queues: str) -> list[FoundLane]:
    return await h.run(lambda: find_lanes(queues or ("default",)), read_only=True)


async def _next_due(h: Harness, *queues: str) -> timedelta | None:
    return await h.run(lambda: next_due(queues or ("default",)), read_only=True)


@CASES
async def empty(h: Harness) -> None:
    """No jobs: no lanes, and no due time."""
    assert await _lanes(h) == []
    assert await _next_due(h) is None


@CASES
async def one_lane_per_queue_and_priority(h: Harness) -> None:
    """Each lane once, best first, with the place of its first job."""
    places: dict[tuple[str, int], int] = {}
    for queue, priority in (("a", 5), ("b", 0), ("a", -3), ("a", 5), ("c", 0), ("b", 7), ("b", 0)):
        job = await h.job(await h.put_one(queue=queue, priority=priority))
        places.setdefault((queue, priority), job.seq)
    found = await _lanes(h, "a", "b")
    assert [(lane.priority, lane.queue) for lane in found] == [(-3, "a"), (0, "b"), (5, "a"), (7, "b")]
    assert all(lane.seq == places[lane.queue, lane.priority] and not lane.is_suspect for lane in found)


@CASES
async def first_job_of_a_lane_is_the_earliest(h: Harness) -> None:
    """By ready time, not by the order of enqueue."""
    await h.put(at=h.now + timedelta(seconds=20))
    early = await h.job(await h.put_one(at=h.now + timedelta(seconds=10)))
    (lane,) = await _lanes(h)
    assert (lane.seq, lane.due_in_ms) == (early.seq, 10_000)


@CASES
async def suspects_are_told_apart(h: Harness) -> None:
    """A queue's first suspect is reported once, whatever its priority."""
    for priority in (1, 2):
        job_id = await h.put_one(priority=priority)
        h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=job_id)
    await h.put(priority=1)
    assert sorted((lane.priority, lane.is_suspect) for lane in await _lanes(h)) == [(1, False), (1, True)]
    assert await _next_due(h) == timedelta()


@CASES
async def running_finished_held_and_blocked_jobs_do_not_count(h: Harness) -> None:
    """Only what can be claimed, now or later."""
    (done,) = await h.put_and_claim()
    await h.complete(done)
    await h.put_and_claim()
    held, blocked = await h.put(2)
    h.sql("UPDATE {job} SET held = true WHERE id = :id", id=held)
    h.sql("UPDATE {job} SET status = 'blocked', waiting_for = 1 WHERE id = :id", id=blocked)
    assert await _lanes(h) == []
    assert await _next_due(h) is None


@CASES
async def next_due_is_exact(h: Harness) -> None:
    """Milliseconds until the earliest job of the queues asked, and zero from then on."""
    await h.put(delay_ms=90_000_123)
    assert await _next_due(h) == timedelta(milliseconds=90_000_123)
    await h.put(delay_ms=1_501, priority=9)
    await h.put(queue="other")
    assert await _next_due(h) == timedelta(milliseconds=1_501)
    h.clock.advance(timedelta(milliseconds=1_500))
    assert await _next_due(h) == timedelta(milliseconds=1)
    h.clock.advance(timedelta(milliseconds=1))
    assert await _next_due(h) == timedelta()
    h.clock.advance(timedelta(days=3))
    assert await _next_due(h) == timedelta()


@CASES
async def next_due_is_not_zero_before_the_job_can_be_claimed(h: Harness) -> None:
    """Fractions of a millisecond are rounded up: whoever sleeps that long finds the job."""
    for fraction in (1, 400, 600, 999):
        job_id = await h.put_one(at=h.now + timedelta(microseconds=fraction))
        assert await h.claim() == []
        assert await _next_due(h) == timedelta(milliseconds=1)
        h.clock.advance(timedelta(milliseconds=1))
        assert [job.id for job in await h.claim()] == [job_id]


@CASES
async def a_century_away(h: Harness) -> None:
    """The longest delay that is accepted."""
    await h.put(delay_ms=366 * 100 * 86_400_000)
    assert await _next_due(h) == timedelta(days=36_600)


@CASES
async def many_lanes(h: Harness) -> None:
    """Ten priorities are ten lanes, in order, however many jobs each holds."""
    for priority in range(-500, 500, 100):
        await h.put(3, priority=priority)
    assert [lane.priority for lane in await _lanes(h)] == list(range(-500, 500, 100))
