"""The application object."""

from __future__ import annotations

import asyncio
import atexit
import os
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack, overload

from holdfast.app.decorators import BatchDecorator, JobDecorator
from holdfast.app.draining import Drained, drain
from holdfast.app.job_handle import JobHandle
from holdfast.app.purpose import refuse_purposeless
from holdfast.app.registry import JobOptions, JobSettings, Registry
from holdfast.client import AsyncClient, Client
from holdfast.client.attendance import Attendance, Surroundings
from holdfast.errors import InvalidJobType, InvalidOption, UnknownJobType
from holdfast.model.call import Call
from holdfast.model.clock import Clock, Duration
from holdfast.model.declared import stand_in
from holdfast.model.fork import forget_after_fork
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import IdGenerator, Ids, checked_id, checked_uuid, new_ids
from holdfast.model.partition import Ordering
from holdfast.model.payload import DEFAULT_LIMIT
from holdfast.model.retention import Keep, KeepFor
from holdfast.model.schedule import AppSchedules, RuleOptions, checked_definition, checked_rule
from holdfast.notify import (
    Notifier,
    NotifierConfig,
    PollingNotifier,
    Silence,
    Waker,
    checked_notifier,
    open_notifier,
)
from holdfast.stores import Store, StoreConfig, open_store
from holdfast.telemetry import Event, Listeners
from holdfast.worker import Hints, Middleware, OnDead, OnError, Worker, WorkerConfig, WorkerSettings
from holdfast.worker.config import with_settings
from holdfast.worker.executors.handler_process import Kit
from holdfast.worker.executors.main_guard import refuse_while_importing
from holdfast.worker.executors.process_line import ProcessPlan
from holdfast.worker.lifespan import Lifespan

R = TypeVar("R")
E = TypeVar("E", bound=OnError)
D = TypeVar("D", bound=OnDead)
L = TypeVar("L", bound=Callable[[Event], object])
T1 = TypeVar("T1", bound=Event)
T2 = TypeVar("T2", bound=Event)
T3 = TypeVar("T3", bound=Event)
T4 = TypeVar("T4", bound=Event)
H = TypeVar("H", bound=JobHandle[..., Any])

Managed = AbstractAsyncContextManager[Any] | AbstractContextManager[Any]

#: what a worker starts for handlers with executor="process"
_HANDLER_PROCESS = (sys.executable, "-m", "holdfast.app.handler_process")


