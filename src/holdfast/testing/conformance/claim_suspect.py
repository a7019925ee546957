"""claim_suspect: jobs whose worker died are taken one at a time."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from holdfast.model.status import Status
from holdfast.operations.claim_jobs import ClaimedJob, claim_suspect
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import LEASE, Harness, ids_of

CASES = Cases("claim_suspect")


async def _suspects(h: Harness, count: int = 1, crashes: int = 1, **fields: object) -> list[str]:
    ids = await h.put(count, **fields)
    for job_id in ids:
        h.sql("UPDATE {job} SET crash_count = :crashes WHERE id = :id", crashes=crashes, id=job_id)
    return ids


async def _claim(h: Harness, *queues: str, worker: str = "w1") -> list[ClaimedJob]:
    return await h.run(lambda: claim_suspect(worker, queues or ("default",), LEASE))


@CASES
async def takes_one_under_lease(h: Harness) -> None:
    """One suspect, however many there are, as any claim takes it."""
    first, second = await _suspects(h, 2)
    (claimed,) = await _claim(h, worker="w9")
    assert (claimed.id, claimed.attempt, claimed.lease_generation, claimed.crash_count) == (first, 1, 1, 1)
    job = await h.job(first)
    assert (job.status, job.leased_by, job.leased_until, job.last_attempt_at) == (
        Status.RUNNING,
        "w9",
        h.now + LEASE,
        h.now,
    )
    assert (await h.job(second)).status is Status.PENDING
    assert ids_of(await _claim(h)) == [second]
    assert await _claim(h) == []


@CASES
async def leaves_ordinary_jobs(h: Harness) -> None:
    """A job without a crash behind it is not a suspect."""
    await h.put(3)
    assert await _claim(h) == []


@CASES
async def earliest_first(h: Harness) -> None:
    """By the time it became claimable, then by the order of enqueue."""
    late, *_ = await _suspects(h, at=h.now + timedelta(seconds=20))
    early, tied = await _suspects(h, 2, at=h.now + timedelta(seconds=10))
    h.clock.advance(60)
    taken = [ids_of(await _claim(h))[0] for _ in range(3)]
    assert taken == [early, tied, late]


@CASES
async def future_suspects_wait(h: Harness) -> None:
    """The backoff after a crash holds for suspects too."""
    await _suspects(h, at=h.now + timedelta(seconds=10))
    assert await _claim(h) == []
    h.clock.advance(10)
    assert len(await _claim(h)) == 1


@CASES
async def only_from_the_queues_asked(h: Harness) -> None:
    """A worker does not run what belongs to another queue."""
    await _suspects(h, queue="other")
    assert await _claim(h, "default") == []
    assert len(await _claim(h, "default", "other")) == 1


@CASES
async def held_and_blocked_suspects_wait(h: Harness) -> None:
    """Set aside is set aside."""
    held, blocked = await _suspects(h, 2)
    h.sql("UPDATE {job} SET held = true WHERE id = :id", id=held)
    h.sql("UPDATE {job} SET status = 'blocked', waiting_for = 1 WHERE id = :id", id=blocked)
    assert await _claim(h) == []


@CASES
async def parallel_claims_are_disjoint(h: Harness) -> None:
    """Race: nobody gets a suspect that another has."""
    stores = h.neighbours(6)
    for _ in range(10):
        ids = await _suspects(h, 4)
        answers = await asyncio.gather(*(store.run(lambda: claim_suspect("w", ["default"], LEASE)) for store in stores))
        taken = [job.id for answer in answers for job in answer]
        assert all(len(answer) <= 1 for answer in answers)
        assert len(taken) == len(set(taken))
        while more := await _claim(h):
            taken += ids_of(more)
        assert sorted(taken) == sorted(ids)
