"""The worker: slots, and the life from registration to a graceful end."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from holdfast.errors import DatabaseUnavailable, HoldfastError, JobTimeout, SerializationConflict, UnknownJobType
from holdfast.model.identifiers import checked_name
from holdfast.notify import Waker
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease
from holdfast.operations.register_types import register_types
from holdfast.operations.worker_life import WorkerIdentity, register_worker, retire_worker
from holdfast.stores import Store
from holdfast.worker.attempt import Attempt, Ending
from holdfast.worker.backoff import Backoff
from holdfast.worker.buffer import Buffer
from holdfast.worker.config import WorkerConfig
from holdfast.worker.context import Cancellation, Context, SyncContext
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.handler import Handler
from holdfast.worker.leases import LeaseKeeper
from holdfast.worker.maintenance.reaper import Reaper
from holdfast.worker.maintenance.service import ServiceLoop
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.threads import ThreadRunner

_log = logging.getLogger("holdfast.worker")

_DEFAULT_ASYNC = 100
_DEFAULT_THREADS = 20
#: outcomes that may wait to be written before no more jobs are started
_UNWRITTEN_LIMIT = 5_000
_START_PATIENCE = 30.0
#: how long cancelled handlers have to clean up, and the last outcomes to be written
_CANCEL_GRACE = 10.0
_HURRIED_GRACE = 1.0


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
    ) -> None:
        self.id = new_worker_id()
        self.config = config
        self._handlers = handlers
        self._async_client = async_client
        self._sync_client = sync_client
        self.queues = sorted(
            set(config.queues or {handler.job_type.queue for handler in handlers.values()} or {"default"})
        )
        for queue in self.queues:
            checked_name("queue", queue)
        has_threads = any(not handler.is_async for handler in handlers.values())
        self.concurrency = config.concurrency or (_DEFAULT_THREADS if has_threads else _DEFAULT_ASYNC)
        self._store = store.asynchronous()
        self._lease_store = store.sync()
        self._identity = WorkerIdentity(
            id=self.id,
            version=version,
            queues=self.queues,
            metadata={"host": socket.gethostname(), "pid": os.getpid(), "concurrency": self.concurrency},
        )
        self._make_waker = waker
        #: set once it is registered and claims jobs
        self.started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()
        self._attempts: dict[str, Attempt] = {}
        self._unwritten: dict[str, Lease] = {}
        self._buffer = Buffer(config.batch)
        self._occupied = 0
        self._is_exclusive = False
        self._emptied = asyncio.Event()
        self._is_silenced = False

    # --- life ---------------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Ask for a graceful end; asked twice, for an immediate one."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def run(self) -> None:
        """Work until stopped; raises if a part of the engine fails."""
        self._loop = asyncio.get_running_loop()
        await self._register()
        waker = self._make_waker(self.queues)
        self._outcomes = Outcomes(self._store, self.id, self.config.batch, self._written)
        self._threads = ThreadRunner(self.concurrency, self._thread_done)
        self._fetcher = Fetcher(
            self._store, self.id, self.queues, self.config, buffer=self._buffer, slots=self, waker=waker
        )
        self._keeper = LeaseKeeper(
            self._lease_store,
            self._identity,
            self.config,
            leases=self._leases,
            lost=lambda ids: self._from_thread(self._lost, ids),
            silent=lambda: self._from_thread(self._silenced),
            heard=lambda: self._from_thread(self._heard),
        )
        self._keeper.start()
        reaper = Reaper(
            self._store, self.id, self.config.dead_after, self.config.heartbeat, lambda: self._keeper.recovered_at
        )
        flushing = asyncio.create_task(self._outcomes.run(), name="holdfast-outcomes")
        working = [
            asyncio.create_task(self._fetcher.run(), name="holdfast-fetcher"),
            asyncio.create_task(ServiceLoop(reaper).run(), name="holdfast-reaper"),
        ]
        stopping = asyncio.create_task(self._stopping.wait(), name="holdfast-stop")
        self.started.set()
        try:
            await asyncio.wait([*working, flushing, stopping], return_when=asyncio.FIRST_COMPLETED)
            self._keeper.is_draining = True
            await _cancel(working)
            await self._finish(flushing)
        finally:
            await _cancel([*working, flushing, stopping])
            await waker.close()
            self._keeper.close()
            self._threads.close()
            with suppress(HoldfastError, TimeoutError):
                async with asyncio.timeout(5):
                    await self._store.run(lambda: retire_worker(self.id))
            await self._store.close()
            self._lease_store.close()
            await self._async_client.close()
            self._sync_client.close()
        for task in (*working, flushing):
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    async def _register(self) -> None:
        """A worker may be started a little before its database: it waits, and says so."""
        types = [handler.job_type for handler in self._handlers.values()]
        backoff = Backoff()
        give_up = time.monotonic() + _START_PATIENCE
        while True:
            try:
                await self._store.ensure_ready()
                await self._store.run(lambda: register_types(types))
                await self._store.run(lambda: register_worker(self._identity))
            except (DatabaseUnavailable, SerializationConflict) as error:
                if time.monotonic() > give_up:
                    raise
                _log.warning("cannot start yet: %s; again in %.1f s", error, backoff.seconds)
                await backoff.wait()
            else:
                return

    async def _finish(self, flushing: asyncio.Task[None]) -> None:
        """No new claims; what is not started goes back; what runs may finish until the deadline, then is released."""
        self.give_back(self._buffer.clear())
        deadline = time.monotonic() + self.config.stop_deadline.total_seconds()
        hurry = asyncio.create_task(self._hurry.wait())
        while self._attempts and not self._hurry.is_set() and (left := deadline - time.monotonic()) > 0:
            self._emptied.clear()
            waiting = asyncio.create_task(self._emptied.wait())
            await asyncio.wait([waiting, hurry, flushing], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if flushing.done():
                break
        hurry.cancel()
        for attempt in list(self._attempts.values()):
            self._abort(attempt, Cancellation.STOPPING)
        if tasks := [attempt.task for attempt in self._attempts.values() if attempt.task is not None]:
            await asyncio.wait(tasks, timeout=_HURRIED_GRACE if self._hurry.is_set() else _CANCEL_GRACE)
        # Last act: threads that never came back, and tasks that swallowed their cancellation.
        for attempt in list(self._attempts.values()):
            self._end(attempt, attempt.lease)
        if not flushing.done():
            with suppress(TimeoutError):
                async with asyncio.timeout(_CANCEL_GRACE):
                    await self._outcomes.drained()

    # --- slots (what the fetcher sees) --------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        return 0 if self._is_exclusive else self.concurrency - self._occupied

    @property
    def finished(self) -> int:
        return self._outcomes.finished

    @property
    def may_claim(self) -> bool:
        return not self._is_silenced and len(self._outcomes) < _UNWRITTEN_LIMIT

    def fill(self) -> None:
        ready = self._buffer.ready
        while ready and self._occupied < self.concurrency and not self._is_exclusive:
            self._start(ready.popleft())

    def start_alone(self, job: ClaimedJob) -> None:
        self._is_exclusive = True
        self._start(job)

    def give_back(self, jobs: Sequence[ClaimedJob]) -> None:
        for job in jobs:
            self._settle(job, Lease(job.id, job.lease_generation))

    async def wait_empty(self, patience: float) -> None:
        self._is_exclusive = True
        deadline = time.monotonic() + patience
        while self._attempts and (left := deadline - time.monotonic()) > 0:
            self._emptied.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._emptied.wait()
        self._is_exclusive = False

    def known_ids(self) -> list[str]:
        return [lease.id for lease in self._leases()]

    # --- attempts -----------------------------------------------------------------------------------------------------

    def _start(self, job: ClaimedJob) -> None:
        handler = self._handlers.get(job.type_name)
        attempt = Attempt(job, handler, self.id)
        self._attempts[job.id] = attempt
        self._occupied += 1
        if handler is None:
            self._occupied -= 1
            self._end(attempt, attempt.failure(UnknownJobType(job.type_name, tuple(self._handlers))))
            return
        if job.timeout_ms is not None:
            attempt.timer = self._loop.call_later(job.timeout_ms / 1000, self._time_out, attempt)
        if handler.is_async:
            attempt.task = self._loop.create_task(self._run_async(attempt, handler))
        else:
            self._threads.start(attempt, lambda: self._call(attempt, handler))

    async def _run_async(self, attempt: Attempt, handler: Handler) -> None:
        ending: Ending
        try:
            signature = handler.job_type.signature
            arguments = signature.decode(attempt.job.input)
            if signature.wants_context:
                output = await handler.function(Context(attempt, self._async_client), **arguments)
            else:
                output = await handler.function(**arguments)
            ending = attempt.completion(output)
        except asyncio.CancelledError as error:
            ending = attempt.ending_of_cancelled(self._cause(attempt, error))
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler fails the job, not the worker
            ending = attempt.failure(error)
        attempt.task = None
        self._end(attempt, ending)
        self._free_slot()

    def _call(self, attempt: Attempt, handler: Handler) -> Any:
        """In a pool thread; the outcome is encoded there too."""
        signature = handler.job_type.signature
        arguments = signature.decode(attempt.job.input)
        if signature.wants_context:
            return attempt.completion(handler.function(SyncContext(attempt, self._sync_client), **arguments))
        return attempt.completion(handler.function(**arguments))

    def _thread_done(self, attempt: Attempt, ending: Any, error: BaseException | None) -> None:
        self._end(attempt, ending if error is None else attempt.failure(error))
        self._free_slot()

    def _cause(self, attempt: Attempt, error: BaseException) -> BaseException:
        if attempt.cancelled is Cancellation.TIMEOUT:
            return JobTimeout((attempt.job.timeout_ms or 0) / 1000)
        return error

    def _time_out(self, attempt: Attempt) -> None:
        attempt.cancelled = Cancellation.TIMEOUT
        if attempt.task is not None:
            attempt.task.cancel()
        else:
            # A thread cannot be stopped: it keeps its slot, and the fence shuts out whatever it does later.
            self._end(attempt, attempt.failure(self._cause(attempt, TimeoutError())))

    def _abort(self, attempt: Attempt, reason: Cancellation) -> None:
        attempt.cancelled = reason
        if attempt.task is not None:
            attempt.task.cancel()

    def _free_slot(self) -> None:
        self._occupied -= 1
        self.fill()
        if len(self._buffer.ready) <= self._buffer.appetite // 2:
            self._fetcher.room()

    def _end(self, attempt: Attempt, ending: Ending) -> None:
        """An attempt ends once, however many ways it could."""
        if attempt.is_over:
            return
        attempt.is_over = True
        if attempt.timer is not None:
            attempt.timer.cancel()
        del self._attempts[attempt.job.id]
        if not self._attempts:
            self._emptied.set()
        if ending is None:
            self._fetcher.doubt()
        else:
            self._settle(attempt.job, ending)

    def _settle(self, job: ClaimedJob, ending: Ending) -> None:
        assert ending is not None  # noqa: S101 - callers have checked
        self._unwritten[job.id] = Lease(job.id, job.lease_generation)
        self._outcomes.add(ending)

    def _written(self, job_id: str) -> None:
        self._unwritten.pop(job_id, None)

    # --- leases -------------------------------------------------------------------------------------------------------

    def _leases(self) -> list[Lease]:
        """Everything held: running, waiting and not yet written. Called from the keeper's thread."""
        held = [attempt.lease for attempt in list(self._attempts.values())]
        waiting = [Lease(job.id, job.lease_generation) for job in self._buffer]
        return held + waiting + list(self._unwritten.values())

    def _lost(self, ids: set[str]) -> None:
        for job_id in ids:
            if (attempt := self._attempts.get(job_id)) is not None:
                _log.warning("job %s: lease lost", job_id)
                self._abort(attempt, Cancellation.LEASE_LOST)
        for job in list(self._buffer.ready):
            if job.id in ids:
                self._buffer.ready.remove(job)
        self._buffer.reserve = [job for job in self._buffer.reserve if job.id not in ids]

    def _silenced(self) -> None:
        """Nobody acknowledges our heartbeats: others will take our jobs, so we let go of them first."""
        _log.error("no heartbeat was acknowledged for too long: the jobs of this worker are given up")
        self._is_silenced = True
        self._buffer.clear()
        for attempt in list(self._attempts.values()):
            self._abort(attempt, Cancellation.LEASE_LOST)

    def _heard(self) -> None:
        _log.info("heartbeats are acknowledged again")
        self._is_silenced = False
        self._fetcher.doubt()

    def _from_thread(self, callback: Callable[..., None], *args: object) -> None:
        with suppress(RuntimeError):  # the loop has closed: nobody is left to tell
            self._loop.call_soon_threadsafe(callback, *args)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