class App:
    """Job types, the database they live in, and ways to enqueue and run them.

    - `url` ($HOLDFAST_URL, else sqlite:///holdfast.db): `postgresql://…` or `sqlite:///file.db`.
    - `name` ("app"): whose schedules and workers these are, when several apps share a database.
    - `schema` ("holdfast"), `prefix`, `id_type` ("uuid"), `auto_migrate` (no; SQLite always), `synchronous` ("full"),
      `journal` ("wal"), `pool_size` (10): see `StoreConfig`.
    - `notify` (yes): send and receive wake-up hints; without, workers poll.
    - `notifier` (the database itself): what carries them instead: `redis://…`, `nats://…`, or `local` for hints that do
      not leave the process.
    - `listen_url` ($HOLDFAST_LISTEN_URL, else `url`): where to LISTEN, if `url` leads through a transaction pooler.
    - `pooled` (found out for each connection): whether `url` leads through one; see `StoreConfig`.
    - `channel` ("holdfast"): prefix of the notification channels.
    - `payload_limit` (1 MiB): largest input or output.
    - `keep` (7 days for what completed, 90 for dead letters, 30 for what was cancelled): how long chains are kept once
      they have ended, for types that do not say it themselves; see `Keep`.
    - `new_ids`: makes job ids; must return UUID text unless `id_type` is "text". Each must be new: one that exists is
      taken for the same job, sent again because its answer was lost.
    - `middleware` (none): functions `(ctx, call_next)` around every attempt, the first outermost; an `async def` one is
      for async handlers, a `def` one for the others.
    - `lifespan` (none): takes the app and returns a context manager, of either kind, that is entered before a worker's
      first job and left after its last; what it yields is `ctx.state`.
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
        notifier: str | None = None,
        listen_url: str | None = None,
        pooled: bool | None = None,
        channel: str = "holdfast",
        payload_limit: int = DEFAULT_LIMIT,
        new_ids: IdGenerator = new_ids,
        clock: Clock | None = None,
        keep: Keep | KeepFor | None = None,
        middleware: Sequence[Middleware] = (),
        lifespan: Callable[[App], Managed] | None = None,
    ) -> None:
        self.name = checked_name("name", name)
        self._url = _default_url() if url is None else url
        #: what makes the same app in another process; a clock and functions do not go there
        self._settings = {
            "url": self._url,
            "name": name,
            "schema": schema,
            "prefix": prefix,
            "id_type": id_type,
            "auto_migrate": auto_migrate,
            "synchronous": synchronous,
            "journal": journal,
            "pool_size": pool_size,
            "notify": notify,
            "notifier": notifier,
            "listen_url": listen_url,
            "pooled": pooled,
            "channel": channel,
            "payload_limit": payload_limit,
        }
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
            pooled=pooled,
        )
        if type(payload_limit) is not int or payload_limit < 1:
            raise InvalidOption("payload_limit", payload_limit, "must be a positive number of bytes")
        self.store: Store = open_store(self._url, config)
        self._config = config
        self._notify = notify
        self._notifier_url = None if notifier is None else checked_notifier(notifier)
        #: where to LISTEN; may be changed until the first worker or wait
        self.listen_url = listen_url or os.environ.get("HOLDFAST_LISTEN_URL") or None
        self._new_ids = new_ids
        self._ids = Ids(new_ids, checked_uuid if id_type == "uuid" else checked_id)
        self._registry = Registry(self, payload_limit, middleware, keep)
        self._schedules = AppSchedules(self.name)
        self._lifespan = lifespan
        self._on_error: list[OnError] = []
        self._on_dead: list[OnDead] = []
        self._listeners = Listeners()
        self._attendance = Attendance(self._surroundings)
        self._lock = threading.Lock()
        forget_after_fork(self)
        self._notifier: Notifier | None = None
        self._shared_client: Client | None = None
        self._async_clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = (
            weakref.WeakKeyDictionary()
        )

    def after_fork(self) -> None:
        """A lock that another thread held at the fork is held for ever in the child."""
        self._lock = threading.Lock()

    # --- registration -------------------------------------------------------------------------------------------------

    @overload
    def job(
        self, without_parentheses: None = None, /, *, batch: None = None, **options: Unpack[JobSettings]
    ) -> JobDecorator: ...
    @overload
    def job(
        self, without_parentheses: None = None, /, *, batch: int, **options: Unpack[JobSettings]
    ) -> BatchDecorator: ...
    def job(
        self, without_parentheses: None = None, /, *, batch: int | None = None, **options: Unpack[JobSettings]
    ) -> JobDecorator | BatchDecorator:
        """Register a function as a job type.

        - `name` (the function's): how its jobs are stored; must stay the same while jobs exist, or
        - `aliases` (none): names that it had before; jobs stored under them are run too.
        - `queue` ("default"), `priority` (0; smaller runs first), `retry` (`Retry()`).
        - `timeout` (none): how long one attempt may take.
        - `expires` (never): a job that has not been started this long after its enqueue is cancelled.
        - `dedup` (none): makes a deduplication key of a call's arguments, or None for a call without one.
        - `partition_key` (none): the key of all its jobs, or makes one of a call's arguments; jobs of one queue
          with the same key run one at a time. `ordering` ("fifo"): in the order of their enqueue, each waiting for
          every earlier one; or "serial": whichever is due. `shards` (one): over how many sub-keys a key is spread.
        - `concurrency_key` (none): likewise a key or what makes one; the queue's `key_concurrency` and `key_rate` go
          for each such key.
        - `executor` ("auto": async on the event loop, `def` in a thread): "process" runs the function in a process of
          its own, which is killed when its time is up; for work that keeps a core busy or may crash.
        - `keep` (the app's): how long its chains are kept once they have ended; a `Keep`, or a duration for those that
          completed.
        - `batch` (none): how many jobs one call takes at most; the function has one parameter, `Batch[T]`.
        - `middleware` (none): functions `(ctx, call_next)` around every attempt, inside those of the app; around a
          batch they get the batch, and those of the app stay out.
        """
        if without_parentheses is not None:
            raise InvalidJobType("write @app.job() with parentheses")
        checked = JobOptions(batch=batch, **options)

        def register(fn: Callable[..., Any]) -> JobHandle[Any, Any]:
            return self._registry.add(fn, checked)

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
        partition_key: Callable[..., str | None] | str | None = None,
        concurrency_key: Callable[..., str | None] | str | None = None,
        ordering: Ordering = "fifo",
        shards: int | None = None,
    ) -> JobHandle[..., R]:
        """A job type that this app enqueues and another one handles, under the same name.

        - `input` (no arguments): a mapping of names to types, or a class with typed fields (dataclass, TypedDict …).
        - `output` (anything): what its jobs return.
        - `queue`, `priority`, `timeout`, `expires`, `partition_key`, `concurrency_key`, `ordering`, `shards`: as for
          `job`; give those of the app that handles it.

            charge = app.declare("charge_card", input={"order_id": int}, output=str, queue="billing")
            client.enqueue(charge.call(order_id=9182))
        """
        fn = stand_in(checked_name("name", name), input, output)
        options = JobOptions(
            name=name,
            queue=queue,
            priority=priority,
            timeout=timeout,
            expires=expires,
            partition_key=partition_key,
            concurrency_key=concurrency_key,
            ordering=ordering,
            shards=shards,
        )
        return self._registry.declare(fn, options)

    def schedule(
        self,
        cron: str | None = None,
        *,
        every: Duration | None = None,
        name: str | None = None,
        arguments: Mapping[str, object] | None = None,
        **options: Unpack[RuleOptions],
    ) -> Callable[[H], H]:
        """Have a job enqueued again and again: by a cron expression, or at an interval. Stands above `@app.job()`.

        - `cron`: minute, hour, day of month, month and day of week, or six fields with the second first, or `@hourly`,
          `@daily`, `@weekly`, `@monthly`, `@yearly`; or
        - `every`: an interval of a second or more; its ticks are whole intervals since 1970 in UTC.
        - `name` (the job type's): its name in this app.
        - `arguments` (none): what the job is called with.
        - `timezone` ("UTC"): whose clocks a cron expression goes by. Entries with fixed hours run once on the days when
          these are changed, entries for every hour follow real time.
        - `catch_up` ("skip"): what becomes of ticks that are more than a minute late: nothing, "one" job for the latest
          of them, or a job for each: "all". `max_age` (none; a day for "all"): older ticks are not caught up.
        - `overlap` ("allow"): "skip" enqueues nothing while the schedule's last chain is unfinished.
        - `jitter` (none): jobs may run up to so much later than their tick, each by another part of it.

        A tick enqueues one job, whoever is alive; the first tick is the first after a worker with this code has
        started, or after `holdfast schedules sync`. A schedule that is changed or removed in code is changed or retired
        in the database once no worker that has it otherwise lives.

            @app.schedule("0 7 * * mon-fri", timezone="Europe/Vienna", catch_up="one")
            @app.job()
            def morning_report() -> None: ...
        """
        if callable(cron):
            raise InvalidOption("cron", cron, "write @app.schedule(…) with a cron expression or every=")
        rule = checked_rule(cron, every, options)
        if arguments is not None and not isinstance(arguments, Mapping):
            raise InvalidOption("arguments", arguments, "must map the names of the job's parameters to values")

        def register(handle: H) -> H:
            if not isinstance(handle, JobHandle):
                raise InvalidJobType(f"{handle!r} is not a job type; put @app.schedule(…) above @app.job(…)")
            if handle.app is not self:
                raise InvalidJobType(f"{handle.name} belongs to another app")
            call = handle.call(**(arguments or {}))
            self._schedules.add(checked_definition(handle.name if name is None else name, rule, call))
            return handle

        return register

    def on_error(self, hook: E) -> E:
        """Have a function called with `(job, exception)` after every failed attempt, in the worker that ran it.

        Hooks are for alerts: they are called soon, without holding up a job, and a crash may swallow a call. What must
        happen belongs into a job.
        """
        self._on_error.append(hook)
        return hook

    def on_dead(self, hook: D) -> D:
        """Have a function called with the job when it has become a dead letter, as `on_error` is."""
        self._on_dead.append(hook)
        return hook

    @overload
    def on_event(self, listener: L, /) -> L: ...
    @overload
    def on_event(self, kind: type[T1], /) -> Callable[[Callable[[T1], R]], Callable[[T1], R]]: ...
    @overload
    def on_event(
        self, kind: type[T1], kind2: type[T2], /
    ) -> Callable[[Callable[[T1 | T2], R]], Callable[[T1 | T2], R]]: ...
    @overload
    def on_event(
        self, kind: type[T1], kind2: type[T2], kind3: type[T3], /
    ) -> Callable[[Callable[[T1 | T2 | T3], R]], Callable[[T1 | T2 | T3], R]]: ...
    @overload
    def on_event(
        self, kind: type[T1], kind2: type[T2], kind3: type[T3], kind4: type[T4], /
    ) -> Callable[[Callable[[T1 | T2 | T3 | T4], R]], Callable[[T1 | T2 | T3 | T4], R]]: ...
    @overload
    def on_event(self, *kinds: type[Event]) -> Callable[[Callable[[Any], R]], Callable[[Any], R]]: ...
    def on_event(self, *what: Any) -> Any:
        """Have a function called with every event, or with those of some kinds, in the process where it happens.

        It is called at once, in the thread where it happens, a worker's event loop above all: so it must be quick, must
        not wait for anything, and may be called by several threads. What it raises is logged and harms nobody.

        An event tells of what is committed; a crash, or a commit whose answer is lost, may swallow one. What must
        happen belongs into a job.

            @app.on_event(JobFailed, JobDeadLettered)
            def count(event: JobFailed | JobDeadLettered) -> None:
                failures[event.type_name] += 1
        """
        if len(what) == 1 and not _is_event(what[0]):
            self._listeners.add(what[0], ())
            return what[0]
        if unknown := [kind for kind in what if not _is_event(kind)]:
            raise InvalidOption("kind", unknown[0], "must be Event or one of the classes below it")

        def register(listener: Callable[[Any], R]) -> Callable[[Any], R]:
            self._listeners.add(listener, what)
            return listener

        return register

    def adopt(self, other: App) -> None:
        """Take over every job type of another app, with its schedules, hooks, listeners and lifespan: for test kits."""
        self._registry.adopt(other._registry)
        for definition in other._schedules.definitions.values():
            self._schedules.add(definition)
        self._on_error += other._on_error
        self._on_dead += other._on_dead
        self._listeners.adopt(other._listeners)
        self._lifespan = self._lifespan or other._lifespan

    def call(self, type_name: str, /, *args: object, **kwargs: object) -> Call[Any]:
        """A call by the name of a registered job type, or one of its aliases."""
        job_type = self._registry.job_types.get(type_name)
        if job_type is None:
            raise UnknownJobType(type_name, tuple(self._registry.handles))
        return self._registry.handles[job_type.name].call(*args, **kwargs)

    @property
    def job_types(self) -> dict[str, JobHandle[Any, Any]]:
        """The registered job types by name."""
        return dict(self._registry.handles)

    # --- clients ------------------------------------------------------------------------------------------------------

    def client(self, *, notify: bool = True) -> Client:
        """A client for threads; close it, or use it as a context manager. Without `notify` it sends no hints."""
        return Client(
            self.store.sync(),
            self._hinter(is_wanted=notify),
            self._ids,
            self._registry.job_types,
            self._attendance,
            schedules=self._schedules,
            listeners=self._listeners,
        )

    def async_client(self, *, notify: bool = True) -> AsyncClient:
        """The same for one event loop; close it, or use it as an async context manager."""
        hinter = self._hinter(is_wanted=notify)
        return AsyncClient(
            self.store.asynchronous(),
            hinter,
            self._ids,
            self._registry.job_types,
            self._attendance,
            schedules=self._schedules,
            listeners=self._listeners,
        )

    def wake(self, *queues: str) -> None:
        """Tell workers that there is work in these queues.

        For jobs committed on a connection of the caller's that nobody sees commit, where Redis or NATS carry the hints.
        """
        self._get_notifier().hint([checked_name("queue", queue) for queue in queues])

    @property
    def shared_client(self) -> Client:
        """The client behind `job.enqueue(…)`: opened on first use, closed with the process."""
        refuse_while_importing()
        notifier = self._get_notifier()
        with self._lock:
            if self._shared_client is None:
                self._shared_client = Client(
                    self.store.sync(),
                    notifier,
                    self._ids,
                    self._registry.job_types,
                    self._attendance,
                    schedules=self._schedules,
                    listeners=self._listeners,
                )
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
            notifier, self._notifier = self._notifier, None
        if client is not None:
            client.close()
        if notifier is not None:
            notifier.close()

    async def aclose(self) -> None:
        """`close`, and the client that `aenqueue` opened on this event loop; idempotent."""
        client = self._async_clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()
        self.close()

    def _hinter(self, *, is_wanted: bool) -> Notifier | Silence:
        return self._get_notifier() if is_wanted else Silence()

    def _get_notifier(self) -> Notifier:
        with self._lock:
            if self._notifier is None:
                self._notifier = open_notifier(self._notifier_config()) if self._notify else PollingNotifier()
            return self._notifier

    def _notifier_config(self) -> NotifierConfig:
        return NotifierConfig(
            dialect=self.store.dialect,
            where=self._where,
            channel=self._config.channel,
            url=self._notifier_url,
            listen_url=self.listen_url,
            is_pooled=self._config.pooled,
        )

    def _surroundings(self) -> Surroundings:
        """Of those who wait for chains."""
        notifier = self._get_notifier()
        return Surroundings(self.store.asynchronous, notifier.open_chain_listener, notifier.chain_channel)

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
        has_schedules: bool = True,
    ) -> Worker:
        """A worker, not yet running; needs a running event loop.

        `store` and `waker` replace the app's in test kits. Without `has_schedules` it does not touch schedules.
        """
        from holdfast.stores.known import CODE_VERSION

        refuse_while_importing()
        notifier = self._get_notifier()
        return Worker(
            store or self.store,
            self._registry.handlers,
            config if self._notify else replace(config, is_notified=False),
            version=CODE_VERSION,
            waker=waker or (notifier if config.is_notified else PollingNotifier()).open_waker,
            async_client=self.async_client(),
            sync_client=self.client(),
            ids=self._ids,
            hints=Hints(notifier.hint, notifier.inner_channel),
            schedules=self._schedules if has_schedules else None,
            lifespan=self._make_lifespan(),
            listeners=self._listeners,
            on_error=self._on_error,
            on_dead=self._on_dead,
            # The path of a SQLite file is that of the moment in which the app was made, wherever the process is now.
            processes=ProcessPlan(command=_HANDLER_PROCESS, app=self._settings | {"url": self._absolute_url}),
        )

    def handler_kit(self) -> Kit:
        """What handlers in a process need of the app."""
        return Kit(
            handlers=self._registry.handlers,
            store=self.store,
            client=self.client,
            async_client=self.async_client,
            ids=self._ids,
            channel=self._get_notifier().inner_channel,
            on_error=self._on_error,
            lifespan=self._make_lifespan(),
        )

    @classmethod
    def like(cls, other: App, settings: Mapping[str, Any]) -> App:
        """An app with other settings and the job types of another."""
        app = cls(**settings, new_ids=other._new_ids)
        app.adopt(other)
        return app

    @property
    def _absolute_url(self) -> str:
        return self._url if self.store.dialect == "postgres" else self.store.url

    def _make_lifespan(self) -> Lifespan:
        lifespan = self._lifespan
        return Lifespan(None if lifespan is None else lambda: lifespan(self))

    @asynccontextmanager
    async def worker(
        self, *, config: WorkerConfig | None = None, **settings: Unpack[WorkerSettings]
    ) -> AsyncIterator[Worker]:
        """A worker in this process, for as long as the block runs; settings as of `WorkerConfig`."""
        worker = self.make_worker(with_settings(config or WorkerConfig(), settings))
        task = asyncio.create_task(worker.run(), name="holdfast-worker")
        started = asyncio.create_task(worker.started.wait())
        try:
            await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                await task
            yield worker
        finally:
            started.cancel()
            worker.stop()
            await task

    def drain(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        waits_for_dead: bool = True,
    ) -> Drained:
        """Run everything that is due, and what becomes due by that, and return what became of it.

        - `queues` (those of the app's job types), `concurrency`: as for a worker.
        - `timeout` (none): after this a TimeoutError says how far it came; handlers are stopped, their jobs go back.
        - `waits_for_dead` (yes): jobs of a worker that died are waited for until they can be taken back, some 20 s.

        Jobs that handlers enqueue, continuations and jobs that get unblocked are run too, by a worker of the kind that
        serves all day; jobs past their `expires` are cancelled. Jobs with a future time, retries among them, are not
        waited for. Inside an event loop use `await app.adrain()`.

            print(app.drain().completed)
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            coroutine = self.adrain(
                queues=queues, concurrency=concurrency, timeout=timeout, waits_for_dead=waits_for_dead
            )
            return asyncio.run(coroutine)
        raise RuntimeError("app.drain() cannot run inside an event loop; use: await app.adrain()")

    async def adrain(
        self,
        *,
        queues: Sequence[str] | None = None,
        concurrency: int | None = None,
        timeout: Duration | None = None,
        waits_for_dead: bool = True,
    ) -> Drained:
        """`drain` for async code."""
        handlers = self._registry.handlers.values()
        return await drain(
            self,
            handlers,
            queues=queues,
            concurrency=concurrency,
            timeout=timeout,
            waits_for_dead=waits_for_dead,
            listeners=self._listeners,
        )

    def run_worker(self, config: WorkerConfig | None = None, **settings: Unpack[WorkerSettings]) -> int:
        """Run a worker until SIGTERM or SIGINT, or a limit of its settings; a second signal stops at once.

        Settings are those of `WorkerConfig`; returns the exit code that `holdfast worker` would end with.
        """
        from holdfast.worker.process import run_until_signalled

        config = with_settings(config or WorkerConfig(), settings)
        self.check_purpose(config)
        atexit.register(self.close)
        return run_until_signalled(lambda: self.make_worker(config), say_farewell=self.close)

    def check_purpose(self, config: WorkerConfig) -> None:
        """Raise `WorkerCannotWork` if a worker with these settings would never have anything to do."""
        refuse_purposeless(self._registry.handlers.values(), config.queues, self.client)


def _is_event(what: object) -> bool:
    return isinstance(what, type) and issubclass(what, Event)


def _default_url() -> str:
    if url := os.environ.get("HOLDFAST_URL"):
        return url
    path = Path("holdfast.db").absolute()
    sys.stderr.write(f"holdfast: no URL given, using {path}\n")
    return f"sqlite:///{path}"
