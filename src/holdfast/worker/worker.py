"""The worker: its parts put together, and its life from registration to a graceful end."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from holdfast.errors import DatabaseUnavailable, HoldfastError, SerializationConflict
from holdfast.model.identifiers import checked_name
from holdfast.model.ids import Ids
from holdfast.notify import Waker
from holdfast.operations.register_types import register_types
from holdfast.operations.release_jobs import release_orphans
from holdfast.operations.worker_life import WorkerIdentity, register_worker, retire_worker
from holdfast.stores import Store
from holdfast.worker.backoff import Backoff
from holdfast.worker.buffer import Buffer
from holdfast.worker.config import WorkerConfig
from holdfast.worker.demand import Demand
from holdfast.worker.equipment import Equipment, Hints
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.handler import Handler
from holdfast.worker.journal import Journal
from holdfast.worker.leases import LeaseKeeper
from holdfast.worker.maintenance.expirer import Expirer
from holdfast.worker.maintenance.reaper import Reaper
from holdfast.worker.maintenance.service import ServiceLoop
from holdfast.worker.maintenance.unblocker import Unblocker
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.slots import Slots

_log = logging.getLogger("holdfast.worker")

_DEFAULT_ASYNC = 100
_DEFAULT_THREADS = 20
_START_PATIENCE = 30.0
#: how long cancelled handlers have to clean up, and the last outcomes to be written
_GRACE = 10.0
_HURRIED_GRACE = 1.0
_RETIRE_SECONDS = 5.0


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
    ) -> None:
        self.id = new_worker_id()
        self.config = config
        self.queues = sorted(
            set(config.queues or {handler.job_type.queue for handler in handlers.values()} or {"default"})
        )
        for queue in self.queues:
            checked_name("queue", queue)
        self._served = frozenset(self.queues)
        has_threads = any(not handler.is_async for handler in handlers.values())
        self.concurrency = config.concurrency or (_DEFAULT_THREADS if has_threads else _DEFAULT_ASYNC)
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
            },
        )
        self._outcomes = Outcomes(self._store, self.id, config.batch)
        self._is_registered = False
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def finished(self) -> int:
        """How many outcomes of this worker are in the database."""
        return self._outcomes.finished

    def stop(self) -> None:
        """Ask for a graceful end; asked twice, for an immediate one."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped; raises if a part of the engine fails."""
        try:
            if await self._registered():
                await self._work()
            elif self._is_registered:
                await self._retire()
        finally:
            await self._waker.close()
            await self._store.close()
            self._lease_store.close()
            self._thread_store.close()
            await self._async_client.close()
            self._sync_client.close()

    async def _registered(self) -> bool:
        """Whether registration came before a request to stop."""
        registering = asyncio.create_task(self._register())
        stopping = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([registering, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not registering.done():
            await _cancel([registering])
            return False
        await registering
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
                await self._store.run(lambda: register_types(types.values()))
                await self._store.run(lambda: register_worker(self._identity))
                self._is_registered = True
            except (DatabaseUnavailable, SerializationConflict) as error:
                if time.monotonic() > give_up:
                    raise
                _log.warning("cannot start yet: %s; again in %.1f s", error, backoff.seconds)
                await backoff.wait()
            else:
                return

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        waker = self._waker
        waker.start()
        journal = Journal(self._store)
        self._outcomes.woken = self._tell_of_work
        self._outcomes.returned = waker.poke
        buffer = Buffer(self.config.batch)
        demand = Demand()
        slots = Slots(
            self.id,
            self._handlers,
            self.concurrency,
            buffer=buffer,
            outcomes=self._outcomes,
            demand=demand,
            equipment=(
                Equipment(self._async_client, self._store, journal, self._ids, self._hints),
                Equipment(self._sync_client, self._thread_store, journal, self._ids, self._hints),
            ),
        )
        fetcher = Fetcher(
            self._store, self.id, self.queues, self.config, buffer=buffer, slots=slots, demand=demand, waker=waker
        )

        def tell(callback: Callable[..., None], *args: object) -> None:
            with suppress(RuntimeError):  # the loop has closed: nobody is left to tell
                loop.call_soon_threadsafe(callback, *args)

        keeper = LeaseKeeper(
            self._lease_store,
            self._identity,
            self.config,
            leases=slots.leases,
            has_news=lambda: waker.has_lease_news(self.id),
            lost=lambda losses: tell(slots.lose, losses),
            asked_to_stop=lambda leases: tell(slots.ask_to_stop, leases),
            silent=lambda: tell(slots.fall_silent),
            heard=lambda: tell(slots.be_heard),
        )
        reaper = Reaper(
            self._store,
            self.id,
            self.config.dead_after,
            self.config.heartbeat / 2,
            is_steady=lambda: keeper.is_steady,
            returned=waker.poke,
        )
        keeper.start()
        flushing = asyncio.create_task(self._outcomes.run(), name="holdfast-outcomes")
        fetching = asyncio.create_task(fetcher.run(), name="holdfast-fetcher")
        reaping = asyncio.create_task(ServiceLoop(reaper).run(), name="holdfast-reaper")
        expirer = Expirer(self._store, self.config.poll, self._tell_of_work)
        expiring = asyncio.create_task(ServiceLoop(expirer).run(), name="holdfast-expirer")
        unblocker = Unblocker(self._store, self._tell_of_work)
        unblocking = asyncio.create_task(ServiceLoop(unblocker).run(), name="holdfast-unblocker")
        logging_ = asyncio.create_task(journal.run(), name="holdfast-journal")
        stopping = asyncio.create_task(self._stopping.wait(), name="holdfast-stop")
        engine = [flushing, fetching, reaping, expiring, unblocking, logging_]
        self.started.set()
        try:
            await asyncio.wait([*engine, stopping], return_when=asyncio.FIRST_COMPLETED)
            keeper.is_draining = True
            await self._finish(slots, fetcher, fetching, waker)
            with suppress(TimeoutError):
                async with asyncio.timeout(_HURRIED_GRACE):
                    await journal.drained()
        finally:
            await _cancel([*engine, stopping])
            # Only if this task was cancelled or failed is there still something to stop.
            await slots.release_all(_HURRIED_GRACE)
            keeper.close()
            await self._retire()
        for task in engine:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _tell_of_work(self, queues: Iterable[str]) -> None:
        """What was written has given somebody something to do."""
        self._hints.send(queues)
        if not self._served.isdisjoint(queues):
            self._waker.poke()

    async def _finish(self, slots: Slots, fetcher: Fetcher, fetching: asyncio.Task[None], waker: Waker) -> None:
        """No new claims; what is not started goes back; what runs may finish until the deadline, then is released."""
        deadline = time.monotonic() + self.config.stop_deadline.total_seconds()
        fetcher.stop()
        waker.poke()
        # A claim under way is heard out, so that its jobs are known and can be given back.
        await asyncio.wait([fetching], timeout=_HURRIED_GRACE)
        await _cancel([fetching])
        await slots.finish(deadline, self._hurry)
        grace = _HURRIED_GRACE if self._hurry.is_set() else _GRACE
        await slots.release_all(grace)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._outcomes.drained()

    async def _retire(self) -> None:
        """Last act: whatever the database still thinks is ours goes back, and we are gone in good order."""
        try:
            async with asyncio.timeout(_RETIRE_SECONDS):
                await self._store.run(lambda: release_orphans(self.id, ()))
                await self._store.run(lambda: retire_worker(self.id))
        except (HoldfastError, TimeoutError) as error:
            _log.error(
                "could not give everything back (%s: %s); others will take it for a crash when the lease has run out",
                type(error).__name__,
                error,
            )


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
