"""Outcomes on their way to the database: flushed in batches, as soon as no flush is in flight.

An idle worker's completion leaves at once; a busy one's share a statement, and where few come during one, they wait
for each other for a moment, unless somebody waits for them.  Whatever cannot be written stays here and
is sent again: the fence makes that harmless.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from holdfast.errors import DatabaseUnavailable, HoldfastError, InvalidInput, SerializationConflict
from holdfast.model.clock import milliseconds
from holdfast.model.settings import RetrySettings
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.fail_jobs import FailSettlement, Failure, fail_jobs
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.refuse_jobs import Refusal, refuse_jobs
from holdfast.operations.release_jobs import Release, release_jobs
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.operations.statement import Verb
from holdfast.operations.suspend_jobs import Suspension, suspend_jobs
from holdfast.operations.take_turn import in_turn
from holdfast.telemetry import Listeners
from holdfast.worker.attempt import Attempt, Written
from holdfast.worker.backoff import Backoff
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.tally import Tally
from holdfast.worker.telling import is_completed_by_itself, written
from holdfast.worker.turns import Turns

_log = logging.getLogger("holdfast.worker")

#: outcomes that may wait to be written before no more jobs are claimed, in batches: what a crash makes run again
_MOST_BATCHES = 4
#: while others run, completions that nobody is known to wait for are gathered for so many times as long as the last
#: statement took, so that a busy worker spends no more than a tenth of its time on statements for a few jobs
_GATHERING_SHARE = 9
#: but never for longer than this: what a crash makes run again should not be much more than it has to be
_LONGEST_GATHERING = 0.01
#: how often an outcome whose row is locked is sent with others before it is tried apart
_TIMES_WITH_OTHERS = 3
_STRAGGLER_PAUSE = 0.2
#: a try at a locked row that queues for it takes so long at first, and up to so long later; others wait meanwhile, so
#: there is as much time between two of them
_FIRST_TURN = timedelta(seconds=1)
_LONGEST_TURN = timedelta(seconds=4)

S = TypeVar("S", bound=Settlement)
Write = Callable[[list[Any]], Awaitable[Settlement]]


class Outcomes:
    """The bounded buffer and the one task that empties it."""

    def __init__(
        self,
        store: PatientStore,
        worker_id: str,
        batch: int,
        tally: Tally | None = None,
        listeners: Listeners | None = None,
    ) -> None:
        self._store = store
        self._worker_id = worker_id
        self._batch = batch
        self._tally = tally or Tally()
        self._listeners = listeners or Listeners()
        self._boxes: dict[type, tuple[deque[Any], Write]] = {
            Completion: (deque(), self._complete),
            Continuation: (deque(), self._continue),
            Failure: (deque(), self._fail),
            Postponement: (deque(), self._snooze),
            Suspension: (deque(), self._suspend),
            Refusal: (deque(), self._refuse),
            Lease: (deque(), self._release),
        }
        #: whose rows were locked, and how often
        self._skipped: Counter[tuple[str, int]] = Counter()
        self._stragglers: dict[tuple[str, int], asyncio.Task[None]] = {}
        #: those among them that queue for their rows at their next try, and for how long
        self._queueing: dict[tuple[str, int], timedelta] = {}
        #: with the attempt that it is of, unless the job was never started
        self._unwritten: dict[tuple[str, int], Attempt | None] = {}
        #: jobs that were never started
        self._given_back: dict[tuple[str, int], ClaimedJob] = {}
        #: what is written instead of a completion that the database refuses
        self._replaced: dict[tuple[str, int], Failure] = {}
        #: of jobs that were claimed as a run: its number, and their places in it
        self._lines: dict[tuple[str, int], tuple[int, int]] = {}
        self._turns: Turns[Written] = Turns()
        self._wake = asyncio.Event()
        #: until when completions may be gathered; whether they are, and what ends that early
        self._gather_until = 0.0
        self._is_gathering = False
        self._hurry = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        #: how many are in the database; not of jobs that were never started
        self.finished = 0
        #: what operators have set for retries
        self.settings = RetrySettings()
        self.dead: Callable[[str], None] = lambda _: None
        #: called with the queues that got work by what was written
        self.woken: Callable[[Iterable[str]], None] = lambda _: None
        #: called with chains that ended while somebody who waits for them was locked
        self.unsettled: Callable[[Iterable[str]], None] = lambda _: None
        #: called when the outcome of a job with a partition key is in the database
        self.line_written: Callable[[Lease], None] = lambda _: None
        #: whether handlers run whose outcomes will come
        self.is_more_coming: Callable[[], bool] = lambda: False
        #: whether somebody waits for the end of this job: the next one of its key, or of its limit
        self.is_in_the_way: Callable[[ClaimedJob], bool] = lambda job: job.partition_key is not None
        #: called when some outcomes are in the database
        self.acknowledged: Callable[[], None] = lambda: None
        #: called when something went back to wait for its next attempt
        self.returned: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        return len(self._unwritten)

    @property
    def is_full(self) -> bool:
        """Whether so many wait to be written that there should be no more jobs for now."""
        return len(self._unwritten) >= _MOST_BATCHES * self._batch

    def leases(self) -> list[Lease]:
        """The jobs whose outcome is not written yet; they are still ours."""
        return [Lease(job_id, lease_generation) for job_id, lease_generation in list(self._unwritten)]

    def add(
        self,
        ending: Written,
        attempt: Attempt | None = None,
        line: tuple[int, int] | None = None,
        never_started: ClaimedJob | None = None,
    ) -> None:
        """Take an outcome; it is written soon, after those in front of it in its run. Without an attempt, the job."""
        key = (ending.id, ending.lease_generation)
        if not self._unwritten:
            self._empty.clear()
        self._unwritten[key] = attempt
        if self._is_gathering and (len(self._unwritten) >= self._batch or not self._may_gather(ending)):
            self._hurry.set()
        if never_started is not None:
            self._given_back[key] = never_started
        if line is not None:
            self._lines[key] = line
            if not self._turns.take(ending, line):
                return
        self._send(ending)

    def _send(self, ending: Written) -> None:
        box = self._boxes[type(ending)][0]
        if not box:  # of one that is not, `run` knows
            self._wake.set()
        box.append(ending)

    async def run(self) -> None:
        """Flush for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while any(box for box, _ in self._boxes.values()):
                await self._gather()
                began = time.monotonic()
                for box, write in self._boxes.values():
                    if box:
                        await self._flush(box, write)
                ended = time.monotonic()
                self._gather_until = ended + min((ended - began) * _GATHERING_SHARE, _LONGEST_GATHERING)

    async def drained(self) -> None:
        """Return when everything has been written."""
        self.hurry()
        await self._empty.wait()

    def hurry(self) -> None:
        """No more will come for now: what is here need not wait for others."""
        self._hurry.set()

    async def _gather(self) -> None:
        """Let completions come together, where they are few and come one after the other."""
        pause = self._gather_until - time.monotonic()
        if pause <= 0 or len(self._unwritten) >= self._batch or not self.is_more_coming():
            return
        if not all(self._may_gather(ending) for box, _ in self._boxes.values() for ending in box):
            return
        self._hurry.clear()
        self._is_gathering = True
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._hurry.wait()
        self._is_gathering = False

    def _may_gather(self, ending: Written) -> bool:
        """Whether it can wait for others: the end of a job that is in nobody's way."""
        if type(ending) is not Completion:
            return False
        attempt = self._unwritten.get((ending.id, ending.lease_generation))
        return attempt is not None and not self.is_in_the_way(attempt.job)

    async def _flush(self, box: deque[Any], write: Write) -> None:
        batch = [box.popleft() for _ in range(min(len(box), self._batch))]
        if self._lines:
            batch = [item for item in batch if not self._must_wait(item)]
            if not batch:
                return
        locked = await self._persist(batch, write)
        if not (locked or self._skipped or self._lines or self._replaced or self._given_back):
            self._all_written(batch)
            self.acknowledged()
            return
        self._those_written([item for item in batch if item.id not in locked])
        again = []
        for item in batch:
            if item.id in locked:
                line = self._lines.get((item.id, item.lease_generation)) if self._lines else None
                if line is None and self._may_go_again(item):
                    again.append(item)
                elif line is None or self._turns.stuck(item, line):
                    self._retry_alone(item, write)
        box.extendleft(reversed(again))
        self.acknowledged()

    def _may_go_again(self, item: Written) -> bool:
        """With the others: a claim has what it looked at, also what it found claimed, until it commits."""
        key = (item.id, item.lease_generation)
        self._skipped[key] += 1
        return self._skipped[key] <= _TIMES_WITH_OTHERS

    def _must_wait(self, item: Any) -> bool:
        line = self._lines.get((item.id, item.lease_generation))
        return line is not None and self._turns.must_wait(item, line)

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
        """What the database has acknowledged."""
        if self._listeners.heard:
            self._listeners.tell(written(self._worker_id, batch, settlement, self._unwritten, self._given_back))
        if settlement.woken:
            self.woken(settlement.woken)
        if settlement.unsettled:
            self.unsettled(settlement.unsettled)
        if not settlement.lost:
            return
        for item in batch:
            if item.id not in settlement.lost:
                continue
            attempt = self._unwritten.get((item.id, item.lease_generation))
            if attempt is not None and is_completed_by_itself(item, attempt, settlement):
                # As it should be: the handler's own transaction has completed the job.
                if isinstance(item, Failure) and item.error.type != "CompletionNotCommitted":
                    what = f"{item.error.type}: {item.error.message}"
                    _log.error("job %s is completed, but its handler raised: %s", item.id, what)
            else:
                _log.warning("job %s: outcome refused, the lease was lost", item.id)

    def _forget(self, item: Any, error: HoldfastError) -> None:
        """The database refuses it for ever: a completion becomes a failure, the rest goes back with the next audit."""
        _log.error("job %s: its outcome cannot be stored: %s", item.id, error)
        attempt = self._unwritten.get((item.id, item.lease_generation))
        if isinstance(item, Completion | Continuation) and attempt is not None:
            # What the caller did wrong he would do wrong again.
            is_final = True if isinstance(error, InvalidInput) else None
            error.add_note("the handler returned, but its outcome could not be stored")
            self._replaced[item.id, item.lease_generation] = attempt.failure(error, is_final=is_final)

    def _retry_alone(self, item: Any, write: Write) -> None:
        """Somebody has the row locked: try again apart, so that it holds up nobody."""
        key = (item.id, item.lease_generation)

        async def again() -> None:
            patience = _FIRST_TURN
            queue_at = time.monotonic() + patience.total_seconds()
            while await self._persist([item], write):
                await asyncio.sleep(_STRAGGLER_PAUSE)
                self._queueing.pop(key, None)
                if time.monotonic() >= queue_at:
                    # Perhaps it is not one lock, but one after the other: then this has to be waited for in a queue.
                    self._queueing[key] = patience
                    queue_at = time.monotonic() + 2 * patience.total_seconds()
                    patience = min(2 * patience, _LONGEST_TURN)
            self._queueing.pop(key, None)
            self._stragglers.pop(key)
            self._those_written([item])
            self.acknowledged()

        self._stragglers[key] = asyncio.create_task(again())

    def _those_written(self, batch: Sequence[Any]) -> None:
        """So many of one kind are in the database."""
        counted = []
        for item in batch:
            key = (item.id, item.lease_generation)
            attempt = self._unwritten.pop(key, None)
            self._skipped.pop(key, None)
            self._given_back.pop(key, None)
            if (failure := self._replaced.pop(key, None)) is not None:
                self.add(failure, attempt)
            elif attempt is not None:
                counted.append(attempt)
            if (line := self._lines.pop(key, None)) is not None:
                for freed in self._turns.written(line):
                    self._send(freed)
                self.line_written(Lease(*key))
        if counted:
            self.finished += len(counted)
            self._count(type(batch[0]), counted)
        if not self._unwritten:
            self._empty.set()

    def _all_written(self, batch: list[Any]) -> None:
        """The same for many of one kind of which nothing else is to be remembered."""
        self.finished += len(batch)
        take = self._unwritten.pop
        attempts = [take((item.id, item.lease_generation), None) for item in batch]
        self._count(type(batch[0]), [attempt for attempt in attempts if attempt is not None])
        if not self._unwritten:
            self._empty.set()

    def _count(self, kind: type[Written], attempts: Sequence[Attempt]) -> None:
        if kind in {Completion, Continuation}:
            self._tally.completed([attempt.job for attempt in attempts])
            return
        self._tally.completed([attempt.job for attempt in attempts if attempt.is_self_completed])
        if kind is Failure:
            self._tally.failed([attempt.job for attempt in attempts if not attempt.is_self_completed])

    async def _run(self, batch: Sequence[Any], verb: Verb[S]) -> S:
        patience = self._queueing.get((batch[0].id, batch[0].lease_generation)) if len(batch) == 1 else None
        if patience is not None:
            with suppress(DatabaseUnavailable):  # not in time: as before, then, and once more later
                return await self._store.run(lambda: in_turn(batch[0].id, patience, verb()))
        return await self._store.run(verb)

    async def _complete(self, batch: list[Completion]) -> Settlement:
        if self._lines:
            batch = [self._in_line(item) for item in batch]
        return await self._run(batch, lambda: complete_jobs(self._worker_id, batch))

    def _in_line(self, item: Completion) -> Completion:
        line = self._lines.get((item.id, item.lease_generation))
        return item if line is None else msgspec.structs.replace(item, line=line[0], place=line[1])

    async def _continue(self, batch: list[Continuation]) -> Settlement:
        return await self._run(batch, lambda: continue_jobs(self._worker_id, batch))

    async def _fail(self, batch: list[Failure]) -> Settlement:
        if self.settings.said:
            batch = [self._as_set(item) for item in batch]
        settlement = await self._run(batch, lambda: fail_jobs(self._worker_id, batch))
        self._bury(batch, settlement)
        return settlement

    def _as_set(self, item: Failure) -> Failure:
        """Here rather than where it failed, which may be in another process."""
        attempt = self._unwritten.get((item.id, item.lease_generation))
        if attempt is None or attempt.handler is None:
            return item
        retry = self.settings.over(attempt.handler.job_type.retry, attempt.job.type_name)
        return msgspec.structs.replace(item, delay_ms=milliseconds(retry.delay(attempt.job.attempt)))

    async def _snooze(self, batch: list[Postponement]) -> Settlement:
        settlement = await self._run(batch, lambda: snooze_jobs(batch))
        self.returned()
        return settlement

    async def _suspend(self, batch: list[Suspension]) -> Settlement:
        settlement = await self._run(batch, lambda: suspend_jobs(batch))
        self.returned()
        return settlement

    async def _refuse(self, batch: list[Refusal]) -> Settlement:
        settlement = await self._run(batch, lambda: refuse_jobs(batch))
        self._bury(batch, settlement)
        return settlement

    async def _release(self, batch: list[Lease]) -> Settlement:
        attempts = [self._unwritten.get((lease.id, lease.lease_generation)) for lease in batch]
        releases = [
            Release(lease.id, lease.lease_generation, is_started=attempt is not None and attempt.is_called)
            for lease, attempt in zip(batch, attempts, strict=True)
        ]
        settlement = await self._run(batch, lambda: release_jobs(releases))
        jobs = [
            self._given_back.get((lease.id, lease.lease_generation)) if attempt is None else attempt.job
            for lease, attempt in zip(batch, attempts, strict=True)
            if lease.id not in settlement.lost and lease.id not in settlement.locked
        ]
        # Whoever has room need not wait for its next look: as many as there are jobs.
        if given_back := [job.queue for job in jobs if job is not None]:
            self.woken(given_back)
        if any((lease.id, lease.lease_generation) in self._lines for lease in batch):
            self.returned()  # the key of a run that broke off is free only now
        return settlement

    def _bury(self, batch: Sequence[Failure] | Sequence[Refusal], settlement: FailSettlement) -> None:
        for job_id in settlement.dead:
            self.dead(job_id)
        if ended := settlement.dead | settlement.cancelled:
            # The next job of a partition key may run: not here, perhaps, for this worker may be about to stop.
            attempts = [self._unwritten.get((item.id, item.lease_generation)) for item in batch if item.id in ended]
            jobs = [attempt.job for attempt in attempts if attempt is not None]
            if freed := {job.queue for job in jobs if job.partition_key is not None}:
                self.woken(freed)
        self.returned()
