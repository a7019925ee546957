"""Read one job, and the attempts behind it."""

from __future__ import annotations

import msgspec

from holdfast.errors import JobNotFound
from holdfast.model.job import AttemptRecord, Job
from holdfast.operations.statement import Operation, Statement

_job = msgspec.json.Decoder(Job)
_attempt = msgspec.json.Decoder(AttemptRecord)


def find_job(job_id: str, *, lock: bool = False) -> Operation[Job | None]:
    """The job, or None; with a lock, nobody else changes or deletes it before the transaction ends."""
    rows = yield Statement("lock_job" if lock else "get_job", {"id": job_id})
    if not rows:
        rows = yield Statement("get_archived_job", {"id": job_id})
    return _job.decode(rows[0][0]) if rows else None


def get_job(job_id: str, *, lock: bool = False) -> Operation[Job]:
    """The job, or JobNotFound."""
    job = yield from find_job(job_id, lock=lock)
    if job is None:
        raise JobNotFound(job_id)
    return job


def list_attempts(job_id: str) -> Operation[list[AttemptRecord]]:
    """The attempts that did not complete the job, oldest first."""
    rows = yield Statement("list_attempts", {"id": job_id})
    return [_attempt.decode(row[0]) for row in rows]
