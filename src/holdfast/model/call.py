"""A call: a job type with its arguments and options, checked and encoded, ready to be enqueued anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Generic, Literal, Self, TypedDict, TypeVar, Unpack, get_args

import msgspec

from holdfast.errors import InvalidOption
from holdfast.model.clock import Duration, checked_duration, checked_instant, iso, milliseconds
from holdfast.model.dedup import Dedup, checked_dedup
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import checked_id
from holdfast.model.job import Chain
from holdfast.model.job_type import JobType
from holdfast.model.payload import to_json
from holdfast.model.retry import checked_max_attempts

R_co = TypeVar("R_co", covariant=True)

_PRIORITY_RANGE = range(-32_768, 32_768)
_HEADERS_LIMIT = 16 * 1024
_MOST_BLOCKERS = 10_000

OnBlockerFailure = Literal["wait", "cancel", "run"]


class EnqueueOptions(TypedDict, total=False):
    """Options of one enqueue; `None` and absent are the same.

    - `id`: a UUID chosen by the caller; enqueueing it again changes nothing and returns `outcome="kept"`.
    - `queue`, `priority` (smaller runs first), `max_attempts`: instead of the job type's.
    - `at` (aware datetime) or `delay` (seconds or timedelta): when the job may run; the past means now.
    - `expires` (aware datetime, or seconds or timedelta from now): not started by then, the job is cancelled.
    - `dedup` (a string or `Dedup`): at most one chain of the type holds the key.
    - `blockers` (chains or their ids): the job waits until they have completed; `on_blocker_failure` says what one that
      ends otherwise means: "wait" (the default: until it is retried and completes), "cancel" or "run".
    - `tenant`, `headers`: kept with the job for the handler and for filters.
    """

    id: str | None
    queue: str | None
    priority: int | None
    at: datetime | None
    delay: Duration | None
    max_attempts: int | None
    expires: datetime | Duration | None
    dedup: Dedup | str | None
    blockers: Iterable[Chain[Any] | str] | None
    on_blocker_failure: OnBlockerFailure | None
    tenant: str | None
    headers: Mapping[str, str] | None


class Extras(msgspec.Struct, omit_defaults=True):
    """What few jobs have; a plain job does not pay for it."""

    expires_at: str | None = None
    expires_ms: int | None = None
    deduplication_key: str | None = None
    deduplication_scope: str | None = None
    window_ms: int | None = None
    on_conflict: str = "keep"
    blockers: list[str] | None = None
    on_blocker_failure: str | None = None
    #: blockers that were not resolved when the job was written; not 0, which is the same as absent
    waiting_for: int | None = None


class JobDocument(msgspec.Struct, omit_defaults=True):
    """One job on its way into the database: the shape that `enqueue_jobs.sql` reads."""

    id: str
    type_name: str
    input: msgspec.Raw
    queue: str
    priority: int = 0
    scheduled_at: str | None = None
    delay_ms: int | None = None
    max_attempts: int | None = None
    timeout_ms: int | None = None
    tenant: str | None = None
    headers: msgspec.Raw | None = None
    more: Extras | None = None

    @property
    def extras(self) -> Extras:
        """To be written to; a document without any stays small."""
        if self.more is None:
            self.more = Extras()
        return self.more

    @property
    def is_guarded(self) -> bool:
        """Whether other chains have a say in it: who holds its key, and what it waits for."""
        return self.more is not None and bool(self.more.deduplication_key or self.more.blockers)


class Call(Generic[R_co]):
    """What `job_type.call(…)` returns; `R_co` is the output that its chain will have."""

    __slots__ = ("job_type", "key", "options_given", "payload")

    def __init__(
        self,
        job_type: JobType,
        payload: bytes,
        options_given: EnqueueOptions | None = None,
        key: Dedup | str | None = None,
    ) -> None:
        self.job_type = job_type
        self.payload = payload
        self.options_given: EnqueueOptions = options_given or {}
        #: what the job type's own dedup= made of the arguments; any other dedup= wins
        self.key = key

    def options(self, **options: Unpack[EnqueueOptions]) -> Self:
        """The same call with options of its own; they win over those of the enqueue."""
        check_options(options)
        return type(self)(self.job_type, self.payload, self.options_given | options, self.key)

    def __repr__(self) -> str:
        return f"<Call {self.job_type.name} {self.payload[:80].decode(errors='replace')}>"

    def next_document(self, job_id: str) -> JobDocument:
        """The job as the continuation of a chain."""
        check_continuation(self)
        return type(self)(self.job_type, self.payload, self.options_given).document(job_id, {})

    def document(self, job_id: str, shared: EnqueueOptions) -> JobDocument:
        """The job as it is sent; `shared` are the already checked options of the whole enqueue."""
        job_type = self.job_type
        timeout_ms = None if job_type.timeout is None else milliseconds(job_type.timeout)
        document = JobDocument(
            job_id, job_type.name, msgspec.Raw(self.payload), job_type.queue, job_type.priority, timeout_ms=timeout_ms
        )
        if job_type.expires is not None:
            document.extras.expires_ms = milliseconds(job_type.expires)
        if shared or self.options_given or self.key is not None:
            own: EnqueueOptions = {"dedup": self.key}
            _apply(document, own | shared | self.options_given)
        return document


def check_continuation(call: Call[Any]) -> None:
    """A continuation is part of its chain: it gets its id by itself, and the chain has its key or none."""
    for option in ("id", "dedup"):
        value = call.options_given.get(option)
        if value is not None:
            raise InvalidOption(option, value, "cannot be given to a continuation; it belongs to its chain")


def check_options(options: EnqueueOptions) -> None:
    """Refuse bad values before anything is sent."""
    scratch = JobDocument("", "", msgspec.Raw(b"null"), "")
    _apply(scratch, options)


def _apply(document: JobDocument, options: EnqueueOptions) -> None:
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "at" in given and "delay" in given:
        raise InvalidOption("delay", given["delay"], "cannot be combined with at=; give one of them")
    for name, value in given.items():
        _SETTERS[name](document, value) if name in _SETTERS else _unknown(name, value)


def _unknown(name: str, value: object) -> None:
    raise InvalidOption(name, value, f"is not an option; the options are {', '.join(sorted(_SETTERS))}")


def _set_priority(document: JobDocument, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value not in _PRIORITY_RANGE:
        raise InvalidOption("priority", value, "must be a whole number from -32,768 to 32,767; smaller runs first")
    document.priority = value


def _set_headers(document: JobDocument, value: object) -> None:
    if not isinstance(value, Mapping) or not all(
        isinstance(key, str) and isinstance(text, str) and "\x00" not in key + text for key, text in value.items()
    ):
        raise InvalidOption("headers", value, "must map text to text, without U+0000")
    try:
        encoded = to_json(dict(value))
    except UnicodeEncodeError:
        raise InvalidOption("headers", value, "contains a lone surrogate") from None
    if len(encoded) > _HEADERS_LIMIT:
        raise InvalidOption("headers", f"{len(encoded):,} bytes", f"must not be larger than {_HEADERS_LIMIT:,} bytes")
    document.headers = msgspec.Raw(encoded)


def _set_id(document: JobDocument, value: object) -> None:
    document.id = checked_id(value)


def _set_queue(document: JobDocument, value: object) -> None:
    document.queue = checked_name("queue", value)


def _set_at(document: JobDocument, value: object) -> None:
    document.scheduled_at = iso(checked_instant("at", value))


def _set_delay(document: JobDocument, value: object) -> None:
    document.delay_ms = milliseconds(checked_duration("delay", value))


def _set_max_attempts(document: JobDocument, value: object) -> None:
    document.max_attempts = checked_max_attempts(value)


def _set_expires(document: JobDocument, value: object) -> None:
    if isinstance(value, datetime):
        document.extras.expires_at = iso(checked_instant("expires", value))
        document.extras.expires_ms = None
    else:
        document.extras.expires_ms = milliseconds(checked_duration("expires", value))


def _set_dedup(document: JobDocument, value: object) -> None:
    dedup = checked_dedup(value)
    extras = document.extras
    extras.deduplication_key, extras.deduplication_scope = dedup.key, dedup.scope
    extras.on_conflict = dedup.on_conflict
    extras.window_ms = None if dedup.window is None else milliseconds(checked_duration("window", dedup.window))


def _set_blockers(document: JobDocument, value: object) -> None:
    if isinstance(value, (str, Chain)) or not isinstance(value, Iterable):
        raise InvalidOption("blockers", value, "must be a list of chains or their ids")
    blockers = [checked_id(each.id if isinstance(each, Chain) else each) for each in value]
    if len(set(blockers)) < len(blockers):
        raise InvalidOption("blockers", value, "names a chain twice")
    if len(blockers) > _MOST_BLOCKERS:
        raise InvalidOption("blockers", f"{len(blockers):,} chains", f"must not be more than {_MOST_BLOCKERS:,}")
    document.extras.blockers = blockers or None
    if blockers and document.extras.on_blocker_failure is None:
        # Never null where there are blockers: by that the claim knows that its job has some.
        document.extras.on_blocker_failure = "wait"


def _set_on_blocker_failure(document: JobDocument, value: object) -> None:
    if value not in get_args(OnBlockerFailure):
        raise InvalidOption("on_blocker_failure", value, f"must be one of {', '.join(get_args(OnBlockerFailure))}")
    document.extras.on_blocker_failure = str(value)


def _set_tenant(document: JobDocument, value: object) -> None:
    document.tenant = checked_name("tenant", value)


_SETTERS = {
    "id": _set_id,
    "queue": _set_queue,
    "priority": _set_priority,
    "at": _set_at,
    "delay": _set_delay,
    "max_attempts": _set_max_attempts,
    "expires": _set_expires,
    "dedup": _set_dedup,
    "blockers": _set_blockers,
    "on_blocker_failure": _set_on_blocker_failure,
    "tenant": _set_tenant,
    "headers": _set_headers,
}
