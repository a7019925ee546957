"""What a worker tells those who listen, of outcomes that the database has acknowledged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion
from holdfast.operations.continue_jobs import Continuation
from holdfast.operations.fail_jobs import FailSettlement, Failure
from holdfast.operations.lease import Settlement
from holdfast.operations.refuse_jobs import Refusal
from holdfast.operations.release_jobs import Orphans
from holdfast.operations.snooze_jobs import Postponement
from holdfast.operations.suspend_jobs import Suspension
from holdfast.telemetry import (
    Event,
    JobCancelled,
    JobCompleted,
    JobContinued,
    JobDeadLettered,
    JobFailed,
    JobLost,
    JobRefused,
    JobReleased,
    JobSnoozed,
    JobStarted,
    JobSuspended,
)
from holdfast.worker.attempt import Attempt
from holdfast.worker.cancellation import Cancellation

Key = tuple[str, int]
#: the first fields of what is told of an attempt
Identity = tuple[str, str, str, str, str | None, int, int, str | None]


def identity(job: ClaimedJob, worker_id: str) -> Identity:
    """Which job, and which attempt."""
    return (
        *(job.id, job.chain_id or job.id, job.type_name, job.queue, job.tenant),
        *(job.attempt, job.lease_generation, worker_id),
    )


def started(attempt: Attempt) -> JobStarted:
    """On its way to the handler."""
    return JobStarted(*identity(attempt.job, attempt.worker_id))


def lost(attempt: Attempt) -> list[Event]:
    """Once, whoever notices it first."""
    if attempt.is_loss_told:
        return []
    attempt.is_loss_told = True
    reason = attempt.cancelled if attempt.is_told_of_loss else Cancellation.LEASE_LOST
    return [JobLost(*identity(attempt.job, attempt.worker_id), str(reason))]


def released(attempts: Sequence[Attempt], orphans: Orphans) -> list[Event]:
    """Of handlers that did not come to an end, when the jobs were given back all the same."""
    gone = set(orphans.jobs)
    return [
        JobCancelled(*identity(attempt.job, attempt.worker_id), None)
        if attempt.job.id in orphans.cancelled
        else JobReleased(*identity(attempt.job, attempt.worker_id))
        for attempt in attempts
        if attempt.job.id in gone
    ]


def written(
    worker_id: str,
    batch: Sequence[Any],
    settlement: Settlement,
    attempts: Mapping[Key, Attempt | None],
    given_back: Mapping[Key, ClaimedJob],
) -> list[Event]:
    """Of outcomes of one kind, those that are in the database now, or were refused."""
    if type(batch[0]) is Completion and not settlement.lost and not settlement.locked:
        return _all_completed(worker_id, batch, attempts)
    events: list[Event] = []
    for item in batch:
        if item.id in settlement.locked:
            continue
        key = (item.id, item.lease_generation)
        attempt = attempts.get(key)
        if attempt is None:
            # It was never started: as if nobody had claimed it, unless somebody had asked for its end.
            if item.id in settlement.cancelled and key in given_back:
                events.append(JobCancelled(*identity(given_back[key], worker_id), None))
        elif item.id not in settlement.lost:
            events.append(_event_of(item, attempt, settlement))
        elif is_completed_by_itself(item, attempt, settlement):
            events.append(_completed_by_itself(item, attempt))
        else:
            events += lost(attempt)
    return events


def is_completed_by_itself(item: Any, attempt: Attempt, settlement: Settlement) -> bool:
    """Of what was refused: whether that is because the handler's own transaction has completed the job."""
    completed = settlement.completed if isinstance(settlement, FailSettlement) else settlement.lost
    return attempt.is_self_completed and item.id in completed


def _all_completed(worker_id: str, batch: Sequence[Completion], attempts: Mapping[Key, Attempt | None]) -> list[Event]:
    """The same for what nearly all are, by the thousands."""
    events: list[Event] = []
    for item in batch:
        attempt = attempts.get((item.id, item.lease_generation))
        if attempt is not None:
            job = attempt.job
            events.append(
                JobCompleted(
                    *(job.id, job.chain_id or job.id, job.type_name, job.queue, job.tenant),
                    *(job.attempt, job.lease_generation, worker_id, item.duration_ms),
                )
            )
    return events


def _completed_by_itself(item: Any, attempt: Attempt) -> Event:
    duration_ms = item.duration_ms if isinstance(item, Failure) else None
    if attempt.self_continued is None:
        return JobCompleted(*identity(attempt.job, attempt.worker_id), duration_ms)
    return JobContinued(*identity(attempt.job, attempt.worker_id), *attempt.self_continued, duration_ms)


def _event_of(item: Any, attempt: Attempt, settlement: Settlement) -> Event:  # noqa: PLR0911 - one for each kind
    own = identity(attempt.job, attempt.worker_id)
    error = item.error if isinstance(item, Failure | Refusal) else None
    duration_ms = item.duration_ms if isinstance(item, Failure) else None
    if item.id in settlement.cancelled:
        return JobCancelled(*own, error, duration_ms)
    if isinstance(settlement, FailSettlement) and item.id in settlement.dead:
        return JobDeadLettered(*own, error, duration_ms)
    match item:
        case Completion():
            return JobCompleted(*own, item.duration_ms)
        case Continuation():
            return JobContinued(*own, item.next.id, item.next.type_name, item.duration_ms)
        case Failure():
            return JobFailed(*own, item.error, duration_ms)
        case Postponement():
            return JobSnoozed(*own)
        case Suspension():
            return JobSuspended(*own, item.kind)
        case Refusal():
            return JobRefused(*own, item.error)
        case _:
            return JobReleased(*own)
