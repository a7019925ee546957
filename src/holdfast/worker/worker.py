"""The worker: its life from registration to a graceful end. What works in between is the engine."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from holdfast.errors import DatabaseRestored, DatabaseUnavailable, HoldfastError, SerializationConflict, StoreError
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import Ids
from holdfast.model.schedule import AppSchedules
from holdfast.notify import Waker
from holdfast.operations.check_origin import Origin, check_origin
from holdfast.operations.notify_work import notify_work
from holdfast.operations.register_types import register_types
from holdfast.operations.release_jobs import Orphans, release_orphans
from holdfast.operations.statement import Operation
from holdfast.operations.sync_schedules import sync_schedules
from holdfast.operations.worker_life import WorkerIdentity, register_worker, retire_worker
from holdfast.stores import Store
from holdfast.telemetry import Listeners, WorkerStarted, WorkerStopped
from holdfast.worker.backoff import Backoff
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.config import WorkerConfig
from holdfast.worker.engine import Engine, Supplies
from holdfast.worker.equipment import Hints
from holdfast.worker.executors.process_line import ProcessPlan
from holdfast.worker.handler import Handler, Place
from holdfast.worker.health import serve_health
from holdfast.worker.hooks import Hooks, OnDead, OnError
from holdfast.worker.lifespan import Lifespan
from holdfast.worker.limits import Limit
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.telling import released
from holdfast.worker.vitals import Vitals, worker_vitals

_log = logging.getLogger("holdfast.worker")

_DEFAULT_SLOTS = {Place.LOOP: 100, Place.THREAD: 20, Place.PROCESS: os.cpu_count() or 1}
_START_PATIENCE = 30.0
_RETIRE_SECONDS = 5.0
_HURRIED_GRACE = 1.0
_NOT_GIVEN_BACK = "could not give everything back (%s: %s); others will take it for a crash when the lease has run out"


class Closable(Protocol):
    """The sync client, as far as the worker cares: handlers get it, and it is closed in the end."""

    def close(self) -> None: ...


class AsyncClosable(Protocol):
    """The async client likewise."""

    async def close(self) -> None: ...


def new_worker_id() -> str:
    """Host, process and a random part: unique, and readable in a list."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{secrets.token_hex(3)}"


