"""What the database says about jobs, as values."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, TypeVar

import msgspec

from holdfast.model.status import Status

R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")


class JobError(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why an attempt failed.

    `first_refused_at` is set while no worker can run the job: since when that is so.
    """

    type: str
    message: str
    traceback: str | None = None
    first_refused_at: datetime | None = None


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the job table, as it was when it was read.

    - `is_tail`: whether it is the last job of its chain so far.
    - `waiting_for`: how many of its blockers have not ended; `on_blocker_failure` says what a failed one means.
    - `revision`: how often a later enqueue with its deduplication key replaced it.
    - `step`, `progress`: what its handler said last.
    - `cancel_requested_at`: since when a running job is asked to stop.
    - `expires_at`: not started by then, it is cancelled; None also for one that was started and put off.
    """

    id: str
    seq: int
    type_name: str
    queue: str
    priority: int
    chain_id: str
    chain_type_name: str
    chain_index: int
    input: Any
    output: Any = None
    status: Status
    held: bool
    is_tail: bool = True
    waiting_for: int = 0
    attempt: int
    max_attempts: int | None = None
    crash_count: int
    created_at: datetime
    scheduled_at: datetime
    ready_at: datetime
    expires_at: datetime | None = None
    timeout_ms: int | None = None
    last_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    completed_by: str | None = None
    duration_ms: int | None = None
    last_attempt_error: JobError | None = None
    leased_by: str | None = None
    leased_until: datetime | None = None
    lease_generation: int
    cancel_requested_at: datetime | None = None
    step: str | None = None
    progress: Any = None
    deduplication_key: str | None = None
    deduplication_scope: str | None = None
    revision: int = 0
    flags: list[str] | None = None
    partition_key: str | None = None
    ordering: str | None = None
    concurrency_key: str | None = None
    on_blocker_failure: str | None = None
    tenant: str | None = None
    headers: dict[str, str] | None = None


class AttemptRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a job that did not complete it."""

    attempt: int
    lease_generation: int
    worker_id: str | None = None
    started_at: datetime | None = None
    ended_at: datetime
    outcome: str
    error: JobError | None = None


class Outcome(StrEnum):
    """What an enqueue did."""

    CREATED = "created"
    KEPT = "kept"
    REPLACED = "replaced"


class Chain(msgspec.Struct, Generic[R_co], eq=False, gc=False):
    """What an enqueue returns: the chain's id, its status then, and what happened."""

    id: str
    type_name: str
    status: Status
    outcome: Outcome
    #: the chain that had to give up its deduplication key to this one
    superseded: str | None = None
    #: enqueued with tx=: it is there only if that transaction commits
    is_tentative: bool = False

    @property
    def job(self) -> str:
        """The id of the chain's first job, which is the chain's own."""
        return self.id

    def __repr__(self) -> str:
        return f"<Chain {self.id} {self.type_name} {self.status} {self.outcome}>"


class ChainRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A chain as it was when it was read: status, output and error are those of its last job, its `tail`.

    - `id`, `type_name`, `created_at`: of the first job, with which the chain was enqueued.
    - `output`, `finished_at`: None until the chain has ended.
    - `job_count`: how many jobs there have been so far.
    """

    id: str
    type_name: str
    status: Status
    output: Any = None
    error: JobError | None = None
    created_at: datetime
    finished_at: datetime | None = None
    job_count: int
    tail: Job


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some results, and where to go on; `next_cursor` is None on the last page."""

    items: list[T]
    next_cursor: str | None = None
