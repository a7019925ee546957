"""snooze_jobs: running jobs are put off, at no cost to them."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.clock import iso, milliseconds
from holdfast.model.status import Status
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.save_step import list_steps, save_step
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import ERROR, Harness, ids_of
from holdfast.testing.conformance.stale_holders import add_locked_case, add_stale_cases, reaped

CASES = Cases("snooze_jobs")


async def snooze(h: Harness, *leases: Lease, delay: timedelta = timedelta(minutes=1)) -> Settlement:
    jobs = [Postponement(lease.id, lease.lease_generation, delay_ms=milliseconds(delay)) for lease in leases]
    return await h.run(lambda: snooze_jobs(jobs))


@CASES
async def refunds_the_attempt_and_waits(h: Harness) -> None:
    """Pending for later; the claim's attempt is given back, the generation is not."""
    (lease,) = await h.put_and_claim()
    h.clock.advance(5)
    settlement = await snooze(h, lease)
    assert (settlement.lost, settlement.locked) == (set(), set())
    job = await h.job(lease.id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 1)
    assert (job.leased_by, job.leased_until, job.finished_at) == (None, None, None)
    assert job.ready_at == h.now + timedelta(minutes=1)
    assert await h.attempts(job.id) == []
    assert await h.claim() == []
    h.clock.advance(timedelta(minutes=1))
    (again,) = await h.claim()
    assert (again.id, again.attempt, again.lease_generation) == (lease.id, 1, 2)


@CASES
async def until_an_exact_time(h: Harness) -> None:
    """To the microsecond; the past means now."""
    first, second = await h.put_and_claim(2)
    when = h.now + timedelta(hours=3, microseconds=17)
    jobs = [
        Postponement(first.id, first.lease_generation, until=iso(when)),
        Postponement(second.id, second.lease_generation, until=iso(h.now - timedelta(days=1))),
    ]
    await h.run(lambda: snooze_jobs(jobs))
    assert (await h.job(first.id)).ready_at == when
    assert (await h.job(second.id)).ready_at == h.now
    assert ids_of(await h.claim()) == [second.id]


@CASES
async def keeps_what_was(h: Harness) -> None:
    """Steps and the error of the attempt before stay."""
    (lease,) = await h.put_and_claim()
    await h.run(lambda: save_step(lease, "one", "1"))
    await h.fail(lease)
    lease = await h.claim_one()
    await snooze(h, lease)
    job = await h.job(lease.id)
    assert (job.attempt, job.last_attempt_error) == (1, ERROR)
    assert [step.name for step in await h.run(lambda: list_steps(lease.id), read_only=True)] == ["one"]


@CASES
async def again_is_harmless(h: Harness) -> None:
    """Put off twice under one generation refunds once."""
    (lease,) = await h.put_and_claim()
    await snooze(h, lease)
    before = await h.state(lease.id)
    settlement = await snooze(h, lease, delay=timedelta(days=1))
    assert (settlement.lost, settlement.locked) == (set(), set())
    assert await h.state(lease.id) == before


@CASES
async def for_ever_never_dies(h: Harness) -> None:
    """However often, it uses up no attempts."""
    job_id = await h.put_one(max_attempts=1)
    for _ in range(10):
        await snooze(h, await h.claim_one(), delay=timedelta(seconds=1))
        h.clock.advance(1)
    job = await h.job(job_id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 10)


@CASES
async def goes_behind_those_that_wait(h: Harness) -> None:
    """Whoever is put off gives up its place."""
    ids = await h.put(3)
    lease = await h.claim_one()
    h.clock.advance(1)
    await snooze(h, lease, delay=timedelta())
    assert ids_of(await h.claim()) == [ids[1], ids[2], ids[0]]


@CASES
async def of_a_cancelled_job_ends_it(h: Harness) -> None:
    """Somebody asked for its end while it ran: cancelled, never pending."""
    (lease,) = await h.put_and_claim()
    h.sql("UPDATE {job} SET cancel_requested_at = :now WHERE id = :id", now=iso(h.now), id=lease.id)
    settlement = await snooze(h, lease)
    assert settlement.lost == set()
    job = await h.job(lease.id)
    assert (job.status, job.finished_at, job.leased_by) == (Status.CANCELLED, h.now, None)


@CASES
async def nothing_to_put_off(h: Harness) -> None:
    """An empty list is no error."""
    settlement = await snooze(h)
    assert (settlement.lost, settlement.locked) == (set(), set())


add_stale_cases(CASES, snooze, is_repeat=(reaped,))


@CASES
async def after_the_reaper_changes_nothing(h: Harness) -> None:
    """A job that the reaper has returned is put off already."""
    lease = await reaped(h)
    before = await h.state(lease.id)
    await snooze(h, lease)
    assert await h.state(lease.id) == before


def _snoozed(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job} WHERE status = 'pending'")[0][0])


add_locked_case(CASES, snooze, _snoozed)
