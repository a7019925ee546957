"""What a worker and its handler processes say to each other: length-prefixed MessagePack, nothing that is executed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion
from holdfast.operations.continue_jobs import Continuation
from holdfast.operations.fail_jobs import Failure
from holdfast.operations.lease import Lease
from holdfast.operations.refuse_jobs import Refusal
from holdfast.operations.snooze_jobs import Postponement
from holdfast.operations.statement import Statement
from holdfast.operations.suspend_jobs import Suspension
from holdfast.worker.attempt import Attempt, Ending

PREFIX_BYTES: Final = 4


# --- to the process ---------------------------------------------------------------------------------------------------


class Setup(msgspec.Struct, tag=True):
    """Said first: how to find code and database as the worker does.

    - `path`: as the file system has it; a name need not be text.
    - `main`: the file of the worker's `__main__`, where handlers may be.
    - `app`: settings of the app, as its constructor takes them.
    """

    path: list[bytes]
    main: bytes | None
    app: dict[str, Any]
    log_level: int


class Run(msgspec.Struct, tag=True):
    """Call a handler for these jobs; what is said of the call carries its number."""

    number: int
    module: str
    qualname: str
    worker_id: str
    #: as the claim returned them: values of the driver, which have no one type
    rows: list[tuple[Any, ...]]

    @property
    def jobs(self) -> list[ClaimedJob]:
        """The jobs, as they were claimed."""
        return list(map(ClaimedJob._make, self.rows))


class Told(msgspec.Struct, tag=True):
    """A job of the present call is to stop."""

    job_id: str
    reason: str


class Answer(msgspec.Struct, tag=True):
    """To an `Ask`: rows, or the name and text of an error."""

    number: int
    rows: list[list[Any]] = []
    error: str | None = None
    message: str = ""


# --- from the process -------------------------------------------------------------------------------------------------


class Ready(msgspec.Struct, tag=True):
    """Set up; and, with a number, about to call the handler."""

    number: int | None = None


class Broken(msgspec.Struct, tag=True):
    """Cannot be set up, and why."""

    reason: str


class Ask(msgspec.Struct, tag=True):
    """Run one statement; its fence is among its parameters."""

    number: int
    name: str
    parameters: dict[str, Any]
    literals: dict[str, int]
    slots: dict[str, tuple[str, ...]]
    read_only: bool

    @classmethod
    def of(cls, number: int, statement: Statement, *, read_only: bool) -> Ask:
        """The statement, ready to be sent."""
        parameters, literals, slots = dict(statement.parameters), dict(statement.literals), dict(statement.slots)
        return cls(number, statement.name, parameters, literals, slots, read_only)

    def statement(self) -> Statement:
        """The statement, as it was."""
        return Statement(self.name, self.parameters, self.literals, self.slots)


class Line(msgspec.Struct, tag=True):
    """A line of `ctx.log`."""

    lease: Lease
    level: str
    message: str
    fields: bytes | None


class News(msgspec.Struct, tag=True):
    """There is work in these queues."""

    queues: list[str]


class Ended(msgspec.Struct):
    """How one attempt ended: a name in `_KINDS` and its JSON, or nothing if it was interrupted."""

    kind: str | None
    outcome: bytes
    is_self_completed: bool
    self_continued: tuple[str, str] | None = None


class Over(msgspec.Struct, tag=True):
    """The call is over."""

    number: int
    endings: list[Ended]


ToProcess = Setup | Run | Told | Answer
FromProcess = Ready | Broken | Ask | Line | News | Over

_encoder = msgspec.msgpack.Encoder()
to_process: Final[msgspec.msgpack.Decoder[ToProcess]] = msgspec.msgpack.Decoder(ToProcess)
from_process: Final[msgspec.msgpack.Decoder[FromProcess]] = msgspec.msgpack.Decoder(FromProcess)


def framed(message: ToProcess | FromProcess) -> bytes:
    """A message with its length before it."""
    data = _encoder.encode(message)
    return len(data).to_bytes(PREFIX_BYTES, "big") + data


_KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind for kind in (Completion, Continuation, Failure, Postponement, Suspension, Refusal, Lease)
}


def pack(attempt: Attempt, ending: Ending) -> Ended:
    """An ending, on its way to the worker."""
    if ending is None:
        return Ended(None, b"", attempt.is_self_completed, attempt.self_continued)
    encoded = msgspec.json.encode(ending)
    return Ended(type(ending).__name__, encoded, attempt.is_self_completed, attempt.self_continued)


def unpack(attempt: Attempt, ended: Ended) -> Ending:
    """An ending, as the process sent it; why a handler was interrupted is known here, not there."""
    attempt.is_self_completed = ended.is_self_completed
    attempt.self_continued = ended.self_continued
    if ended.kind is None:
        return attempt.ending_of_cancelled(attempt.cancellation_error())
    ending: Ending = msgspec.json.decode(ended.outcome, type=_KINDS[ended.kind])
    return ending


def error_of(answer: Answer) -> errors.HoldfastError:
    """What the worker met, to be raised in the process."""
    message = answer.message
    return (
        errors.SerializationConflict(message)
        if answer.error == errors.SerializationConflict.__name__
        else errors.DatabaseUnavailable(message)
    )


def rows_of(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows of any driver, as plain lists."""
    return [[bytes(value) if isinstance(value, memoryview) else value for value in row] for row in rows]
