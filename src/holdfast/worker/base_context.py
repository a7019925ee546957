"""What contexts of both kinds know without asking the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from holdfast.errors import InvalidOption, LeaseLost, StepChanged, WaitInBatch
from holdfast.model.endings import Suspended
from holdfast.model.job import Job, JobError
from holdfast.model.payload import DEFAULT_LIMIT, PayloadCodec
from holdfast.model.scan_position import Instant
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.read_blockers import Blocker
from holdfast.operations.save_step import SavedStep
from holdfast.operations.suspend_jobs import Suspension, WaitKind
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.equipment import Equipment
from holdfast.worker.steps import Steps
from holdfast.worker.waits import WORDS, Known

if TYPE_CHECKING:
    from holdfast.worker.attempt import Attempt

S = TypeVar("S")

_LEVELS = ("debug", "info", "warning", "error")
_LONGEST_MESSAGE = 10_000


class BaseContext(Generic[S]):
    """One attempt at one job."""

    _saved: dict[str, SavedStep] | None = None
    #: the last transaction of the handler's own in which the job was completed
    _finished_in: object = None

    def __init__(self, attempt: Attempt, equipment: Equipment[S]) -> None:
        self._attempt = attempt
        self._equipment = equipment

    @cached_property
    def _children(self) -> dict[str, Known]:
        """By their chains, the children that this run has enqueued or found enqueued."""
        return {}

    @property
    def client(self) -> Any:
        """A client of the app, of the same kind as the handler."""
        return self._equipment.client

    @property
    def state(self) -> Any:
        """What the app's `lifespan` yielded: what handlers share."""
        return self._equipment.state

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

    @property
    def blockers(self) -> list[Blocker]:
        """The chains that the job waited for, in the order given: status, output and error of each."""
        if self._attempt.blockers is None:
            self._attempt.blockers = []
        return self._attempt.blockers

    def log(self, message: str, *, level: str = "info", **fields: object) -> None:
        """Write a line into the job's log, with fields of JSON; it is kept with the job, soon and in order.

        - `level`: debug, info, warning or error.
        """
        if not isinstance(message, str):
            raise InvalidOption("message", message, "must be text")
        if level not in _LEVELS:
            raise InvalidOption("level", level, f"must be one of {', '.join(_LEVELS)}")
        text = message[:_LONGEST_MESSAGE].replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
        encoded = _codec("log", self._payload_limit).encode(fields) if fields else None
        self._equipment.journal.write(self._attempt.lease, level, text, encoded)

    @property
    def _payload_limit(self) -> int:
        handler = self._attempt.handler
        return DEFAULT_LIMIT if handler is None else handler.job_type.output.limit

    @cached_property
    def _steps(self) -> Steps:
        return Steps(self._attempt.job.id, self._payload_limit)

    def _encode(self, what: str, value: object) -> str:
        return _codec(what, self._payload_limit).encode(value).decode()

    def _refuse_wait(self, what: str) -> None:
        """Where nobody could wait."""
        if self._attempt.suspension is not None:
            raise Suspended("what it was to wait for before")
        handler = self._attempt.handler
        if handler is not None and handler.batch is not None:
            raise WaitInBatch(self._attempt.job.id, what)

    def _suspended(self, kind: WaitKind, what: str, **values: Any) -> Suspended:
        """What ends the handler's run, and is written when it has."""
        lease = self._attempt.lease
        self._attempt.suspension = Suspension(lease.id, lease.lease_generation, kind, **values)
        return Suspended(what)

    def _as_saved(self, saved: SavedStep | None, name: str, kind: str | None) -> SavedStep | None:
        """The step, if it is what it was."""
        if saved is not None and saved.kind != kind:
            raise StepChanged(self._attempt.job.id, name, WORDS[saved.kind], WORDS[kind])
        return saved

    def _told(self, error: LeaseLost) -> None:
        """What the database said is what the handler sees."""
        if self._attempt.cancelled is None and error.reason != "completed_here":
            self._attempt.cancelled = Cancellation(error.reason)


@lru_cache(maxsize=32)
def _codec(what: str, limit: int) -> PayloadCodec[Any]:
    return PayloadCodec(what, Any, limit)


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
