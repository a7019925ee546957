"""How functions become job types, and where an app keeps them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypedDict

from holdfast.app.job_handle import JobHandle
from holdfast.errors import DuplicateJobType, InvalidJobType, InvalidOption
from holdfast.model.batch_signature import BatchSignature
from holdfast.model.clock import Duration, checked_duration
from holdfast.model.dedup import Dedup
from holdfast.model.identifiers import checked_name
from holdfast.model.job_type import CallSignature, JobType, Signature
from holdfast.model.partition import Ordering, checked_ordering, checked_partition_key, checked_shards, shard_of
from holdfast.model.payload import PayloadCodec
from holdfast.model.retention import Keep, KeepFor, checked_keeps
from holdfast.model.retry import Retry
from holdfast.worker import Batch, Context, Handler, Middleware, SyncBatch, SyncContext

if TYPE_CHECKING:
    from holdfast.app.app import App

_EXECUTORS = ("auto", "process")
_LARGEST_BATCH = 10_000


class JobSettings(TypedDict, total=False):
    """What `@app.job(…)` takes; `App.job` says what each means."""

    name: str | None
    aliases: Iterable[str]
    queue: str
    priority: int
    retry: Retry | None
    timeout: Duration | None
    expires: Duration | None
    dedup: Callable[..., Dedup | str | None] | None
    partition_key: Callable[..., str | None] | str | None
    ordering: Ordering
    shards: int | None
    concurrency_key: Callable[..., str | None] | str | None
    executor: str
    keep: Keep | KeepFor | None
    middleware: Sequence[Middleware]


@dataclass(frozen=True, kw_only=True, slots=True)
class JobOptions:
    """The same with defaults, checked."""

    name: str | None = None
    aliases: Iterable[str] = ()
    queue: str = "default"
    priority: int = 0
    retry: Retry | None = None
    timeout: Duration | None = None
    expires: Duration | None = None
    dedup: Callable[..., Dedup | str | None] | None = None
    partition_key: Callable[..., str | None] | str | None = None
    ordering: Ordering = "fifo"
    shards: int | None = None
    concurrency_key: Callable[..., str | None] | str | None = None
    executor: str = "auto"
    batch: int | None = None
    keep: Keep | KeepFor | None = None
    middleware: Sequence[Middleware] = ()

    def __post_init__(self) -> None:
        checked_name("queue", self.queue)
        if type(self.priority) is not int or not -32_768 <= self.priority <= 32_767:  # noqa: PLR2004 - a smallint
            raise InvalidOption(
                "priority", self.priority, "must be a whole number from -32,768 to 32,767; smaller runs first"
            )
        for option, none in (("timeout", "none"), ("expires", "never")):
            value = getattr(self, option)
            if value is not None and not checked_duration(option, value):
                raise InvalidOption(option, value, f"must be longer than nothing; leave it out for {none}")
        if self.dedup is not None and not callable(self.dedup):
            raise InvalidOption(
                "dedup", self.dedup, "must be a function of the job's arguments that returns a key or None"
            )
        self._check_partition()
        if self.concurrency_key is not None and not callable(self.concurrency_key):
            checked_name("concurrency_key", self.concurrency_key)
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise InvalidOption("retry", self.retry, "must be a Retry(…)")
        if self.executor not in _EXECUTORS:
            raise InvalidOption("executor", self.executor, f"must be one of {', '.join(_EXECUTORS)}")
        if self.batch is not None and (type(self.batch) is not int or not 1 <= self.batch <= _LARGEST_BATCH):
            raise InvalidOption("batch", self.batch, f"must be a whole number from 1 to {_LARGEST_BATCH:,}")
        checked_keeps(self.keep)
        checked_middleware(self.middleware)

    def _check_partition(self) -> None:
        if self.partition_key is not None and not callable(self.partition_key):
            checked_partition_key(self.partition_key)
        checked_ordering(self.ordering)
        if self.shards is not None:
            checked_shards(self.shards)
            if self.partition_key is None:
                raise InvalidOption("shards", self.shards, "needs a partition_key")
            if isinstance(self.partition_key, str):
                shard_of(self.partition_key, self.shards, "")


def checked_middleware(middleware: object) -> tuple[Middleware, ...]:
    """A list of functions, as a tuple."""
    if not isinstance(middleware, list | tuple) or not all(map(callable, middleware)):
        raise InvalidOption("middleware", middleware, "must be a list of functions (ctx, call_next)")
    return tuple(middleware)


class Registry:
    """The job types of an app, by every name under which their jobs may be stored."""

    def __init__(
        self, app: App, payload_limit: int, middleware: Sequence[Middleware], keep: Keep | KeepFor | None = None
    ) -> None:
        self._app = app
        self._keep = checked_keeps(keep)
        self._payload_limit = payload_limit
        self._middleware = checked_middleware(middleware)
        self.handlers: dict[str, Handler] = {}
        self.handles: dict[str, JobHandle[Any, Any]] = {}
        self.job_types: dict[str, JobType] = {}

    def add(self, fn: Callable[..., Any], options: JobOptions) -> JobHandle[Any, Any]:
        """Register a function; nothing is registered if anything is wrong with it."""
        job_type = self._job_type(fn, options)
        names = (job_type.name, *job_type.aliases)
        if options.executor == "process":
            _refuse_unreachable(job_type.name, fn)
        handler = Handler(job_type, fn, options.executor, options.batch, self._fitting(job_type.name, fn, options))
        for name in names:
            self.refuse_conflict(name, fn)
        for name in names:
            self.handlers[name] = handler
            self.job_types[name] = job_type
        handle: JobHandle[Any, Any] = JobHandle(self._app, job_type, fn)
        self.handles[job_type.name] = handle
        return handle

    def declare(self, fn: Callable[..., Any], options: JobOptions) -> JobHandle[Any, Any]:
        """Register a type that is handled elsewhere; `fn` only has its signature."""
        job_type = self._job_type(fn, options)
        self.refuse_conflict(job_type.name, fn)
        handle: JobHandle[Any, Any] = JobHandle(self._app, job_type, fn)
        self.handles[job_type.name] = handle
        self.job_types[job_type.name] = job_type
        return handle

    def adopt(self, other: Registry) -> None:
        """Take over every job type, as it is."""
        for name, job_type in other.job_types.items():
            self.refuse_conflict(name, other.handles[job_type.name].fn)
        self.handlers |= other.handlers
        self.job_types |= other.job_types
        for handle in other.handles.values():
            self.handles[handle.name] = JobHandle(self._app, handle.job_type, handle.fn)

    def refuse_conflict(self, name: str, fn: Callable[..., Any]) -> None:
        """One name, one function; the same function twice is one function imported twice."""
        known = self.job_types.get(name)
        if known is not None and _place(other := self.handles[known.name].fn) != _place(fn):
            raise DuplicateJobType(name, _place(other), _place(fn))

    def _job_type(self, fn: Callable[..., Any], options: JobOptions) -> JobType:
        if not inspect.isroutine(fn):
            raise InvalidJobType(f"{fn!r} is not a function")
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise InvalidJobType(f"{fn.__qualname__} yields; a job is a function that returns")
        name = checked_name("name", fn.__name__ if options.name is None else options.name)
        signature: Signature
        if options.batch is None:
            signature = CallSignature(name, fn, (Context, SyncContext), self._payload_limit)
        else:
            signature = BatchSignature(name, fn, (Batch, SyncBatch), self._payload_limit)
        is_async = inspect.iscoroutinefunction(fn)
        if signature.context_type in ((SyncContext, SyncBatch) if is_async else (Context, Batch)):
            what = "Context" if options.batch is None else "Batch"
            raise InvalidJobType(f"{name}: async def handlers take {what}, def handlers take Sync{what}")
        for option in ("dedup", "partition_key", "concurrency_key"):
            made = getattr(options, option)
            if callable(made) and not signature.takes(made):
                own = "one argument" if options.batch is not None else ", ".join(signature.names) or "no arguments"
                raise InvalidJobType(f"{name}: {option}= must be a function of the job's own: {own}")
        return JobType(
            name=name,
            queue=options.queue,
            priority=options.priority,
            retry=options.retry or Retry(),
            timeout=_duration("timeout", options.timeout),
            signature=signature,
            output=PayloadCodec(name, signature.output_hint, self._payload_limit),
            expires=_duration("expires", options.expires),
            dedup=options.dedup,
            partition_key=options.partition_key,
            ordering=options.ordering,
            shards=options.shards,
            concurrency_key=options.concurrency_key,
            aliases=_checked_aliases(name, options.aliases),
            keep=(checked_keeps(options.keep) or Keep()).over(self._keep),
        )

    def _fitting(self, name: str, fn: Callable[..., Any], options: JobOptions) -> tuple[Middleware, ...]:
        """The app's middleware of the handler's kind, which is for single jobs, not batches; then the type's own."""
        is_async = inspect.iscoroutinefunction(fn)
        for own in options.middleware:
            if _is_async(own) is not is_async:
                kinds = ("async def", "def") if is_async else ("def", "async def")
                raise InvalidJobType(f"{name}: around an {kinds[0]} handler {kinds[1]} middleware cannot be")
        shared = [each for each in self._middleware if _is_async(each) is is_async and options.batch is None]
        return (*shared, *options.middleware)


def _duration(option: str, value: Duration | None) -> timedelta | None:
    return None if value is None else checked_duration(option, value)


def _checked_aliases(name: str, aliases: object) -> tuple[str, ...]:
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise InvalidOption("aliases", aliases, "must be a list of names")
    found = tuple(checked_name("aliases", alias) for alias in aliases)
    if name in found or len(set(found)) < len(found):
        raise InvalidOption("aliases", aliases, "must be different from the name and from each other")
    return found


def _is_async(middleware: Middleware) -> bool:
    return inspect.iscoroutinefunction(middleware) or inspect.iscoroutinefunction(type(middleware).__call__)


def _refuse_unreachable(name: str, fn: Callable[..., Any]) -> None:
    """A handler process finds the function by its module and name."""
    if "<locals>" in fn.__qualname__:
        raise InvalidJobType(f'{name}: with executor="process" the function must stand at the top level of a module')
    if fn.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        raise InvalidJobType(f'{name}: with executor="process" the function must stand in a file')


def _place(function: Callable[..., Any]) -> str:
    """Where a function is defined; the same for a module imported under two names."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
