"""The application object."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from holdfast.app.job_handle import JobHandle
from holdfast.client import AsyncClient, Client
from holdfast.client.attendance import Attendance, Surroundings
from holdfast.errors import DuplicateJobType, InvalidJobType, InvalidOption, UnknownJobType
from holdfast.model.call import Call
from holdfast.model.clock import Clock, Duration, checked_duration
from holdfast.model.declared import stand_in
from holdfast.model.dedup import Dedup
from holdfast.model.fork import forget_after_fork
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import IdGenerator, Ids, checked_id, checked_uuid, new_ids
from holdfast.model.job_type import CallSignature, JobType
from holdfast.model.payload import DEFAULT_LIMIT, PayloadCodec
from holdfast.model.retry import Retry
from holdfast.notify import Hinter, Waker, chain_channel, open_chain_listener, open_hinter, open_waker
from holdfast.stores import Store, StoreConfig, open_store
from holdfast.worker import Context, Handler, Hints, SyncContext, Worker, WorkerConfig

P = ParamSpec("P")
R = TypeVar("R")

_CONTEXTS = (Context, SyncContext)


class JobDecorator(Protocol):
    """The typed decorator that `app.job(…)` returns."""

    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Awaitable[R]], /) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[SyncContext, P], R], /) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> JobHandle[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> JobHandle[P, R]: ...


class App:
    """Job types, the database they live in, and ways to enqueue and run them.

    - `url` ($HOLDFAST_URL, else sqlite:///holdfast.db): `postgresql://…` or `sqlite:///file.db`.
    - `name` ("app"): whose schedules and workers these are, when several apps share a database.
    - `schema` ("holdfast"), `prefix`, `id_type` ("uuid"), `auto_migrate` (no; SQLite always), `synchronous` ("full"),
      `journal` ("wal"), `pool_size` (10): see `StoreConfig`.
    - `notify` (yes): send and receive wake-up hints; without, workers poll.
    - `payload_limit` (1 MiB): largest input or output.
    - `new_ids`: makes job ids; must return UUID text unless `id_type` is "text".
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        name: str = "app",
        schema: str = "holdfast",
        prefix: str | None = None,
        id_type: str = "uuid",
        auto_migrate: bool = False,
        synchronous: str = "full",
        journal: str = "wal",
        pool_size: int = 10,
        notify: bool = True,
        channel: str = "holdfast",
        payload_limit: int = DEFAULT_LIMIT,
        new_ids: IdGenerator = new_ids,
        clock: Clock | None = None,
    ) -> None:
        self.name = checked_name("name", name)
        config = StoreConfig(
            schema=schema,
            prefix=prefix,
            id_type=id_type,
            channel=channel,
            auto_migrate=auto_migrate,
            synchronous=synchronous,
            journal=journal,
            clock=clock,
            pool_size=pool_size,
        )
        if type(payload_limit) is not int or payload_limit < 1:
            raise InvalidOption("payload_limit", payload_limit, "must be a positive number of bytes")
        self._url = _default_url() if url is None else url
        self.store: Store = open_store(self._url, config)
        self._config = config
        self._notify = notify
        self._payload_limit = payload_limit
        self._ids = Ids(new_ids, checked_uuid if id_type == "uuid" else checked_id)
        self._handlers: dict[str, Handler] = {}
        self._handles: dict[str, JobHandle[Any, Any]] = {}
        self._job_types: dict[str, JobType] = {}
        self._attendance = Attendance(self._surroundings)
        self._lock = threading.Lock()
        forget_after_fork(self)
        self._hinter: Hinter | None = None
        self._shared_client: Client | None = None
        self._async_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    def after_fork(self) -> None:
        """A lock that another thread held at the fork is held for ever in the child."""
        self._lock = threading.Lock()

    # --- registration -------------------------------------------------------------------------------------------------

    def job(
        self,
        without_parentheses: None = None,
        /,
        *,
        name: str | None = None,
        aliases: Iterable[str] = (),
        queue: str = "default",
        priority: int = 0,
        retry: Retry | None = None,
        timeout: Duration | None = None,
        expires: Duration | None = None,
        dedup: Callable[..., Dedup | str | None] | None = None,
    ) -> JobDecorator:
        """Register a function as a job type.

        - `name` (the function's): how its jobs are stored; must stay the same while jobs exist, or
        - `aliases` (none): names that it had before; jobs stored under them are run too.
        - `queue` ("default"), `priority` (0; smaller runs first), `retry` (`Retry()`).
        - `timeout` (none): how long one attempt may take.
        - `expires` (never): a job that has not been started this long after its enqueue is cancelled.
        - `dedup` (none): makes a deduplication key of a call's arguments, or None for a call without one.
        """
        if without_parentheses is not None:
            raise InvalidJobType("write @app.job() with parentheses")

        def register(fn: Callable[..., Any]) -> JobHandle[Any, Any]:
            job_type = self._job_type(fn, name, queue, priority, retry or Retry(), timeout, expires, dedup)
            job_type = replace(job_type, aliases=_checked_aliases(job_type.name, aliases))
            handler = Handler(job_type, fn)
            for known_as in (job_type.name, *job_type.aliases):
                self._refuse_conflict(known_as, fn)
            for known_as in (job_type.name, *job_type.aliases):
                self._handlers[known_as] = handler
                self._job_types[known_as] = job_type
            handle: JobHandle[Any, Any] = JobHandle(self, job_type, fn)
            self._handles[job_type.name] = handle
            return handle

        return register

    def declare(
        self,
        name: str,
        *,
        input: object = None,  # noqa: A002 - what it is called everywhere else
        output: type[R] | Any = Any,
        queue: str = "default",
        priority: int = 0,
        timeout: Duration | None = None,
        expires: Duration | None = None,
    ) -> JobHandle[..., R]:
        """A job type that this app enqueues and another one handles, under the same name.

        - `input` (no arguments): a mapping of names to types, or a class with typed fields (dataclass, TypedDict …).
        - `output` (anything): what its jobs return.
        - `queue`, `priority`, `timeout`, `expires`: as for `job`; give those of the app that handles it.

            charge = app.declare("charge_card", input={"order_id": int}, output=str, queue="billing")
            client.enqueue(charge.call(order_id=9182))
        """
        fn = stand_in(checked_name("name", name), input, output)
        self._refuse_conflict(name, fn)
        job_type = self._job_type(fn, name, queue, priority, Retry(), timeout, expires, None)
        handle: JobHandle[..., R] = JobHandle(self, job_type, fn)
        self._handles[name] = handle
        self._job_types[name] = job_type
        return handle

    def adopt(self, other: App) -> None:
        """Take over every job type of another app, as it is: for test kits."""
        for name, job_type in other._job_types.items():
            self._refuse_conflict(name, other._handles[job_type.name].fn)
        self._handlers |= other._handlers
        self._job_types |= other._job_types
        for handle in other.job_types.values():
            self._handles[handle.name] = JobHandle(self, handle.job_type, handle.fn)

    def call(self, type_name: str, /, *args: object, **kwargs: object) -> Call[Any]:
        """A call by the name of a registered job type, or one of its aliases."""
        job_type = self._job_types.get(type_name)
        handle = None if job_type is None else self._handles.get(job_type.name)
        if handle is None:
            raise UnknownJobType(type_name, tuple(self._handles))
        return handle.call(*args, **kwargs)

    @property
    def job_types(self) -> dict[str, JobHandle[Any, Any]]:
        """The registered job types by name."""
        return dict(self._handles)

    def _job_type(  # noqa: PLR0917 - one parameter per option
        self,
        fn: Callable[..., Any],
        name: str | None,
        queue: str,
        priority: int,
        retry: Retry,
        timeout: Duration | None,
        expires: Duration | None,
        dedup: Callable[..., Dedup | str | None] | None,
    ) -> JobType:
        if not inspect.isroutine(fn):
            raise InvalidJobType(f"{fn!r} is not a function")
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise InvalidJobType(f"{fn.__qualname__} yields; a job is a function that returns")
        type_name = checked_name("name", fn.__name__ if name is None else name)
        if type(priority) is not int or not -32_768 <= priority <= 32_767:  # noqa: PLR2004 - a smallint
            raise InvalidOption(
                "priority", priority, "must be a whole number from -32,768 to 32,767; smaller runs first"
            )
        if timeout is not None and not checked_duration("timeout", timeout):
            raise InvalidOption("timeout", timeout, "must be longer than nothing; leave it out for none")
        if expires is not None and not checked_duration("expires", expires):
            raise InvalidOption("expires", expires, "must be longer than nothing; leave it out for never")
        if dedup is not None and not callable(dedup):
            raise InvalidOption("dedup", dedup, "must be a function of the job's arguments that returns a key or None")
        if not isinstance(retry, Retry):
            raise InvalidOption("retry", retry, "must be a Retry(…)")
        signature = CallSignature(type_name, fn, _CONTEXTS, self._payload_limit)
        if signature.context_type is (SyncContext if inspect.iscoroutinefunction(fn) else Context):
            raise InvalidJobType(f"{type_name}: async def handlers take Context, def handlers take SyncContext")
        return JobType(
            name=type_name,
            queue=checked_name("queue", queue),
            priority=priority,
            retry=retry,
            timeout=None if timeout is None else checked_duration("timeout", timeout),
            signature=signature,
            output=PayloadCodec(type_name, signature.output_hint, self._payload_limit),
            expires=None if expires is None else checked_duration("expires", expires),
            dedup=dedup,
        )

    def _refuse_conflict(self, name: str, fn: Callable[..., Any]) -> None:
        known = self._job_types.get(name)
        if known is not None and _place(other := self._handles[known.name].fn) != _place(fn):
            raise DuplicateJobType(name, _place(other), _place(fn))

    # --- clients ------------------------------------------------------------------------------------------------------

    def client(self) -> Client:
        """A client for threads; close it, or use it as a context manager."""
        return self._make_client(self._get_hinter())

    def async_client(self) -> AsyncClient:
        """A client for one event loop; close it, or use it as an async context manager."""
        return AsyncClient(
            self.store.asynchronous(),
            self._get_hinter(),
            self._inner_channel,
            self._ids,
            self._job_types,
            self._attendance,
        )

    @property
    def shared_client(self) -> Client:
        """The client behind `job.enqueue(…)`: opened on first use, closed with the process."""
        with self._lock:
            if self._shared_client is None:
                self._shared_client = self._make_client(self._hinter_unlocked())
                atexit.register(self.close)
            return self._shared_client

    async def shared_async_client(self) -> AsyncClient:
        """The client behind `job.aenqueue(…)`: one per event loop."""
        loop = asyncio.get_running_loop()
        client = self._async_clients.get(loop)
        if client is None:
            client = self._async_clients[loop] = self.async_client()
        return client

    def close(self) -> None:
        """Close what `enqueue` shorthands opened, and send the last hints; idempotent."""
        with self._lock:
            client, self._shared_client = self._shared_client, None
            hinter, self._hinter = self._hinter, None
        if client is not None:
            client.close()
        if hinter is not None:
            hinter.close()

    async def aclose(self) -> None:
        """`close`, and the client that `aenqueue` opened on this event loop; idempotent."""
        client = self._async_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
        self.close()

    def _make_client(self, hinter: Hinter) -> Client:
        return Client(self.store.sync(), hinter, self._inner_channel, self._ids, self._job_types, self._attendance)

    def _get_hinter(self) -> Hinter:
        with self._lock:
            return self._hinter_unlocked()

    def _hinter_unlocked(self) -> Hinter:
        if self._hinter is None:
            self._hinter = open_hinter(self.store.dialect, self._url, self._config.channel, is_enabled=self._notify)
        return self._hinter

    @property
    def _inner_channel(self) -> str | None:
        """The channel for hints inside a borrowed transaction."""
        from holdfast.notify.open import work_channel

        return work_channel(self._config.channel) if self._notify and self.store.dialect == "postgres" else None

    def _surroundings(self) -> Surroundings:
        """Of those who wait for chains."""
        channel = chain_channel(self._config.channel)
        return Surroundings(
            self.store.asynchronous,
            lambda: open_chain_listener(self.store.dialect, self._where, channel, is_enabled=self._notify),
            channel if self._notify and self.store.dialect == "postgres" else None,
        )

    @property
    def _where(self) -> str:
        """A URL, or the path of the SQLite file."""
        return self._url if self.store.dialect == "postgres" else self.store.url.removeprefix("sqlite:///")

    # --- workers ------------------------------------------------------------------------------------------------------

    def make_worker(
        self,
        config: WorkerConfig,
        *,
        store: Store | None = None,
        waker: Callable[[Sequence[str]], Waker] | None = None,
    ) -> Worker:
        """A worker, not yet running; needs a running event loop. `store` and `waker` replace the app's in test kits."""
        from holdfast.stores.known import CODE_VERSION

        return Worker(
            store or self.store,
            self._handlers,
            config if self._notify else replace(config, is_notified=False),
            version=CODE_VERSION,
            waker=waker or (lambda queues: self._waker(config, queues)),
            async_client=self.async_client(),
            sync_client=self.client(),
            ids=self._ids,
            hints=Hints(self._get_hinter().hint, self._inner_channel),
        )

    @asynccontextmanager
    async def worker(
        self, *, queues: Sequence[str] | None = None, concurrency: int | None = None, config: WorkerConfig | None = None
    ) -> AsyncIterator[Worker]:
        """A worker in this process, for as long as the block runs."""
        worker = self.make_worker(config or WorkerConfig(queues=queues, concurrency=concurrency))
        task = asyncio.create_task(worker.run(), name="holdfast-worker")
        started = asyncio.create_task(worker.started.wait())
        await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if task.done():
            await task
        try:
            yield worker
        finally:
            worker.stop()
            await task

    def run_worker(self, config: WorkerConfig | None = None) -> None:
        """Run a worker until SIGTERM or SIGINT; a second signal stops at once."""
        from holdfast.worker.process import run_until_signalled

        run_until_signalled(lambda: self.make_worker(config or WorkerConfig()))

    def _waker(self, config: WorkerConfig, queues: Sequence[str]) -> Waker:
        return open_waker(
            self.store.dialect,
            self._where,
            self._config.channel,
            queues,
            is_enabled=self._notify and config.is_notified,
        )


def _default_url() -> str:
    if url := os.environ.get("HOLDFAST_URL"):
        return url
    path = Path("holdfast.db").absolute()
    sys.stderr.write(f"holdfast: no URL given, using {path}\n")
    return f"sqlite:///{path}"


def _checked_aliases(name: str, aliases: object) -> tuple[str, ...]:
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise InvalidOption("aliases", aliases, "must be a list of names")
    found = tuple(checked_name("aliases", alias) for alias in aliases)
    if name in found or len(set(found)) < len(found):
        raise InvalidOption("aliases", aliases, "must be different from the name and from each other")
    return found


def _place(function: Callable[..., Any]) -> str:
    """Where a function is defined; the same for a module imported under two names."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)
