"""Outcomes on their way to the database: flushed in batches, as soon as no flush is in flight.

An idle worker's completion leaves at once; a busy one's share a statement.  Whatever cannot be written stays here and
is sent again: the fence makes that harmless.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from holdfast.errors import DatabaseUnavailable, HoldfastError, InvalidInput, SerializationConflict
from holdfast.model.clock import milliseconds
from holdfast.model.job import JobError
from holdfast.model.retry import Retry
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.fail_jobs import FailSettlement, Failure, fail_jobs
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.refuse_jobs import Refusal, refuse_jobs
from holdfast.operations.release_jobs import release_jobs
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.worker.attempt import Written
from holdfast.worker.backoff import Backoff
from holdfast.worker.patient_store import PatientStore

_log = logging.getLogger("holdfast.worker")

_STRAGGLER_PAUSE = 0.2

Write = Callable[[list[Any]], Awaitable[Settlement]]


class Outcomes:
    """The bounded buffer and the one task that empties it."""

    def __init__(self, store: PatientStore, worker_id: str, batch: int) -> None:
        self._store = store
        self._worker_id = worker_id
        self._batch = batch
        self._boxes: dict[type, tuple[deque[Any], Write]] = {
            Completion: (deque(), self._complete),
            Continuation: (deque(), self._continue),
            Failure: (deque(), self._fail),
            Postponement: (deque(), self._snooze),
            Refusal: (deque(), self._refuse),
            Lease: (deque(), self._release),
        }
        self._stragglers: dict[str, asyncio.Task[None]] = {}
        self._unwritten: dict[tuple[str, int], Written] = {}
        #: what is written instead of a completion that the database refuses
        self._replaced: dict[tuple[str, int], Failure] = {}
        #: of these the handler says that it has completed them itself
        self._self_completed: set[tuple[str, int]] = set()
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.finished = 0
        self.dead: Callable[[str], None] = lambda _: None
        #: called with the queues that got work by what was written
        self.woken: Callable[[Iterable[str]], None] = lambda _: None
        #: called when something went back to wait for its next attempt
        self.returned: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._unwritten)

    def leases(self) -> list[Lease]:
        """The jobs whose outcome is not written yet; they are still ours."""
        return [Lease(job_id, lease_generation) for job_id, lease_generation in list(self._unwritten)]

    def add(self, ending: Written, *, is_self_completed: bool = False) -> None:
        """Take an outcome; it is written soon."""
        self._boxes[type(ending)][0].append(ending)
        self._unwritten[ending.id, ending.lease_generation] = ending
        if is_self_completed:
            self._self_completed.add((ending.id, ending.lease_generation))
        self._empty.clear()
        self._wake.set()

    async def run(self) -> None:
        """Flush for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while any(box for box, _ in self._boxes.values()):
                for box, write in self._boxes.values():
                    if box:
                        await self._flush(box, write)

    async def drained(self) -> None:
        """Return when everything has been written."""
        await self._empty.wait()

    async def _flush(self, box: deque[Any], write: Write) -> None:
        batch = [box.popleft() for _ in range(min(len(box), self._batch))]
        locked = await self._persist(batch, write)
        for item in batch:
            if item.id in locked:
                self._retry_alone(item, write)
            else:
                self._written(item)

    async def _persist(self, batch: list[Any], write: Write) -> set[str]:
        """Until the database has answered: an ambiguous commit is repeated, the fence makes it one."""
        backoff = Backoff()
        while True:
            try:
                settlement = await write(batch)
            except (DatabaseUnavailable, SerializationConflict) as error:
                _log.warning("outcomes of %d jobs not written: %s; again in %.1f s", len(batch), error, backoff.seconds)
                await backoff.wait()
            except HoldfastError as error:
                if len(batch) == 1:
                    self._forget(batch[0], error)
                    return set()
                # One of them is poison to the statement; alone, it harms nobody else.
                locked: set[str] = set()
                for item in batch:
                    locked |= await self._persist([item], write)
                return locked
            else:
                self._report(batch, settlement)
                return settlement.locked

    def _report(self, batch: list[Any], settlement: Settlement) -> None:
        if settlement.woken:
            self.woken(settlement.woken)
        if not settlement.lost:
            return
        completed = settlement.completed if isinstance(settlement, FailSettlement) else settlement.lost
        for item in batch:
            if item.id not in settlement.lost:
                continue
            if (item.id, item.lease_generation) in self._self_completed and item.id in completed:
                # As it should be: the handler's own transaction has completed the job.
                if isinstance(item, Failure) and item.error.type != "CompletionNotCommitted":
                    what = f"{item.error.type}: {item.error.message}"
                    _log.error("job %s is completed, but its handler raised: %s", item.id, what)
            else:
                _log.warning("job %s: outcome refused, the lease was lost", item.id)

    def _forget(self, item: Any, error: HoldfastError) -> None:
        """The database refuses it for ever: a completion becomes a failure, the rest goes back with the next audit."""
        _log.error("job %s: its outcome cannot be stored: %s", item.id, error)
        if isinstance(item, Completion | Continuation):
            retry = Retry()
            delay_ms = milliseconds(retry.delay(1))
            described = JobError(type(error).__name__, f"the outcome could not be stored: {error}"[:2000])
            # What the caller did wrong he would do wrong again.
            is_final = isinstance(error, InvalidInput)
            self._replaced[item.id, item.lease_generation] = Failure(
                item.id, item.lease_generation, described, delay_ms, is_final=is_final, max_attempts=retry.max_attempts
            )

    def _retry_alone(self, item: Any, write: Write) -> None:
        """Somebody has the row locked: try again apart, so that it holds up nobody."""

        async def again() -> None:
            while await self._persist([item], write):  # noqa: ASYNC110 - nobody tells us when a user's lock goes
                await asyncio.sleep(_STRAGGLER_PAUSE)
            self._stragglers.pop(item.id)
            self._written(item)

        self._stragglers[item.id] = asyncio.create_task(again())

    def _written(self, item: Written) -> None:
        self.finished += 1
        key = (item.id, item.lease_generation)
        self._unwritten.pop(key, None)
        self._self_completed.discard(key)
        if (failure := self._replaced.pop(key, None)) is not None:
            self.add(failure)
        if not len(self):
            self._empty.set()

    async def _complete(self, batch: list[Completion]) -> Settlement:
        return await self._store.run(lambda: complete_jobs(self._worker_id, batch))

    async def _continue(self, batch: list[Continuation]) -> Settlement:
        return await self._store.run(lambda: continue_jobs(self._worker_id, batch))

    async def _fail(self, batch: list[Failure]) -> Settlement:
        settlement = await self._store.run(lambda: fail_jobs(self._worker_id, batch))
        self._bury(settlement)
        return settlement

    async def _snooze(self, batch: list[Postponement]) -> Settlement:
        settlement = await self._store.run(lambda: snooze_jobs(batch))
        self.returned()
        return settlement

    async def _refuse(self, batch: list[Refusal]) -> Settlement:
        settlement = await self._store.run(lambda: refuse_jobs(batch))
        self._bury(settlement)
        return settlement

    async def _release(self, batch: list[Lease]) -> Settlement:
        return await self._store.run(lambda: release_jobs(batch))

    def _bury(self, settlement: FailSettlement) -> None:
        for job_id in settlement.dead:
            self.dead(job_id)
        self.returned()
