"""get_job, find_job, list_attempts: reading one job."""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast.errors import JobNotFound
from holdfast.model.clock import iso
from holdfast.model.ids import new_id
from holdfast.model.job import JobError
from holdfast.operations.get_job import get_job
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


@CASES
async def every_column(h: Harness) -> None:
    """What is in the row is in the job, in both databases, and None where there is nothing."""
    plain, full = await h.put(2)
    moment = datetime(2030, 5, 6, 7, 8, 9, 123_456, tzinfo=UTC)
    h.sql(
        """UPDATE {job} SET expires_at = :moment, cancel_requested_at = :moment, step = 'charge', progress = :progress,
                  deduplication_key = 'receipt', deduplication_scope = 'forever', revision = 3, flags = :flags,
                  partition_key = 'order', ordering = 'serial', concurrency_key = 'api', on_blocker_failure = 'run',
                  waiting_for = 2, is_tail = :no
           WHERE id = :id""",
        moment=iso(moment), progress='[1, {"of": 2}]', no=False, id=full,
        flags="{slow,big}" if h.dialect == "postgres" else '["slow", "big"]',
    )  # fmt: skip
    job = await h.job(full)
    assert (job.expires_at, job.cancel_requested_at) == (moment, moment)
    assert (job.step, job.progress, job.revision, job.flags) == ("charge", [1, {"of": 2}], 3, ["slow", "big"])
    assert (job.deduplication_key, job.deduplication_scope) == ("receipt", "forever")
    assert (job.partition_key, job.ordering, job.concurrency_key) == ("order", "serial", "api")
    assert (job.on_blocker_failure, job.waiting_for, job.is_tail) == ("run", 2, False)
    job = await h.job(plain)
    assert (job.is_tail, job.waiting_for, job.revision) == (True, 0, 0)
    empty = (
        "expires_at", "cancel_requested_at", "step", "progress", "deduplication_key", "deduplication_scope", "flags",
        "partition_key", "ordering", "concurrency_key", "on_blocker_failure", "tenant", "headers", "leased_by",
    )  # fmt: skip
    assert {name: getattr(job, name) for name in empty} == dict.fromkeys(empty)


@CASES
async def locked_is_the_same(h: Harness) -> None:
    """A locking read returns what a plain one does, also for an id that nobody has."""
    job_id = await h.put_one(input={"n": 1})
    assert await h.run(lambda: get_job(job_id, lock=True)) == await h.job(job_id)
    error = await refused(JobNotFound, h.run(lambda: get_job(new_id(), lock=True)))
    assert error.job_id != job_id
