"""reschedule_jobs: what waits gets another time, what runs or is over is reported."""

from __future__ import annotations

from datetime import timedelta

from holdfast.errors import BatchRefused
from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, refused
from holdfast.testing.conformance.people import STRICT, audit, cancel, outcomes, reschedule, send_one
from holdfast.testing.conformance.settle_chains import behind

CASES = Cases("reschedule_jobs")


@CASES
async def to_now_makes_it_run(h: Harness) -> None:
    """A job of next year is claimed at once; its queue hears of it."""
    job_id = await h.put_one(at=h.now + timedelta(days=365))
    assert await h.claim() == []
    batch = await reschedule(h, job_id, delay=timedelta())
    assert (outcomes(batch), batch.woken) == (["rescheduled"], {"default"})
    job = await h.job(job_id)
    assert (job.scheduled_at, job.ready_at) == (h.now, h.now)
    assert [claimed.id for claimed in await h.claim()] == [job_id]


@CASES
async def past_means_now(h: Harness) -> None:
    """Nobody runs yesterday; a worker that has already looked further finds it all the same."""
    job_id = await h.put_one(at=h.now + timedelta(hours=1))
    await reschedule(h, job_id, at=h.now - timedelta(days=1))
    assert (await h.job(job_id)).ready_at == h.now


@CASES
async def to_a_later_time(h: Harness) -> None:
    """By a time, and by a delay in milliseconds."""
    first, second = await h.put(2)
    later = h.now + timedelta(hours=2)
    await reschedule(h, first, at=later)
    await reschedule(h, second, delay=timedelta(milliseconds=1_500))
    assert (await h.job(first)).ready_at == later
    assert (await h.job(second)).scheduled_at == h.now + timedelta(milliseconds=1_500)
    assert await h.claim() == []
    h.clock.advance(timedelta(milliseconds=1_500))
    assert [claimed.id for claimed in await h.claim()] == [second]


@CASES
async def retrying_job(h: Harness) -> None:
    """The next attempt comes when it is told to, and counts as the next one."""
    (lease,) = await h.put_and_claim()
    await h.fail(lease, delay=timedelta(hours=5))
    assert outcomes(await reschedule(h, lease.id, delay=timedelta())) == ["rescheduled"]
    assert [(claimed.id, claimed.attempt) for claimed in await h.claim()] == [(lease.id, 2)]


@CASES
async def blocked_job_keeps_it_for_later(h: Harness) -> None:
    """It stays blocked, and runs at the new time once its blockers are done."""
    (lease,) = await h.put_and_claim()
    waiting = await send_one(h, behind(lease.id))
    later = h.now + timedelta(hours=1)
    batch = await reschedule(h, waiting, at=later)
    assert (outcomes(batch), batch.woken) == (["rescheduled"], set())
    assert (await h.job(waiting)).status is Status.BLOCKED
    await h.complete(lease)
    job = await h.job(waiting)
    assert (job.status, job.ready_at) == (Status.PENDING, later)


@CASES
async def others_are_reported(h: Harness) -> None:
    """Running, finished and unknown ones, each in its place."""
    (lease,) = await h.put_and_claim()
    pending = await h.put_one()
    cancelled = await h.put_one()
    await cancel(h, cancelled)
    batch = await reschedule(h, lease.id, new_id(), pending, cancelled, delay=timedelta(hours=1))
    assert outcomes(batch) == ["wrong_status", "not_found", "rescheduled", "wrong_status"]
    assert "running" in (batch.results[0].why or "")


@CASES
async def strict_is_all_or_nothing(h: Harness) -> None:
    """One that runs, and none is moved."""
    (lease,) = await h.put_and_claim()
    pending = await h.put_one()
    error = await refused(BatchRefused, reschedule(h, pending, lease.id, delay=timedelta(hours=1), orders=STRICT))
    assert list(error.refused) == [lease.id]
    assert (await h.job(pending)).ready_at == h.now
    assert audit(h) == []


@CASES
async def is_recorded(h: Harness) -> None:
    """Who moved what."""
    job_id = await h.put_one()
    await reschedule(h, job_id, delay=timedelta(hours=1))
    assert audit(h) == [("ada", "reschedule", job_id, job_id, "rescheduled")]
