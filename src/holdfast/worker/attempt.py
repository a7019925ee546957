"""One delivery of a job to this worker, and how it ends."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from holdfast.errors import CompletionNotCommitted, ContinuationNotReturned, JobTimeout, WaitSwallowed
from holdfast.model.clock import iso, milliseconds
from holdfast.model.endings import Cancel, DeadLetter, RetryAt, Snooze, is_suspended
from holdfast.model.job import JobError
from holdfast.model.retry import Retry
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion
from holdfast.operations.continue_jobs import Continuation
from holdfast.operations.fail_jobs import Failure
from holdfast.operations.lease import Lease
from holdfast.operations.read_blockers import Blocker
from holdfast.operations.refuse_jobs import Refusal
from holdfast.operations.snooze_jobs import Postponement
from holdfast.operations.suspend_jobs import Suspension
from holdfast.worker.cancellation import LOSSES, Cancellation
from holdfast.worker.handler import Handler
from holdfast.worker.next_job import NextJob

if TYPE_CHECKING:
    from holdfast.worker.executors.base import Executor

_MESSAGE_LIMIT = 2_000
_TRACEBACK_LIMIT = 20_000
_DEFAULT_RETRY = Retry()

#: what is written of an attempt; a Lease is one to give back
Written = Completion | Continuation | Failure | Postponement | Suspension | Refusal | Lease
#: what becomes of an attempt; None = nothing to write, somebody else has the job
Ending = Written | None


class Attempt(msgspec.Struct, eq=False):
    """A job under this worker's lease, from its start to its outcome.

    A Struct because every job makes one: a class of Python's own takes three times as long to fill.
    """

    job: ClaimedJob
    handler: Handler | None
    worker_id: str
    started_at: float = msgspec.field(default_factory=time.monotonic)
    cancelled: Cancellation | None = None
    #: where it runs, once it does
    executor: Executor | None = None
    #: all jobs of its call, where that takes several
    batch: Sequence[Attempt] | None = None
    task: asyncio.Task[None] | None = None
    #: until a handler that was asked to stop is interrupted, or one that does not react is given up
    grace: asyncio.TimerHandle | None = None
    #: its handler was called, or may have been: what is given back before that is as good as never claimed
    is_called: bool = False
    is_over: bool = False
    #: hooks have been told that it failed; a handler that goes on after its timeout may fail once more
    is_reported: bool = False
    #: the handler has completed the job on a transaction of its own, whose fate only the database knows
    is_self_completed: bool = False
    #: with the next job of its chain: that one's id and type
    self_continued: tuple[str, str] | None = None
    #: who listens has been told that the lease is lost
    is_loss_told: bool = False
    #: what the handler said the chain goes on with, and must return
    next_job: NextJob | None = None
    #: what the handler waits for, without its slot; it was told so by an exception
    suspension: Suspension | None = None
    #: what it waited for, once that is read
    blockers: list[Blocker] | None = None

    @property
    def lease(self) -> Lease:
        """Made when somebody asks: most attempts come and go without."""
        return Lease(self.job.id, self.job.lease_generation)

    @property
    def duration_ms(self) -> int:
        return int((time.monotonic() - self.started_at) * 1000)

    @property
    def type_name(self) -> str:
        """The type's name of today, where the job was enqueued under an alias."""
        return self.job.type_name if self.handler is None else self.handler.job_type.name

    @property
    def aliases(self) -> Sequence[str]:
        """The names that the type had before, or will have."""
        return () if self.handler is None else self.handler.job_type.aliases

    @property
    def is_told_of_loss(self) -> bool:
        return self.cancelled in LOSSES

    @property
    def is_late(self) -> bool:
        """Whether its time is up."""
        return self.cancelled is Cancellation.TIMEOUT

    @property
    def is_out_of_time(self) -> bool:
        """The same, or it was before anybody could say so: who blocks the event loop blocks its own clock."""
        if self.cancelled is not None and self.is_late:
            return True
        timeout_ms = self.job.timeout_ms
        return timeout_ms is not None and (time.monotonic() - self.started_at) * 1000 > timeout_ms

    @property
    def is_call_unwanted(self) -> bool:
        """Whether none of the jobs of its call is wanted any more."""
        return all(attempt.is_over or attempt.cancelled is not None for attempt in self.batch or (self,))

    @property
    def is_unstoppable(self) -> bool:
        """Whether its handler goes on, whatever we do."""
        return self.executor is not None and not self.executor.is_interruptible

    # --- the handler returned -----------------------------------------------------------------------------------------

    def ending_of_return(self, output: object) -> Written:
        """What the handler's return value says."""
        if self.is_self_completed:
            # Refused, if the handler's transaction did commit.
            return self.failure(CompletionNotCommitted(self.job.id))
        if self.suspension is not None:
            raise WaitSwallowed(self.job.id)
        if self.next_job is not None or isinstance(output, NextJob):
            # Of a batch each has its own.
            if self.next_job is None or output is not self.next_job:
                raise ContinuationNotReturned(self.job.id)
            return self.continuation(self.next_job)
        return self.completion(output)

    def completion(self, output: object) -> Completion:
        """The job is done."""
        assert self.handler is not None  # noqa: S101 - nothing ran without one
        job, codec = self.job, self.handler.job_type.output
        encoded = None if output is None and codec.accepts_null else codec.encode(output).decode()
        return Completion(job.id, job.lease_generation, encoded, self.duration_ms)

    def continuation(self, next_job: NextJob) -> Continuation:
        """The job is done, its chain goes on."""
        chain_id = self.job.chain_id
        return Continuation(self.job.id, self.job.lease_generation, next_job.document, self.duration_ms, chain_id)

    # --- the handler raised -------------------------------------------------------------------------------------------

    def ending_of_raise(self, error: BaseException) -> Written:
        """What the handler's exception says."""
        match error:
            case _ if self.suspension is not None and not self.is_self_completed and is_suspended(error):
                return self.suspension
            case Snooze():
                return self.postponement(error)
            case RetryAt():
                return self.failure(error, retry_at=iso(error.when))
            case Cancel():
                return self.failure(error, is_cancelled=True)
            case DeadLetter():
                return self.failure(error, is_final=True)
            case _:
                # Whatever it raises to come to an end, its worker may have asked for it.
                return self.lease if self.cancelled is Cancellation.STOPPING else self.failure(error)

    def failure(
        self,
        error: BaseException,
        *,
        retry_at: str | None = None,
        is_final: bool | None = None,
        is_cancelled: bool = False,
    ) -> Failure:
        """Whether and when it is tried again is its type's retry policy, unless the handler said so."""
        retry = _DEFAULT_RETRY if self.handler is None else self.handler.job_type.retry
        if is_final is None:
            is_final = retry_at is None and not retry.repeats(error)
        return Failure(
            self.job.id,
            self.job.lease_generation,
            describe(error),
            milliseconds(retry.delay(self.job.attempt)),
            is_final,
            retry.max_attempts,
            self.duration_ms,
            retry_at,
            is_cancelled,
        )

    def postponement(self, error: Snooze) -> Postponement:
        """Not now."""
        delay_ms = None if error.delay is None else milliseconds(error.delay)
        until = None if error.until is None else iso(error.until)
        return Postponement(self.job.id, self.job.lease_generation, delay_ms, until)

    def refusal(self, error: BaseException) -> Refusal:
        """This worker's code cannot run the job; another's may."""
        return Refusal(self.job.id, self.job.lease_generation, describe(error))

    def cancellation_error(self) -> BaseException:
        """What to write of it where its handler says nothing any more."""
        if self.is_late:
            return JobTimeout((self.job.timeout_ms or 0) / 1000)
        if self.cancelled is Cancellation.CANCELLED:
            return Cancel("cancelled while it ran")
        return asyncio.CancelledError()

    def ending_of_cancelled(self, error: BaseException) -> Ending:
        """The handler was told to stop, and did."""
        if self.cancelled in LOSSES:
            return None
        return self.lease if self.cancelled is Cancellation.STOPPING else self.failure(error)


def describe(error: BaseException) -> JobError:
    """Type, message and traceback, each cut at a limit, whatever the exception's own methods do."""
    try:
        message = str(error)
    except BaseException as second:  # noqa: BLE001 - a broken __str__ must not hide the failure
        message = f"<unprintable: {type(second).__name__}>"
    try:
        trace = "".join(traceback.format_exception(error))
    except BaseException:  # noqa: BLE001 - as above
        trace = None
    return JobError(
        type(error).__qualname__, _storable(message, _MESSAGE_LIMIT), trace and _storable(trace, _TRACEBACK_LIMIT)
    )


def _storable(text: str, limit: int) -> str:
    """Text that both databases can keep; of a long one the end, where the cause stands."""
    text = text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
    return text if len(text) <= limit else "… " + text[-limit:]
