"""What verbs have done, as events: from what they were given and what they answered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.model.call import JobDocument
from holdfast.model.control import ControlOutcome
from holdfast.model.job import Chain, JobError, Outcome
from holdfast.model.status import Status
from holdfast.operations.complete_outside import CompletedOutside, OutsideCompletion
from holdfast.operations.control import ControlBatch, LockedJob
from holdfast.operations.enqueue_guarded import Enqueued
from holdfast.operations.expire_jobs import Expired
from holdfast.operations.reap_jobs import Reapable
from holdfast.telemetry.events import (
    ChainDeleted,
    Event,
    JobCancelled,
    JobCancelRequested,
    JobCompleted,
    JobContinued,
    JobDeadLettered,
    JobEnqueued,
    JobReaped,
    JobReplaced,
    JobRescheduled,
    JobRetried,
)

_DONE_TO_JOBS: Final = {
    ControlOutcome.REQUESTED: JobCancelRequested,
    ControlOutcome.RETRIED: JobRetried,
    ControlOutcome.RESCHEDULED: JobRescheduled,
}
_DELETED: Final = frozenset({ControlOutcome.REMOVED, ControlOutcome.DELETED})


def enqueued(jobs: Iterable[tuple[JobDocument, Chain[Any] | Enqueued]]) -> Iterator[Event]:
    """Of those that were kept instead, nothing is told."""
    for document, result in jobs:
        if result.outcome is Outcome.KEPT:
            continue
        kind = JobReplaced if result.outcome is Outcome.REPLACED and result.superseded is None else JobEnqueued
        yield kind(result.id, result.id, document.type_name, document.queue, document.tenant, result.status)


def controlled(batches: Iterable[ControlBatch]) -> Iterator[Event]:
    """What people's verbs did; each once, however often it was named."""
    for batch in batches:
        told: set[str | None] = set()
        for result in batch.results:
            subject = result.job_id or result.chain_id
            if not result.is_done or subject in told:
                continue
            told.add(subject)
            job = batch.jobs.get(result.id)
            if result.outcome in _DELETED and result.chain_id is not None:
                yield ChainDeleted(result.chain_id)
            elif job is not None and result.outcome is ControlOutcome.CANCELLED:
                yield JobCancelled(*_locked(job), batch.error)
            elif job is not None and (kind := _DONE_TO_JOBS.get(result.outcome)) is not None:
                yield kind(*_locked(job))


def completed_outside(what: OutsideCompletion, done: CompletedOutside) -> Iterator[Event]:
    """One event for each job that was completed, in the order of their chain."""
    first = what.first
    if first is None:
        return
    # To complete it, it was taken from whoever had it.
    attempt, generation = first.attempt, first.lease_generation + 1
    duration_ms = None if first.status is Status.RUNNING else 0
    job_id, type_name, queue, tenant = first.id, first.type_name, first.queue, first.tenant
    for document in what.documents:
        identity = (job_id, first.chain_id, type_name, queue, tenant, attempt, generation, None)
        yield JobContinued(*identity, document.id, document.type_name, duration_ms)
        job_id, type_name, queue = document.id, document.type_name, document.queue
        tenant = tenant if document.tenant is None else document.tenant
        attempt, generation, duration_ms = 0, 1, 0
    if what.encode is not None:
        identity = (job_id, first.chain_id, type_name, queue, tenant, attempt, generation, None)
        yield JobCompleted(*identity, done.job.duration_ms)


def reaped(jobs: Iterable[tuple[Reapable, str, JobError]]) -> Iterator[Event]:
    """With what became of each, where it did not go back."""
    for job, became, error in jobs:
        identity = (job.id, job.chain_id, job.type_name, job.queue, job.tenant, job.attempt, job.lease_generation)
        yield JobReaped(*identity, job.leased_by, error)
        if became == Status.DEAD_LETTER:
            yield JobDeadLettered(*identity, None, error)
        elif became == Status.CANCELLED:
            yield JobCancelled(*identity, None, None)


def expired(jobs: Iterable[Expired]) -> Iterator[Event]:
    """Cancelled without an attempt."""
    for job in jobs:
        identity = (job.id, job.chain_id, job.type_name, job.queue, job.tenant, 0, job.lease_generation, None)
        yield JobCancelled(*identity, job.error)


def broken_cycle(job: LockedJob, error: JobError | None) -> JobDeadLettered:
    """The job that was ended for it."""
    return JobDeadLettered(*_locked(job), error)


def _locked(job: LockedJob) -> tuple[str, str, str, str, str | None, int, int, None]:
    return (job.id, job.chain_id, job.type_name, job.queue, job.tenant, job.attempt, job.lease_generation, None)
