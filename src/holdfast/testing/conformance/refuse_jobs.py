"""refuse_jobs: what a worker cannot run goes back for one that can, and does not come round for ever."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from holdfast.model.clock import iso
from holdfast.model.job import JobError
from holdfast.model.status import Status
from holdfast.operations.control import Orders
from holdfast.operations.fail_jobs import FailSettlement
from holdfast.operations.lease import Lease
from holdfast.operations.refuse_jobs import PATIENCE, Refusal, refuse_jobs
from holdfast.operations.release_jobs import Release, release_jobs, release_orphans
from holdfast.operations.reschedule_jobs import reschedule_jobs
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness
from holdfast.testing.conformance.stale_holders import add_locked_case, add_stale_cases

CASES = Cases("refuse_jobs")

UNKNOWN = JobError("UnknownJobType", "job type 'sum' is not registered with this app")


async def refuse(h: Harness, *leases: Lease) -> FailSettlement:
    jobs = [Refusal(lease.id, lease.lease_generation, UNKNOWN) for lease in leases]
    return await h.run(lambda: refuse_jobs(jobs))


@CASES
async def refunds_the_attempt(h: Harness) -> None:
    """Pending again, a second later, with the reason and the time of the first refusal."""
    (lease,) = await h.put_and_claim()
    settlement = await refuse(h, lease)
    assert (settlement.lost, settlement.locked, settlement.dead) == (set(), set(), set())
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.lease_generation, job.leased_by) == (Status.PENDING, 0, 1, None)
    assert job.ready_at == h.now + timedelta(seconds=1)
    assert job.last_attempt_error == JobError(UNKNOWN.type, UNKNOWN.message, first_refused_at=h.now)
    assert await h.attempts(job.id) == []


@CASES
async def waits_longer_and_longer(h: Harness) -> None:
    """The delay doubles, up to five minutes, and the first refusal is remembered."""
    first = h.now
    await h.put()
    delays = []
    for _ in range(12):
        lease = await h.claim_one()
        await refuse(h, lease)
        job = await h.job(lease.id)
        delays.append((job.ready_at - h.now).total_seconds())
        assert job.last_attempt_error is not None
        assert job.last_attempt_error.first_refused_at == first
        h.clock.advance(job.ready_at - h.now)
    assert delays == [1, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


@CASES
async def comes_back_when_the_holder_says(h: Harness) -> None:
    """Not before that, and not later than five minutes."""
    leases = await h.put_and_claim(3)
    jobs = [
        Refusal(lease.id, lease.lease_generation, UNKNOWN, delay_ms)
        for lease, delay_ms in zip(leases, (10, 30_500, 3_600_000), strict=True)
    ]
    await h.run(lambda: refuse_jobs(jobs))
    delays = [((await h.job(lease.id)).ready_at - h.now).total_seconds() for lease in leases]
    assert delays == [1, 30.5, 300]


@CASES
async def dead_letter_after_an_hour(h: Harness) -> None:
    """Measured from the first refusal; not a moment before."""
    (lease,) = await h.put_and_claim(max_attempts=1)
    await refuse(h, lease)
    h.clock.advance(PATIENCE - timedelta(seconds=1))
    lease = await h.claim_one()
    assert (await refuse(h, lease)).dead == set()
    h.clock.advance(timedelta(minutes=5))
    lease = await h.claim_one()
    assert (await refuse(h, lease)).dead == {lease.id}
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.finished_at) == (Status.DEAD_LETTER, 0, h.now)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "UnknownJobType"


@CASES
async def another_failure_in_between_starts_anew(h: Harness) -> None:
    """Somebody could run it meanwhile: only refusals in a row add up."""
    (lease,) = await h.put_and_claim()
    await refuse(h, lease)
    h.clock.advance(timedelta(minutes=30))
    await h.fail(await h.claim_one())
    h.clock.advance(timedelta(minutes=45))
    lease = await h.claim_one()
    assert (await refuse(h, lease)).dead == set()
    assert (await h.job(lease.id)).ready_at == h.now + timedelta(seconds=1)


async def _snooze(h: Harness) -> None:
    lease = await h.claim_one()
    await h.run(lambda: snooze_jobs([Postponement(lease.id, lease.lease_generation, delay_ms=0)]))


async def _stop_in_the_middle(h: Harness) -> None:
    lease = await h.claim_one()
    await h.run(lambda: release_jobs([Release(lease.id, lease.lease_generation, is_started=True)]))


async def _stop_without_a_word(h: Harness) -> None:
    await h.claim_one()
    await h.run(lambda: release_orphans("w1", ()))


async def _begin_anew(h: Harness) -> None:
    lease = await h.claim_one()
    h.sql("UPDATE {job} SET cancel_requested_at = :now WHERE id = :id", now=iso(h.now), id=lease.id)
    await refuse(h, lease)
    await h.run(lambda: retry_jobs([lease.id], Orders()))


async def _reschedule(h: Harness) -> None:
    (job_id,) = (row[0] for row in h.sql("SELECT id FROM {job}"))
    await h.run(lambda: reschedule_jobs([str(job_id)], Orders(), delay=timedelta(0)))


async def _starts_anew(h: Harness, between: Callable[[Harness], Awaitable[None]]) -> None:
    (lease,) = await h.put_and_claim()
    await refuse(h, lease)
    h.clock.advance(PATIENCE * 2)
    await between(h)
    error = (await h.job(lease.id)).last_attempt_error
    assert error is not None
    assert (error.type, error.first_refused_at) == (UNKNOWN.type, None)
    lease = await h.claim_one()
    assert (await refuse(h, lease)).dead == set()
    job = await h.job(lease.id)
    assert job.ready_at == h.now + timedelta(seconds=1)
    assert job.last_attempt_error == JobError(UNKNOWN.type, UNKNOWN.message, first_refused_at=h.now)


for _name, _between in {
    "a_snooze": _snooze,
    "a_stop": _stop_in_the_middle,
    "a_stop_without_a_word": _stop_without_a_word,
    "a_retry": _begin_anew,
    "a_new_time": _reschedule,
}.items():
    CASES.add(
        f"{_name}_in_between_starts_anew",
        "A handler ran, or a person decided: what was refused before is past. The error stays to be seen.",
        partial(_starts_anew, between=_between),
    )


@CASES
async def given_back_without_a_start_goes_on(h: Harness) -> None:
    """It only lay in a worker's buffer, so nobody has run it yet."""
    (lease,) = await h.put_and_claim()
    await refuse(h, lease)
    h.clock.advance(PATIENCE)
    await h.release(await h.claim_one())
    await h.claim_one()
    await h.run(lambda: release_orphans("w1", (), started=False))
    lease = await h.claim_one()
    assert (await refuse(h, lease)).dead == {lease.id}


@CASES
async def again_reports_the_first(h: Harness) -> None:
    """The answer to the first try was lost."""
    (lease,) = await h.put_and_claim()
    await refuse(h, lease)
    before = await h.state(lease.id)
    settlement = await refuse(h, lease)
    assert (settlement.lost, settlement.locked) == (set(), set())
    assert await h.state(lease.id) == before


@CASES
async def of_a_cancelled_job_ends_it(h: Harness) -> None:
    """Somebody asked for its end: cancelled, never pending."""
    (lease,) = await h.put_and_claim()
    h.sql("UPDATE {job} SET cancel_requested_at = :now WHERE id = :id", now=iso(h.now), id=lease.id)
    assert (await refuse(h, lease)).cancelled == {lease.id}
    assert (await h.job(lease.id)).status is Status.CANCELLED


add_stale_cases(CASES, refuse, is_repeat=())


def _refused(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job} WHERE status = 'pending'")[0][0])


add_locked_case(CASES, refuse, _refused)
