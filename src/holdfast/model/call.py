"""A call: a job type with its arguments and options, checked and encoded, ready to be enqueued anywhere."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, Self, TypedDict, TypeVar, Unpack, cast, get_args

import msgspec

from holdfast.errors import InvalidOption
from holdfast.model.clock import Duration, checked_duration, checked_instant, iso, milliseconds
from holdfast.model.dedup import Dedup, checked_dedup
from holdfast.model.flags import checked_flags
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import checked_id
from holdfast.model.job import Chain, ChainRecord, Job
from holdfast.model.job_type import JobType
from holdfast.model.partition import (
    Ordering,
    checked_ordering,
    checked_partition_key,
    checked_shards,
    shard_of,
)
from holdfast.model.payload import to_json
from holdfast.model.retry import checked_max_attempts
from holdfast.model.ring import bucket_of

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
    - `partition_key`: jobs of one queue with the same key run one at a time; `ordering` says in which order: "fifo"
      (the default: each waits for every earlier one that has not ended) or "serial" (each waits for a running one
      only); `shards` spreads the key over so many sub-keys, each in its own order.
    - `concurrency_key`: of the jobs of one queue with this key no more run, and no more start, than the queue's
      `key_concurrency` and `key_rate` allow.
    - `flags`: words by which workers may leave the job to others.
    - `tenant`, `headers`: kept with the job for the handler and for filters.
    - `notify` (yes): tell workers of the job; without, they find it when they next look.
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
    partition_key: str | None
    ordering: Ordering | None
    shards: int | None
    concurrency_key: str | None
    flags: Iterable[str] | None
    tenant: str | None
    headers: Mapping[str, str] | None
    notify: bool | None


#: shared by all calls that have none
_NO_OPTIONS: Final = cast("EnqueueOptions", MappingProxyType({}))


class Extras(msgspec.Struct, omit_defaults=True, gc=False):
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
    partition_key: str | None = None
    partition_bucket: int | None = None
    ordering: str | None = None
    #: of a continuation: it was given a key, which wins over that of its chain
    has_own_key: bool = False
    #: an earlier job of the same batch has the same key
    held: bool = False
    concurrency_key: str | None = None
    flags: list[str] | None = None


class JobDocument(msgspec.Struct, omit_defaults=True, gc=False):
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


class Call(msgspec.Struct, Generic[R_co], eq=False, gc=False):
    """What `job_type.call(…)` returns; `R_co` is the output that its chain will have."""

    # A struct: there may be thousands, each made in a quarter of the time, and none of them for the garbage collector.

    job_type: JobType
    payload: bytes
    options_given: EnqueueOptions = _NO_OPTIONS
    #: what the job type makes of the arguments, such as its dedup= and partition_key=; anything else given wins
    defaults: EnqueueOptions = _NO_OPTIONS

    def options(self, **options: Unpack[EnqueueOptions]) -> Self:
        """The same call with options of its own; they win over those of the enqueue."""
        check_options(options)
        return type(self)(self.job_type, self.payload, self.options_given | only_given(options), self.defaults)

    def __repr__(self) -> str:
        return f"<Call {self.job_type.name} {self.payload[:80].decode(errors='replace')}>"

    def next_document(self, job_id: str) -> JobDocument:
        """The job as the continuation of a chain."""
        check_continuation(self)
        defaults: EnqueueOptions = self.defaults | {"dedup": None}
        document = type(self)(self.job_type, self.payload, self.options_given, defaults).document(job_id, {})
        if self.options_given.get("partition_key") is not None:
            document.extras.has_own_key = True
        return document

    def is_told(self, shared: EnqueueOptions) -> bool:
        """Whether workers are to be told of it."""
        own = self.options_given.get("notify")
        return (shared.get("notify") if own is None else own) is not False

    def document(self, job_id: str, shared: EnqueueOptions) -> JobDocument:
        """The job as it is sent; `shared` are the already checked options of the whole enqueue."""
        job_type = self.job_type
        timeout_ms = None if job_type.timeout is None else milliseconds(job_type.timeout)
        document = JobDocument(
            job_id, job_type.name, msgspec.Raw(self.payload), job_type.queue, job_type.priority, timeout_ms=timeout_ms
        )
        if job_type.expires is not None:
            document.extras.expires_ms = milliseconds(job_type.expires)
        if shared or self.options_given or self.defaults:
            given = shared | self.options_given
            _apply(document, self.defaults | given)
            if document.more is None or document.more.partition_key is None:
                for option in ("ordering", "shards"):
                    if (value := given.get(option)) is not None:
                        raise InvalidOption(option, value, "needs a partition_key")
                if document.more is not None:
                    document.more.ordering = None
        return document


def check_continuation(call: Call[Any]) -> None:
    """A continuation is part of its chain: it gets its id by itself, and the chain has its key or none."""
    for option in ("id", "dedup"):
        value = call.options_given.get(option)
        if value is not None:
            raise InvalidOption(option, value, "cannot be given to a continuation; it belongs to its chain")


def only_given(options: EnqueueOptions) -> EnqueueOptions:
    """Without those that are None: they must not hide what the job type says."""
    return cast("EnqueueOptions", {name: value for name, value in options.items() if value is not None})


def check_options(options: EnqueueOptions) -> None:
    """Refuse bad values before anything is sent; what can be walked through once only becomes a list."""
    if isinstance(blockers := options.get("blockers"), Iterator):
        options["blockers"] = list(blockers)
    if isinstance(flags := options.get("flags"), Iterator):
        options["flags"] = list(flags)
    scratch = JobDocument("", "", msgspec.Raw(b"null"), "")
    _apply(scratch, options)


def _apply(document: JobDocument, options: EnqueueOptions) -> None:
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if "at" in given and "delay" in given:
        raise InvalidOption("delay", given["delay"], "cannot be combined with at=; give one of them")
    for name, value in given.items():
        _SETTERS[name](document, value) if name in _SETTERS else _unknown(name, value)
    if "partition_key" in given:
        _enter_partition(document, given.get("shards"))


def _enter_partition(document: JobDocument, shards: int | None) -> None:
    """What follows from the key, once everything is known."""
    extras = document.extras
    assert extras.partition_key is not None  # noqa: S101 - set a moment ago
    if shards is not None:
        # By the deduplication key, if it has one: what replaces a job stays in its sub-key, and so keeps its place.
        extras.partition_key = shard_of(extras.partition_key, shards, extras.deduplication_key or document.id)
    extras.partition_bucket = bucket_of(extras.partition_key)
    extras.ordering = extras.ordering or "fifo"


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
    if isinstance(value, (Chain, ChainRecord)):
        value = [value]
    if isinstance(value, (str, bytes, Mapping, Job, uuid.UUID)) or not isinstance(value, Iterable):
        raise InvalidOption("blockers", _named(value), "must be a list of chains or their ids: blockers=[chain]")
    blockers = [_blocker_id(each) for each in value]
    if len(set(blockers)) < len(blockers):
        twice, _ = Counter(blockers).most_common(1)[0]
        raise InvalidOption("blockers", twice, "is named twice")
    if len(blockers) > _MOST_BLOCKERS:
        raise InvalidOption("blockers", f"{len(blockers):,} chains", f"must not be more than {_MOST_BLOCKERS:,}")
    document.extras.blockers = blockers or None
    if blockers and document.extras.on_blocker_failure is None:
        # Never null where there are blockers: by that the claim knows that its job has some.
        document.extras.on_blocker_failure = "wait"


def _blocker_id(value: object) -> str:
    if isinstance(value, (Chain, ChainRecord)):
        value = value.id
    elif isinstance(value, Job):
        value = value.chain_id
    elif not isinstance(value, (str, uuid.UUID)):
        raise InvalidOption("blockers", _named(value), "must be a list of chains or their ids, and this is neither")
    return checked_id(value, "blockers")


def _named(value: object) -> object:
    """Jobs and calls by what they are: their fields would hide what is wrong."""
    return f"a {type(value).__name__}" if isinstance(value, (Job, Call)) else value


def _set_on_blocker_failure(document: JobDocument, value: object) -> None:
    if value not in get_args(OnBlockerFailure):
        raise InvalidOption("on_blocker_failure", value, f"must be one of {', '.join(get_args(OnBlockerFailure))}")
    document.extras.on_blocker_failure = str(value)


def _set_partition_key(document: JobDocument, value: object) -> None:
    document.extras.partition_key = checked_partition_key(value)


def _set_ordering(document: JobDocument, value: object) -> None:
    document.extras.ordering = checked_ordering(value)


def _check_shards(document: JobDocument, value: object) -> None:  # noqa: ARG001 - part of the key
    checked_shards(value)


def _set_concurrency_key(document: JobDocument, value: object) -> None:
    document.extras.concurrency_key = checked_name("concurrency_key", value)


def _set_flags(document: JobDocument, value: object) -> None:
    document.extras.flags = checked_flags("flags", value) or None


def _set_tenant(document: JobDocument, value: object) -> None:
    document.tenant = checked_name("tenant", value)


def _check_notify(document: JobDocument, value: object) -> None:  # noqa: ARG001 - nothing of it is stored
    if not isinstance(value, bool):
        raise InvalidOption("notify", value, "must be True or False")


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
    "partition_key": _set_partition_key,
    "ordering": _set_ordering,
    "shards": _check_shards,
    "concurrency_key": _set_concurrency_key,
    "flags": _set_flags,
    "tenant": _set_tenant,
    "headers": _set_headers,
    "notify": _check_notify,
}
