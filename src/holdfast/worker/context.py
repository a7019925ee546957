"""What a handler is given."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.model.job import Job, JobError
from holdfast.model.scan_position import Instant
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import ClaimedJob

if TYPE_CHECKING:
    from holdfast.worker.attempt import Attempt

C_co = TypeVar("C_co", covariant=True)


class Cancellation(StrEnum):
    """Why a handler should stop."""

    LEASE_LOST = "lease_lost"
    STOPPING = "stopping"
    TIMEOUT = "timeout"


class _BaseContext(Generic[C_co]):
    """One attempt at one job."""

    def __init__(self, attempt: Attempt, client: C_co) -> None:
        self._attempt = attempt
        self.client = client

    @cached_property
    def job(self) -> Job:
        """The job as it was claimed."""
        return as_job(self._attempt.job, self._attempt.worker_id)

    @property
    def attempt(self) -> int:
        """1 for the first try."""
        return self._attempt.job.attempt

    @property
    def lease_generation(self) -> int:
        """The fencing token: grows with every claim of the job."""
        return self._attempt.job.lease_generation

    @property
    def cancelled(self) -> Cancellation | None:
        """Why to stop, if there is a reason; None while all is well."""
        return self._attempt.cancelled


class Context(_BaseContext[Any]):
    """For `async def` handlers; `client` is an `AsyncClient`."""


class SyncContext(_BaseContext[Any]):
    """For `def` handlers, which run in threads; `client` is a `Client`."""


def as_job(claimed: ClaimedJob, worker_id: str) -> Job:
    """A claim's row as a Job; decoding waits until a handler asks."""
    error = claimed.last_attempt_error
    ready_at = as_datetime(claimed.ready_at)
    return Job(
        id=claimed.id,
        seq=claimed.seq,
        type_name=claimed.type_name,
        queue=claimed.queue,
        priority=claimed.priority,
        chain_id=claimed.chain_id or claimed.id,
        chain_type_name=claimed.chain_type_name or claimed.type_name,
        chain_index=claimed.chain_index or 0,
        input=msgspec.json.decode(claimed.input),
        status=Status.RUNNING,
        held=False,
        attempt=claimed.attempt,
        max_attempts=claimed.max_attempts,
        crash_count=claimed.crash_count or 0,
        created_at=ready_at if claimed.created_at is None else as_datetime(claimed.created_at),
        scheduled_at=ready_at if claimed.scheduled_at is None else as_datetime(claimed.scheduled_at),
        ready_at=ready_at,
        timeout_ms=claimed.timeout_ms,
        last_attempt_error=None if error is None else msgspec.json.decode(error, type=JobError),
        leased_by=worker_id,
        lease_generation=claimed.lease_generation,
        tenant=claimed.tenant,
        headers=None if claimed.headers is None else msgspec.json.decode(claimed.headers),
    )


#: PostgreSQL's instants are microseconds from here
_POSTGRES_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def as_datetime(instant: Instant) -> datetime:
    """A point in time as the database gave it."""
    if isinstance(instant, str):
        return datetime.fromisoformat(instant)
    return _POSTGRES_EPOCH + timedelta(microseconds=instant)
