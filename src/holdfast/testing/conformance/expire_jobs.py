"""expire_jobs: what nobody started in time is cancelled, and is never claimed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.model.call import Extras
from holdfast.model.clock import iso
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import claim_suspect, find_lanes, next_due
from holdfast.operations.control import Orders
from holdfast.operations.expire_jobs import Expiry, expire_jobs
from holdfast.operations.release_jobs import Release, release_jobs, release_orphans
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import LEASE, Harness, document, ids_of, lease_of

CASES = Cases("expire_jobs")

_MINUTE = timedelta(minutes=1)


async def put_expiring(h: Harness, **fields: Any) -> str:
    """A job that is to be started within a minute."""
    job = document(id=new_id(), more=Extras(expires_at=iso(h.now + _MINUTE)), **fields)
    await h.enqueue(job)
    return job.id


async def expire(h: Harness, limit: int = 500) -> Expiry:
    return await h.run(lambda: expire_jobs(limit))


@CASES
async def cancels_what_was_not_started(h: Harness) -> None:
    """With the reason; others stay."""
    late, plain = await put_expiring(h), await h.put_one()
    h.clock.advance(_MINUTE)
    assert await expire(h) == Expiry(1, set())
    job = await h.job(late)
    assert (job.status, job.finished_at, job.attempt) == (Status.CANCELLED, h.now, 0)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "Expired"
    assert "2026-01-01 00:01:00" in job.last_attempt_error.message
    assert (await h.job(plain)).status is Status.PENDING
    assert await expire(h) == Expiry(0, set())


@CASES
async def not_before_its_time(h: Harness) -> None:
    """Until then it is claimed like any other."""
    job_id = await put_expiring(h)
    h.clock.advance(_MINUTE - timedelta(microseconds=1))
    assert (await expire(h)).expired == 0
    assert ids_of(await h.claim()) == [job_id]


@CASES
async def is_never_claimed_after(h: Harness) -> None:
    """Nor is its lane reported as due, even before anybody has cancelled it."""
    await put_expiring(h)
    lanes = await h.lanes()
    assert lanes != []
    h.clock.advance(_MINUTE)
    assert await h.claim(lanes=lanes) == []
    assert await h.run(lambda: find_lanes(["default"]), read_only=True) == []
    assert await h.run(lambda: next_due(["default"]), read_only=True) is None


@CASES
async def does_not_hide_those_behind_it(h: Harness) -> None:
    """The first claimable job of each lane is found behind expired ones, in its and in other priorities."""
    for priority in (0, 0, 5):
        await put_expiring(h, priority=priority)
    h.clock.advance(_MINUTE)
    ids = [await h.put_one(priority=0), await h.put_one(priority=7)]
    assert ids_of(await h.claim()) == ids


@CASES
async def once_started_it_may_take_its_time(h: Harness) -> None:
    """A retry after that time is still a retry."""
    job_id = await put_expiring(h)
    await h.fail(await h.claim_one(), delay=_MINUTE * 5)
    h.clock.advance(_MINUTE * 5)
    assert (await expire(h)).expired == 0
    assert ids_of(await h.claim()) == [job_id]


@CASES
async def running_jobs_are_left_alone(h: Harness) -> None:
    """Started in time."""
    job_id = await put_expiring(h)
    lease = await h.claim_one()
    h.clock.advance(_MINUTE * 2)
    assert (await expire(h)).expired == 0
    await h.complete(lease)
    assert (await h.job(job_id)).status is Status.COMPLETED


@CASES
async def suspects_too(h: Harness) -> None:
    """A job that was claimed and never started before its worker died is not started late either."""
    job_id = await put_expiring(h)
    h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=job_id)
    h.clock.advance(_MINUTE)
    assert await h.run(lambda: claim_suspect("w1", ["default"], LEASE)) == []
    assert await h.run(lambda: find_lanes(["default"]), read_only=True) == []
    assert (await expire(h)).expired == 1


@CASES
async def in_batches(h: Harness) -> None:
    """No more than asked for at a time, the oldest first."""
    for _ in range(5):
        await put_expiring(h)
    h.clock.advance(_MINUTE)
    assert [(await expire(h, 2)).expired for _ in range(4)] == [2, 2, 1, 0]


@CASES
async def once_started_it_may_be_put_off(h: Harness) -> None:
    """The attempt is refunded, but it was started; so it is for one that was stopped in the middle."""
    snoozed, stopped, taken = [await put_expiring(h) for _ in range(3)]
    leases = [lease_of(job) for job in await h.claim()]
    await h.run(lambda: snooze_jobs([Postponement(leases[0].id, leases[0].lease_generation, delay_ms=60_000)]))
    await h.run(lambda: release_jobs([Release(leases[1].id, leases[1].lease_generation, is_started=True)]))
    await h.run(lambda: release_orphans("w1", ()))
    h.clock.advance(_MINUTE * 5)
    assert (await expire(h)).expired == 0
    assert sorted(ids_of(await h.claim())) == sorted([snoozed, stopped, taken])


@CASES
async def retried_after_a_start(h: Harness) -> None:
    """Its attempts begin anew, but it was started."""
    job_id = await put_expiring(h)
    await h.fail(await h.claim_one(), is_final=True)
    await h.run(lambda: retry_jobs([job_id], Orders()))
    h.clock.advance(_MINUTE)
    assert (await expire(h)).expired == 0
    assert ids_of(await h.claim()) == [job_id]


@CASES
async def given_back_without_a_start_it_expires(h: Harness) -> None:
    """It only lay in a worker's buffer."""
    kept, lost = await put_expiring(h), await put_expiring(h)
    leases = {job.id: lease_of(job) for job in await h.claim()}
    await h.release(leases[kept])
    await h.run(lambda: release_orphans("w1", (), started=False))
    h.clock.advance(_MINUTE)
    assert await h.claim() == []
    assert (await expire(h)).expired == 2
    assert {(await h.job(job_id)).status for job_id in (kept, lost)} == {Status.CANCELLED}
