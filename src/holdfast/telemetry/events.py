"""What happens to jobs and workers, one class for each thing that happens.

Structs, because a busy worker makes two for each job: 50 ns each, where a dataclass with slots takes 130 ns and a
frozen one 670. They are filled by position: what all of a kind have stands before what few have.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.model.job import JobError
from holdfast.model.status import Status


class Event(msgspec.Struct, frozen=True, gc=False):
    """Something that has happened; the root of all events."""


class JobEvent(Event, frozen=True, gc=False):
    """Something that happened to a job.

    `type_name` is the one that the job is stored under; `tenant` is None for a job without one.
    """

    job_id: str
    chain_id: str
    type_name: str
    queue: str
    tenant: str | None


class JobEnqueued(JobEvent, frozen=True, gc=False):
    """A job was created with its chain, by an enqueue or a schedule; `status`: pending, or blocked by other chains."""

    status: Status


class JobReplaced(JobEvent, frozen=True, gc=False):
    """A job that waits was replaced in its place by another call with its deduplication key."""

    status: Status


class AttemptEvent(JobEvent, frozen=True, gc=False):
    """Something that happened to a job at its latest attempt, if there has been one.

    - `attempt`: as it was counted at the claim; 0 for a job that was never claimed.
    - `lease_generation`: the fencing token under which it happened.
    - `worker_id`: whose attempt it is; None where it happened without a worker.
    """

    attempt: int
    lease_generation: int
    worker_id: str | None


class JobStarted(AttemptEvent, frozen=True, gc=False):
    """A job was claimed, and is now handed to its handler."""


class JobCompleted(AttemptEvent, frozen=True, gc=False):
    """A job was completed, and its chain with it; from outside where `worker_id` is None."""

    duration_ms: int | None = None


class JobContinued(AttemptEvent, frozen=True, gc=False):
    """A job was completed, and its chain goes on with the next job, which was created with that."""

    next_job_id: str
    next_type_name: str
    duration_ms: int | None = None


class JobFailed(AttemptEvent, frozen=True, gc=False):
    """An attempt has failed, and the job will be tried again."""

    error: JobError
    duration_ms: int | None = None


class JobDeadLettered(AttemptEvent, frozen=True, gc=False):
    """A job became a dead letter: it will not be tried again until a person says so."""

    error: JobError | None
    duration_ms: int | None = None


class JobCancelled(AttemptEvent, frozen=True, gc=False):
    """A job ended as cancelled: by a person, by its handler, or because nobody started it before it expired."""

    error: JobError | None
    duration_ms: int | None = None


class JobSnoozed(AttemptEvent, frozen=True, gc=False):
    """A handler has put its job off; the attempt does not count."""


class JobSuspended(AttemptEvent, frozen=True, gc=False):
    """A job waits without a slot, as its handler asked for; `waits_for`: "sleep", "signal" or "children"."""

    waits_for: str


class JobReleased(AttemptEvent, frozen=True, gc=False):
    """A job that was handed to its handler went back untouched: its worker stops, and the attempt does not count."""


class JobRefused(AttemptEvent, frozen=True, gc=False):
    """A job was put back for a worker that can run it; this one does not know its type, or cannot read its input."""

    error: JobError


class JobLost(AttemptEvent, frozen=True, gc=False):
    """A worker has lost its lease, so nothing that the handler still does will count.

    `reason`: "lease_lost", "completed_elsewhere" or "deleted".
    """

    reason: str


class JobReaped(AttemptEvent, frozen=True, gc=False):
    """A job was taken back from `worker_id`, which has died or let the lease run out.

    It will be tried again, unless `JobDeadLettered` or `JobCancelled` follows.
    """

    error: JobError


class JobCancelRequested(AttemptEvent, frozen=True, gc=False):
    """A person has asked a running job to stop; how it ends is up to its handler."""


class JobRetried(AttemptEvent, frozen=True, gc=False):
    """A person has let a dead letter, or a cancelled job, begin anew; `attempt` is that of its end."""


class JobRescheduled(AttemptEvent, frozen=True, gc=False):
    """A person has given a job that waits another time."""


class ChainDeleted(Event, frozen=True, gc=False):
    """A person has deleted a chain with all its jobs."""

    chain_id: str


class WorkerEvent(Event, frozen=True, gc=False):
    """Something that happened to a worker."""

    worker_id: str


class WorkerStarted(WorkerEvent, frozen=True, gc=False):
    """A worker of this process is registered, and claims jobs."""

    queues: Sequence[str]
    concurrency: int


class WorkerStopped(WorkerEvent, frozen=True, gc=False):
    """A worker of this process has ended, and what it held is given back."""