class Worker:
    """Runs the jobs of some queues until it is told to stop."""

    def __init__(
        self,
        store: Store,
        handlers: Mapping[str, Handler],
        config: WorkerConfig,
        *,
        version: str,
        waker: Callable[[Sequence[str]], Waker],
        async_client: AsyncClosable,
        sync_client: Closable,
        ids: Ids,
        hints: Hints,
        schedules: AppSchedules | None,
        lifespan: Lifespan,
        listeners: Listeners,
        on_error: Sequence[OnError],
        on_dead: Sequence[OnDead],
        processes: ProcessPlan,
    ) -> None:
        self.id = new_worker_id()
        self.config = config
        self.queues = sorted(
            set(config.queues or {handler.job_type.queue for handler in handlers.values()} or {"default"})
        )
        for queue in self.queues:
            checked_name("queue", queue)
        defaults = [_DEFAULT_SLOTS[handler.place] for handler in handlers.values()]
        self.concurrency = config.concurrency or min(defaults, default=_DEFAULT_SLOTS[Place.LOOP])
        #: set once it is registered and claims jobs
        self.started = asyncio.Event()
        self._handlers = handlers
        self._async_client = async_client
        self._sync_client = sync_client
        self._store = PatientStore(store.asynchronous(), config.dead_after)
        self._lease_store = store.sync()
        #: for handlers in threads, opened when one of them needs it
        self._thread_store = store.sync()
        self._ids = ids
        self._hints = hints
        self._schedules = schedules
        self._lifespan = lifespan
        self._listeners = listeners
        self._hooks = Hooks(on_error, on_dead, self._store)
        self._processes = processes
        self._waker = waker(self.queues)
        self._identity = WorkerIdentity(
            id=self.id,
            version=version,
            queues=self.queues,
            metadata={
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "concurrency": self.concurrency,
                "lease_channel": self._waker.lease_channel,
                "affinity": config.affinity,
                "types": sorted(handlers),
                "app": None if schedules is None else schedules.app,
                "schedules": None if schedules is None else schedules.digests,
                "forbidden_flags": None if callable(config.forbidden_flags) else sorted(config.forbidden_flags),
            },
        )
        #: whether it waits because the database was restored from a backup, or copied
        self.is_paused = False
        self._engine: Engine | None = None
        self._is_registered = False
        self._is_lifespan_stuck = False
        #: set if it ended by itself
        self.reached: Limit | None = None
        self._is_asked_to_stop = False
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def finished(self) -> int:
        """How many outcomes of this worker are in the database."""
        return 0 if self._engine is None else self._engine.outcomes.finished

    @property
    def dead_letters(self) -> int:
        """How many jobs became dead letters by what this worker wrote."""
        return 0 if self._engine is None else self._engine.dead_letters

    @property
    def stuck(self) -> int:
        """How many handlers, or lifespans, did not come to an end; the jobs are back, so the process should go."""
        return int(self._is_lifespan_stuck) + (0 if self._engine is None else len(self._engine.slots.stuck))

    @property
    def is_leader(self) -> bool:
        """Whether this worker runs the services of which a database needs one."""
        return self._engine is not None and self._engine.housekeeping.leader.is_leading

    def stop(self) -> None:
        """Ask for a graceful end; asked twice, for an immediate one."""
        if self._is_asked_to_stop:
            self._hurry.set()
        self._is_asked_to_stop = True
        self._stopping.set()

    @property
    def vitals(self) -> Vitals:
        """How it is now."""
        return worker_vitals(
            self.id,
            is_started=self.started.is_set(),
            is_paused=self.is_paused,
            is_stopping=self._stopping.is_set(),
            is_heard=self._engine is None
            or self._engine.keeper.silent_seconds <= self.config.dead_after.total_seconds(),
            is_leader=self.is_leader,
        )

    async def run(self) -> None:
        """Work until stopped; raises if a part of the engine fails."""
        try:
            async with serve_health(self.config.health_host, self.config.health_port, lambda: self.vitals):
                # Before anybody knows of this worker: it may take its time, and beats no heart yet.
                opening = asyncio.create_task(self._lifespan.open())
                if await self._before_stop(opening) and await self._before_stop(asyncio.create_task(self._register())):
                    await self._work(opening.result())
        finally:
            await self._leave()

    async def _leave(self) -> None:
        """What the database still thinks is ours goes back last: until then nobody starts it beside a stuck thread."""
        try:
            await self._close_lifespan()
        finally:
            await self._waker.close()
            self._thread_store.close()
            await self._async_client.close()
            self._sync_client.close()
            # Until now: whatever took its time above, nobody took us for dead.
            if self._engine is not None:
                self._engine.keeper.close()
            self._lease_store.close()
            if self._is_registered:
                await self._retire()
            await self._store.close()
            if self._engine is not None:
                self._listeners.tell([WorkerStopped(self.id)])

    async def _close_lifespan(self) -> None:
        """In its own time, unless somebody is in a hurry."""
        closing, hurried = asyncio.create_task(self._lifespan.close()), asyncio.create_task(self._hurry.wait())
        await asyncio.wait([closing, hurried], return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not closing.done():
            await cancel_tasks([closing])
            self._is_lifespan_stuck = not await self._lifespan.abandon(_HURRIED_GRACE)
            return
        await closing

    async def _before_stop(self, task: asyncio.Task[Any]) -> bool:
        """Whether this came before a request to stop; if not, it is cancelled."""
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not task.done():
            await cancel_tasks([task], _HURRIED_GRACE)
            self._is_lifespan_stuck = not await self._lifespan.abandon(_HURRIED_GRACE)
            return False
        await task
        return not self._stopping.is_set()

    async def _register(self) -> None:
        """A worker may be started a little before its database: it waits, and says so."""
        # An alias is another name for a type, not another type.
        types = {handler.job_type.name: handler.job_type for handler in self._handlers.values()}
        backoff = Backoff()
        give_up = time.monotonic() + _START_PATIENCE
        while True:
            try:
                await self._store.ensure_ready()
                await self._until_it_is_ours()
                await self._store.run(lambda: register_types(types.values()))
                self._is_registered = True  # perhaps: a stop may come while the answer is on its way
                await self._store.run(lambda: register_worker(self._identity))
                await self._sync_schedules()
            except (DatabaseUnavailable, SerializationConflict) as error:
                if time.monotonic() > give_up:
                    raise
                _log.warning("cannot start yet: %s; again in %.1f s", error, backoff.seconds)
                await backoff.wait()
            else:
                return

    async def _until_it_is_ours(self) -> None:
        """In a restored backup or a copy nothing is touched until somebody says so: all may have been done before."""
        while (origin := await self._origin()) is not None and not origin.is_ours:
            restored = DatabaseRestored(origin.found, origin.recorded or "")
            if self.config.until_idle:
                raise restored
            if not self.is_paused:
                _log.error("the worker is paused: %s", restored)
            self.is_paused = True
            await asyncio.sleep(self.config.poll.total_seconds())
        if self.is_paused:
            _log.warning("the database was accepted; the worker starts")
        self.is_paused = False

    async def _origin(self) -> Origin | None:
        """None where the database does not say where it lies: some hosts forbid that."""
        try:
            return await self._store.run(lambda: check_origin(self._store.place, self.config.dead_after))
        except (DatabaseUnavailable, SerializationConflict):
            raise
        except StoreError as error:
            _log.info("cannot tell whether the database is a restored one: %s", error)
            return None

    async def _sync_schedules(self) -> None:
        """Once registered: others see what this worker's code has. What must wait for them is done later."""
        if (schedules := self._schedules) is not None:
            await self._store.run(lambda: sync_schedules(schedules.app, schedules.definitions.values(), self.id))

    async def _work(self, state: Any) -> None:
        engine = self._engine = Engine(
            self._identity,
            self._handlers,
            self.concurrency,
            self.config,
            Supplies(
                store=self._store,
                lease_store=self._lease_store,
                thread_store=self._thread_store,
                async_client=self._async_client,
                sync_client=self._sync_client,
                ids=self._ids,
                hints=self._hints,
                waker=self._waker,
                processes=self._processes,
                hooks=self._hooks,
                listeners=self._listeners,
                schedules=self._schedules,
                state=state,
            ),
        )
        engine.start()
        self._listeners.tell([WorkerStarted(self.id, tuple(self.queues), self.concurrency)])
        self.started.set()
        try:
            self.reached = await engine.until(self._stopping)
            if self.reached is not None:
                _log.info("the worker stops: %s", self.reached)
            self._stopping.set()
            await engine.finish(self._hurry)
        finally:
            await engine.close()

    async def _retire(self) -> None:
        """Last act: whatever the database still thinks is ours goes back, and we are gone in good order."""
        try:
            async with asyncio.timeout(_RETIRE_SECONDS):
                self._tell_of_orphans(await self._store.run(self._give_back))
                await self._store.run(lambda: retire_worker(self.id))
        except (HoldfastError, TimeoutError) as error:
            _log.error(_NOT_GIVEN_BACK, type(error).__name__, error)

    def abandon(self) -> None:
        """The same from another thread, where the event loop is blocked; the caller ends the process after it."""
        if not self._is_registered:
            return
        try:
            self._tell_of_orphans(self._lease_store.run(self._give_back))
            self._lease_store.run(lambda: retire_worker(self.id))
        except HoldfastError as error:
            _log.error(_NOT_GIVEN_BACK, type(error).__name__, error)

    def _give_back(self) -> Operation[Orphans]:
        orphans = yield from release_orphans(self.id, ())
        if orphans.woken and self._hints.channel is not None:
            # Here, for the process may end as soon as this is done: who is idle need not wait for its next look.
            yield from notify_work(self._hints.channel, orphans.woken, is_alone=True)
        return orphans

    def _tell_of_orphans(self, orphans: Orphans) -> None:
        if orphans.woken and self._hints.channel is None:
            self._hints.send(orphans.woken)
        if self._engine is not None and self._listeners.heard:
            self._listeners.tell(released(self._engine.slots.stuck, orphans))
