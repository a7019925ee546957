"""Outcomes on their way to the database: flushed in batches, as soon as no flush is in flight.

An idle worker's completion leaves at once; a busy one's share a statement.  Whatever cannot be written stays here and
is sent again: the fence makes that harmless.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from holdfast.errors import DatabaseUnavailable, SerializationConflict, StoreError
from holdfast.model.clock import milliseconds
from holdfast.model.job import JobError
from holdfast.model.retry import Retry
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.release_jobs import release_jobs
from holdfast.worker.backoff import Backoff
from holdfast.worker.patient_store import PatientStore

_log = logging.getLogger("holdfast.worker")

I = TypeVar("I", Completion, Failure, Lease)  # noqa: E741 - an item

_STRAGGLER_PAUSE = 0.2


class Outcomes:
    """The bounded buffer and the one task that empties it."""

    def __init__(self, store: PatientStore, worker_id: str, batch: int) -> None:
        self._store = store
        self._worker_id = worker_id
        self._batch = batch
        self._completions: deque[Completion] = deque()
        self._failures: deque[Failure] = deque()
        self._releases: deque[Lease] = deque()
        self._stragglers: dict[str, asyncio.Task[None]] = {}
        self._unwritten: dict[tuple[str, int], Completion | Failure | Lease] = {}
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.finished = 0
        self.dead: Callable[[str], None] = lambda _: None

    def __len__(self) -> int:
        return len(self._unwritten)

    def leases(self) -> list[Lease]:
        """The jobs whose outcome is not written yet; they are still ours."""
        return [Lease(job_id, lease_generation) for job_id, lease_generation in list(self._unwritten)]

    def add(self, ending: Completion | Failure | Lease) -> None:
        """Take an outcome; it is written soon."""
        if isinstance(ending, Completion):
            self._completions.append(ending)
        elif isinstance(ending, Failure):
            self._failures.append(ending)
        else:
            self._releases.append(ending)
        self._unwritten[ending.id, ending.lease_generation] = ending
        self._empty.clear()
        self._wake.set()

    async def run(self) -> None:
        """Flush for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._completions or self._failures or self._releases:
                await self._flush_once()

    async def drained(self) -> None:
        """Return when everything has been written."""
        await self._empty.wait()

    async def _flush_once(self) -> None:
        await self._flush(self._completions, self._complete)
        await self._flush(self._failures, self._fail)
        await self._flush(self._releases, self._release)

    async def _flush(self, buffer: deque[I], write: Callable[[list[I]], object]) -> None:
        if not buffer:
            return
        batch = [buffer.popleft() for _ in range(min(len(buffer), self._batch))]
        locked = await self._persist(batch, write)
        for item in batch:
            if item.id in locked:
                self._retry_alone(item, write)
            else:
                self._written(item)

    async def _persist(self, batch: list[I], write: Callable[[list[I]], object]) -> set[str]:
        """Until the database has answered: an ambiguous commit is repeated, the fence makes it one."""
        backoff = Backoff()
        while True:
            try:
                settlement = await write(batch)  # type: ignore[misc]  # each of the three below is a coroutine function
            except (DatabaseUnavailable, SerializationConflict) as error:
                _log.warning("outcomes of %d jobs not written: %s; again in %.1f s", len(batch), error, backoff.seconds)
                await backoff.wait()
            except StoreError as error:
                if len(batch) == 1:
                    self._forget(batch[0], error)
                    return set()
                # One of them is poison to the statement; alone, it harms nobody else.
                locked: set[str] = set()
                for item in batch:
                    locked |= await self._persist([item], write)
                return locked
            else:
                for job_id in settlement.lost:
                    _log.warning("job %s: outcome refused, the lease was lost", job_id)
                return settlement.locked  # type: ignore[no-any-return]  # see above

    def _forget(self, item: I, error: StoreError) -> None:
        """The database refuses it for ever: a completion becomes a failure, the rest goes back with the next audit."""
        _log.error("job %s: its outcome cannot be stored: %s", item.id, error)
        if isinstance(item, Completion):
            retry = Retry()
            delay_ms = milliseconds(retry.delay(1))
            described = JobError(type(error).__name__, f"the outcome could not be stored: {error}"[:2000])
            failure = Failure(
                item.id, item.lease_generation, described, delay_ms, is_final=False, max_attempts=retry.max_attempts
            )
            # Only after the completion has been struck off.
            asyncio.get_running_loop().call_soon(self.add, failure)

    def _retry_alone(self, item: I, write: Callable[[list[I]], object]) -> None:
        """Somebody has the row locked: try again apart, so that it holds up nobody."""

        async def again() -> None:
            while await self._persist([item], write):  # noqa: ASYNC110 - nobody tells us when a user's lock goes
                await asyncio.sleep(_STRAGGLER_PAUSE)
            self._stragglers.pop(item.id)
            self._written(item)

        self._stragglers[item.id] = asyncio.create_task(again())

    def _written(self, item: Completion | Failure | Lease) -> None:
        self.finished += 1
        self._unwritten.pop((item.id, item.lease_generation), None)
        if not len(self):
            self._empty.set()

    async def _complete(self, batch: list[Completion]) -> Settlement:
        return await self._store.run(lambda: complete_jobs(self._worker_id, batch))

    async def _fail(self, batch: list[Failure]) -> Settlement:
        settlement = await self._store.run(lambda: fail_jobs(self._worker_id, batch))
        for job_id in settlement.dead:
            self.dead(job_id)
        return settlement

    async def _release(self, batch: list[Lease]) -> Settlement:
        return await self._store.run(lambda: release_jobs(batch))
