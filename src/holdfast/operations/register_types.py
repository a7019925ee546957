"""Make the worker's job types known in the database."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.clock import checked_duration, milliseconds
from holdfast.model.job_type import JobType
from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Statement


def register_types(types: Iterable[JobType]) -> Operation[None]:
    """Write name, queue and retry policy of each type."""
    documents = [
        {
            "name": job_type.name,
            "queue": job_type.queue,
            "priority": job_type.priority,
            "max_attempts": job_type.retry.max_attempts,
            "retry": {
                "max_attempts": job_type.retry.max_attempts,
                "initial": checked_duration("initial", job_type.retry.initial).total_seconds(),
                "factor": job_type.retry.factor,
                "maximum": checked_duration("maximum", job_type.retry.maximum).total_seconds(),
                "jitter": job_type.retry.jitter,
            },
            "timeout_ms": None if job_type.timeout is None else milliseconds(job_type.timeout),
            "expires_ms": None if job_type.expires is None else milliseconds(job_type.expires),
            "keep": None if job_type.keep is None else job_type.keep.document(),
        }
        for job_type in sorted(types, key=lambda job_type: job_type.name)
    ]
    if documents:
        yield Statement("register_types", {"types": to_json(documents).decode()})
