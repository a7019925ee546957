"""Create jobs, in the transaction of whoever runs this."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from holdfast.model.call import JobDocument
from holdfast.model.status import Status
from holdfast.operations.get_job import find_job
from holdfast.operations.statement import Operation, Statement

_ids = msgspec.json.Decoder(list[str])


def enqueue_jobs(
    jobs: Sequence[JobDocument], channel: str | None, given_ids: Collection[str] = ()
) -> Operation[dict[str, Status]]:
    """Insert `jobs` in order; returns those of the ids given by the caller that existed before, with their status.

    With a channel, hints go out with the commit.
    """
    rows = yield Statement(
        "enqueue_jobs",
        {"jobs": msgspec.json.encode(jobs).decode(), "has_given_ids": bool(given_ids), "channel": channel},
    )
    existing: dict[str, Status] = {}
    for job_id in _ids.decode(rows[0][0]):
        if job_id in given_ids:
            job = yield from find_job(job_id)
            existing[job_id] = job.status if job else Status.PENDING
    return existing
