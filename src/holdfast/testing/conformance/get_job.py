"""get_job, find_job, list_attempts: reading one job."""

from __future__ import annotations

from holdfast.errors import JobNotFound
from holdfast.model.ids import new_id
from holdfast.model.job import JobError
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, refused

CASES = Cases("get_job")


@CASES
async def unknown_id(h: Harness) -> None:
    """Asked to find, None; asked to get, an error that carries the id."""
    job_id = new_id()
    await h.put()
    assert await h.find(job_id) is None
    error = await refused(JobNotFound, h.job(job_id))
    assert error.job_id == job_id


@CASES
async def attempts_oldest_first(h: Harness) -> None:
    """Records in the order in which they happened, and only of the job asked for."""
    job_id = await h.put_one(max_attempts=50)
    for number in range(12):
        lease = await h.claim_one()
        await h.fail(lease, error=JobError("E", str(number)))
    other = await h.put_one()
    assert [record.error and record.error.message for record in await h.attempts(job_id)] == [str(n) for n in range(12)]
    assert await h.attempts(other) == []
    assert await h.attempts(new_id()) == []


@CASES
async def uncommitted_changes_are_not_seen(h: Harness) -> None:
    """What another transaction has not committed does not show, and cannot be waited for."""
    job_id = await h.put_one(tenant="before")
    with h.holding("UPDATE {job} SET tenant = 'after' WHERE id = :id", id=job_id):
        assert (await h.job(job_id)).tenant == "before"
    assert (await h.job(job_id)).tenant == "before"
