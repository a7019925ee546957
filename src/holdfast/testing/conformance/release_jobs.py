"""release_jobs: claimed jobs go back untouched, each to its old place."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.status import Status
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import ERROR, Harness, ids_of, lease_of
from holdfast.testing.conformance.stale_holders import add_locked_case, add_stale_cases, reaped

CASES = Cases("release_jobs")


@CASES
async def refunds_the_attempt_and_keeps_the_place(h: Harness) -> None:
    """As if never claimed, but for the generation; others do not overtake."""
    ids = await h.put(3)
    (claimed,) = await h.claim(1)
    h.clock.advance(3)
    settlement = await h.release(lease_of(claimed))
    assert (settlement.lost, settlement.locked) == (set(), set())
    job = await h.job(ids[0])
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 1)
    assert (job.leased_by, job.leased_until, job.finished_at) == (None, None, None)
    assert job.ready_at == job.created_at
    assert await h.attempts(job.id) == []
    assert ids_of(await h.claim()) == ids


@CASES
async def keeps_the_error_of_the_attempt_before(h: Harness) -> None:
    """A retry that is released is still a retry."""
    (lease,) = await h.put_and_claim()
    await h.fail(lease)
    await h.release(await h.claim_one())
    job = await h.job(lease.id)
    assert (job.attempt, job.last_attempt_error) == (1, ERROR)


@CASES
async def again_is_harmless(h: Harness) -> None:
    """Released twice under one generation refunds once."""
    (lease,) = await h.put_and_claim()
    await h.release(lease)
    before = await h.state(lease.id)
    settlement = await h.release(lease)
    assert (settlement.lost, settlement.locked) == (set(), set())
    assert await h.state(lease.id) == before


@CASES
async def mixed_batch(h: Harness) -> None:
    """Good ones go back beside stale ones."""
    leases = await h.put_and_claim(3)
    await h.complete(leases[1])
    settlement = await h.release(*leases)
    assert settlement.lost == {leases[1].id}
    assert ids_of(await h.claim()) == [leases[0].id, leases[2].id]


@CASES
async def nothing_to_release(h: Harness) -> None:
    """An empty list is no error."""
    settlement = await h.release()
    assert (settlement.lost, settlement.locked) == (set(), set())


@CASES
async def released_again_and_again_never_dies(h: Harness) -> None:
    """Release does not use up attempts, however often."""
    job_id = await h.put_one(max_attempts=1)
    for _ in range(10):
        h.clock.advance(timedelta(seconds=1))
        await h.release(await h.claim_one())
    job = await h.job(job_id)
    assert (job.status, job.attempt, job.lease_generation) == (Status.PENDING, 0, 10)


add_stale_cases(CASES, Harness.release, is_repeat=(reaped,))


@CASES
async def after_the_reaper_changes_nothing(h: Harness) -> None:
    """A job that the reaper has returned is free already: giving it back refunds nothing."""
    lease = await reaped(h)
    before = await h.state(lease.id)
    await h.release(lease)
    assert await h.state(lease.id) == before


def _released(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job} WHERE status = 'pending'")[0][0])


add_locked_case(CASES, Harness.release, _released)
