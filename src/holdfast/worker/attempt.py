"""One delivery of a job to this worker, and how it ends."""

from __future__ import annotations

import asyncio
import time
import traceback

from holdfast.model.clock import milliseconds
from holdfast.model.job import JobError
from holdfast.model.retry import Retry
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion
from holdfast.operations.fail_jobs import Failure
from holdfast.operations.lease import Lease
from holdfast.worker.context import Cancellation
from holdfast.worker.handler import Handler

_MESSAGE_LIMIT = 2_000
_TRACEBACK_LIMIT = 20_000
_DEFAULT_RETRY = Retry()

#: what becomes of an attempt; None = nothing to write, somebody else has the job
Ending = Completion | Failure | Lease | None


class Attempt:
    """A job under this worker's lease, from its start to its outcome."""

    __slots__ = ("cancelled", "handler", "is_over", "job", "lease", "started_at", "task", "timer", "worker_id")

    def __init__(self, job: ClaimedJob, handler: Handler | None, worker_id: str) -> None:
        self.job = job
        self.lease = Lease(job.id, job.lease_generation)
        self.handler = handler
        self.started_at = time.monotonic()
        self.worker_id = worker_id
        self.cancelled: Cancellation | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.is_over = False

    @property
    def duration_ms(self) -> int:
        return int((time.monotonic() - self.started_at) * 1000)

    def completion(self, output: object) -> Completion:
        """The handler returned."""
        assert self.handler is not None  # noqa: S101 - nothing ran without one
        codec = self.handler.job_type.output
        if output is None and codec.accepts_null:
            return Completion(self.job.id, self.job.lease_generation, None, self.duration_ms)
        encoded = codec.encode(output).decode()
        return Completion(self.job.id, self.job.lease_generation, encoded, self.duration_ms)

    def failure(self, error: BaseException) -> Failure:
        """The handler raised; whether and when it is tried again is its type's retry policy."""
        retry = _DEFAULT_RETRY if self.handler is None else self.handler.job_type.retry
        return Failure(
            self.job.id,
            self.job.lease_generation,
            describe(error),
            milliseconds(retry.delay(self.job.attempt)),
            not retry.repeats(error),
            retry.max_attempts,
            self.duration_ms,
        )

    def ending_of_cancelled(self, error: BaseException) -> Ending:
        """The handler was told to stop, and did."""
        match self.cancelled:
            case Cancellation.LEASE_LOST:
                return None
            case Cancellation.STOPPING:
                return self.lease
            case _:
                return self.failure(error)


def describe(error: BaseException) -> JobError:
    """Type, message and traceback, each cut at a limit, whatever the exception's own methods do."""
    try:
        message = str(error)
    except Exception as second:  # noqa: BLE001 - a broken __str__ must not hide the failure
        message = f"<unprintable: {type(second).__name__}>"
    try:
        trace = "".join(traceback.format_exception(error))
    except Exception:  # noqa: BLE001 - as above
        trace = None
    return JobError(
        type(error).__qualname__, _storable(message, _MESSAGE_LIMIT), trace and _storable(trace, _TRACEBACK_LIMIT)
    )


def _storable(text: str, limit: int) -> str:
    """Text that both databases can keep; of a long one the end, where the cause stands."""
    text = text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
    return text if len(text) <= limit else "… " + text[-limit:]
