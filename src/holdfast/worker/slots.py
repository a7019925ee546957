"""The running jobs of a worker: started when there is a free slot, ended once, told when to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from holdfast.errors import UnknownJobType
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.complete_jobs import Completion
from holdfast.operations.lease import Lease
from holdfast.operations.refuse_jobs import Refusal
from holdfast.telemetry import JobStarted, Listeners
from holdfast.worker.attempt import Attempt, Ending
from holdfast.worker.buffer import Buffer
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.deadlines import Deadlines
from holdfast.worker.demand import Demand
from holdfast.worker.executors.base import Done, Executor
from holdfast.worker.handler import Handler, Place
from holdfast.worker.hooks import ErrorHook
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.permits import Permits
from holdfast.worker.strangers import Strangers
from holdfast.worker.telling import lost, started

_log = logging.getLogger("holdfast.worker")

#: how long a handler that was asked to stop may go on before it is interrupted
_CANCEL_GRACE: Final = 5.0
#: how long jobs may be started, and eager ones run, before everybody else on the event loop has a turn
_FILL_SECONDS: Final = 0.005


class Slots:
    """As many attempts at once as there is concurrency."""

    def __init__(
        self,
        worker_id: str,
        handlers: Mapping[str, Handler],
        concurrency: int,
        *,
        buffer: Buffer,
        outcomes: Outcomes,
        demand: Demand,
        permits: Permits,
        executors: Callable[[Done, Callable[[Sequence[Attempt]], None]], Mapping[Place, Executor]],
        hook: ErrorHook,
        listeners: Listeners | None = None,
    ) -> None:
        self._worker_id = worker_id
        self._handlers = handlers
        self._concurrency = concurrency
        self._buffer = buffer
        self._outcomes = outcomes
        self._demand = demand
        self._permits = permits
        self._hook = hook
        self._listeners = listeners or Listeners()
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._time_out)
        self._executors = executors(self._done, self._start_clock)
        outcomes.line_written = self._written
        outcomes.is_more_coming = lambda: bool(self._attempts)
        self._largest_batch = max((handler.batch or 1 for handler in handlers.values()), default=1)
        #: how many jobs a free slot takes, as far as batch handlers have shown
        self._jobs_per_slot = 1
        self._attempts: set[Attempt] = set()
        #: let go of because nobody heard us; whether they are lost only the database knows
        self._given_up: set[Attempt] = set()
        #: calls, not attempts: a batch is one, and an abandoned thread keeps its slot after its attempt has ended
        self._occupied = 0
        self._strangers = Strangers()
        self._is_exclusive = False
        self._is_silenced = False
        self._is_filling = False
        #: a slot was freed since somebody was told, and more could be claimed for it
        self._has_ended = False
        self._is_closing = False
        #: set when nothing runs any more; while closing, when anything has ended
        self._emptied = asyncio.Event()
        self.last_start = time.monotonic()
        #: whether there is enough at hand of the queue of a job that has ended
        self.has_enough: Callable[[str], bool] = lambda _: False
        #: called with the queue of a job that was not started
        self.given_back: Callable[[str], None] = lambda _: None
        #: those whose handlers were still running when everything was to be released
        self.stuck: list[Attempt] = []

    # --- what the fetcher asks ----------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """For how many jobs there is room."""
        return 0 if self._is_exclusive else (self._concurrency - self._occupied) * self._jobs_per_slot

    @property
    def finished(self) -> int:
        return self._outcomes.finished

    @property
    def may_claim(self) -> bool:
        return not self._is_silenced and not self._outcomes.is_full

    def fill(self) -> None:
        """Start what is ready."""
        if self._is_filling:
            return  # a handler that never waits has ended inside the loop below, which goes on
        self._is_filling = True
        until = None
        try:
            while self._occupied < self._concurrency and not self._is_exclusive and (job := self._next()) is not None:
                self._start(job)
                if until is None:
                    until = self.last_start + _FILL_SECONDS
                elif self.last_start > until:
                    self._loop.call_soon(self.fill)
                    break
        finally:
            self._is_filling = False
            self._tell_of_ends()

    def _next(self) -> ClaimedJob | None:
        """The first that may start: who has no permit makes way for others, and keeps his place among his own."""
        buffer, free = self._buffer, self._permits.free
        if buffer.shelf and (job := buffer.shelf.take(free)) is not None:
            return job
        while buffer.ready:
            job = buffer.ready.popleft()
            if free(job.queue) != 0:
                return job
            buffer.shelf.put(job)
        return None

    def fill_soon(self) -> None:
        """The same, after whatever the caller is about to do."""
        self._loop.call_soon(self.fill)

    @property
    def takes_batches(self) -> bool:
        """Whether any handler takes several jobs at once."""
        return self._largest_batch > 1

    def learn_batch_size(self, *, was_full: bool) -> None:
        """Claim as many as batch handlers take: a claim that got all it asked for was too small, leftovers too big."""
        if self._buffer.ready:
            self._jobs_per_slot = max(1, self._jobs_per_slot // 2)
        elif was_full and self._jobs_per_slot < self._largest_batch:
            self._jobs_per_slot = min(self._jobs_per_slot * 2, self._largest_batch)

    def start_alone(self, job: ClaimedJob) -> None:
        """Start a suspect; the caller sees to it that nothing else runs."""
        if self._permits.free(job.queue) == 0:  # its claim took so long that our share is void
            self.give_back([job])
            return
        self._is_exclusive = True
        self._start(job)

    def give_back(self, jobs: Iterable[ClaimedJob]) -> None:
        """Release jobs that were not started."""
        for job in jobs:
            self._outcomes.add(Lease(job.id, job.lease_generation), never_started=job)
            self.given_back(job.queue)

    async def wait_empty(self, patience: float) -> None:
        """Start nothing until nothing runs, or for `patience` seconds."""
        self._is_exclusive = True
        deadline = time.monotonic() + patience
        while self._attempts and (left := deadline - time.monotonic()) > 0:
            self._emptied.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._emptied.wait()
        self._is_exclusive = False

    @property
    def is_clogged(self) -> bool:
        """Whether handlers that nobody waits for any more, threads above all, keep every slot."""
        return self._occupied - len(self._attempts) >= self._concurrency

    @property
    def has_suspect(self) -> bool:
        """Whether a job runs here that may have killed a worker before."""
        return any(attempt.job.crash_count for attempt in self._attempts)

    async def wait_written(self, patience: float) -> None:
        """Until every outcome is in the database, or for `patience` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._outcomes.drained()

    def leases(self) -> list[Lease]:
        """Everything held: running, waiting and not yet written. Called from the lease keeper's thread too."""
        # In the order in which they move on, so that none is missed that does so meanwhile.
        waiting = [Lease(job.id, job.lease_generation) for job in self._buffer]
        running = [attempt.lease for attempt in list(self._attempts)]
        return [*waiting, *running, *self._outcomes.leases()]

    def waiting_of(self, queue: str) -> int:
        """How many of those have not begun; a process may have to be started for them first."""
        uncalled = sum(not attempt.is_called and attempt.job.queue == queue for attempt in self._attempts)
        return uncalled + self._buffer.count_of(queue)

    # --- what the lease keeper tells ----------------------------------------------------------------------------------

    def lose(self, losses: Mapping[Lease, Cancellation]) -> None:
        """These jobs are not ours any more."""
        running = self._running()
        for lease, reason in losses.items():
            attempt = running.get(lease)
            if attempt is None or attempt.is_told_of_loss:
                continue
            if attempt.is_self_completed and reason is Cancellation.COMPLETED_ELSEWHERE:
                continue  # by its own handler, which may have things to do after that
            _log.warning("job %s: %s", lease.id, reason.replace("_", " "))
            self._abort(attempt, reason)
            self._tell_of_loss(attempt)
        self.give_back(self._buffer.drop(losses.keys()))

    def ask_to_stop(self, leases: Iterable[Lease]) -> None:
        """Somebody wants these jobs cancelled: their handlers are told, and have a while to come to an end."""
        leases = set(leases)
        waiting = [job for job in self._buffer if Lease(job.id, job.lease_generation) in leases]
        self.give_back([*waiting, *self._buffer.drop(leases)])
        running = self._running()
        for lease in leases:
            attempt = running.get(lease)
            if attempt is None or attempt.cancelled is not None:
                continue
            _log.info("job %s: asked to stop", lease.id)
            attempt.cancelled = Cancellation.CANCELLED
            if (executor := attempt.executor) is not None:
                executor.tell(attempt)
                attempt.grace = self._loop.call_later(_CANCEL_GRACE, executor.interrupt, attempt)

    def _tell_of_loss(self, attempt: Attempt) -> None:
        if self._listeners.heard:
            self._listeners.tell(lost(attempt))

    def _running(self) -> dict[Lease, Attempt]:
        return {attempt.lease: attempt for attempt in self._attempts}

    def fall_silent(self) -> None:
        """Nobody acknowledges our heartbeats: others will take our jobs, so we let go of them first."""
        _log.error("no heartbeat was acknowledged for too long: the jobs of this worker are given up")
        self._is_silenced = True
        self._buffer.clear()
        self._given_up |= self._attempts
        self._abort_all(Cancellation.LEASE_LOST)

    def be_heard(self) -> None:
        _log.info("heartbeats are acknowledged again")
        self._is_silenced = False
        self._demand.doubt()

    # --- the end ------------------------------------------------------------------------------------------------------

    async def finish(self, deadline: float, hurry: asyncio.Event) -> None:
        """Let what runs finish until the deadline or until somebody is in a hurry."""
        self.give_back(self._buffer.clear())
        await self._until(lambda: not self._attempts, deadline, hurry)

    async def release_all(self, grace: float, hurry: asyncio.Event | None = None, hurried_grace: float = 0.0) -> None:
        """Stop what still runs, within `grace` seconds, or `hurried_grace` from when somebody is in a hurry.

        The leases of what does not stop, of threads above all, are left for the worker's last act, so that nobody
        starts those jobs anew while this process still works on them.
        """
        self._is_closing = True
        self._abort_all(Cancellation.STOPPING)
        deadline = time.monotonic() + grace
        await self._until(lambda: not self._has_interruptible, deadline, hurry or asyncio.Event())
        deadline = min(deadline, time.monotonic() + hurried_grace)
        await self._until(lambda: not self._has_interruptible, deadline, asyncio.Event())
        self.stuck += self._attempts
        for attempt in self.stuck:
            self._end(attempt, None)
        self._deadlines.close()
        for executor in self._executors.values():
            await executor.close()

    async def _until(self, is_so: Callable[[], bool], deadline: float, hurry: asyncio.Event) -> None:
        hurried = asyncio.create_task(hurry.wait())
        while not is_so() and not hurry.is_set() and (left := deadline - time.monotonic()) > 0:
            self._emptied.clear()
            emptied = asyncio.create_task(self._emptied.wait())
            await asyncio.wait([emptied, hurried], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            emptied.cancel()
        hurried.cancel()

    @property
    def _has_interruptible(self) -> bool:
        return any(not attempt.is_unstoppable for attempt in self._attempts)

    # --- attempts -----------------------------------------------------------------------------------------------------

    def _start(self, job: ClaimedJob) -> None:
        handler = self._handlers.get(job.type_name)
        attempt = Attempt(job, handler, self._worker_id)
        if handler is None:
            self._attempts.add(attempt)
            self._strangers.complain(job)
            self._end(attempt, attempt.refusal(UnknownJobType(job.type_name, tuple(self._handlers))))
            return
        self._occupied += 1
        self.last_start = attempt.started_at
        attempts = [attempt] if handler.batch is None else self._start_batch(attempt, handler, handler.batch)
        executor = self._executors[handler.place]
        for each in attempts:
            each.executor = executor
            self._attempts.add(each)
            self._permits.take(each.job.queue)
        if (heard := self._listeners.heard) and JobStarted in heard:
            self._listeners.tell(map(started, attempts))
        executor.start(attempts, handler)
        # A process has to be started first, perhaps, and says itself when the handler's time begins.
        if not attempt.is_over and handler.place is not Place.PROCESS:
            self._start_clock(attempts, attempt.started_at)

    def _start_batch(self, first: Attempt, handler: Handler, most: int) -> list[Attempt]:
        others = self._buffer.take(self._is_next_of(handler, first.job), most - 1)
        attempts = [first, *(Attempt(other, handler, self._worker_id) for other in others)]
        if others:
            for attempt in attempts:
                attempt.batch = attempts
        return attempts

    def _start_clock(self, attempts: Sequence[Attempt], since: float | None = None) -> None:
        for attempt in attempts:
            if attempt.job.timeout_ms is not None:
                self._deadlines.add(attempt, attempt.job.timeout_ms, len(self._attempts), since)

    def _is_next_of(self, handler: Handler, first: ClaimedJob) -> Callable[[ClaimedJob], bool]:
        """Whether a job may go into the same call, where each needs a permit of its own; to be asked in order."""
        taken = Counter([first.queue])

        def is_next(job: ClaimedJob) -> bool:
            if self._handlers.get(job.type_name) is not handler:
                return False
            free = self._permits.free(job.queue)
            if free is not None and taken[job.queue] >= free:
                return False
            taken[job.queue] += 1
            return True

        return is_next

    def _done(self, attempts: Sequence[Attempt], endings: Sequence[Ending]) -> None:
        if len(attempts) == 1:
            self._end(attempts[0], endings[0])
        else:
            for attempt, ending in zip(attempts, endings, strict=True):
                self._end(attempt, ending)
        self._occupied -= 1
        for attempt in attempts:
            self._permits.put_back(attempt.job.queue)
            self._has_ended = self._has_ended or not self.has_enough(attempt.job.queue)
        if not self._is_filling:
            self.fill()

    def _tell_of_ends(self) -> None:
        """Once of all that end while jobs are started: nobody who waits for it can have a turn before."""
        if not self._attempts:
            self._emptied.set()
            self._outcomes.hurry()
        if self._has_ended and len(self._buffer.ready) <= self._buffer.low_water:
            self._demand.room()
        self._has_ended = False

    def _time_out(self, attempt: Attempt) -> None:
        assert attempt.executor is not None  # noqa: S101 - the clock runs from its start
        attempt.cancelled = Cancellation.TIMEOUT
        grace = attempt.executor.time_out(attempt)
        if grace:
            attempt.grace = self._loop.call_later(grace, self._give_up, attempt)
        else:
            self._give_up(attempt)

    def _give_up(self, attempt: Attempt) -> None:
        """A thread, or a task that swallows its cancellation, keeps its slot; the fence shuts out what it does."""
        if not attempt.is_over:
            error = attempt.cancellation_error()
            ending = attempt.failure(error)
            self._hook(attempt, ending, error)
            self._end(attempt, ending)

    def _abort(self, attempt: Attempt, reason: Cancellation) -> None:
        attempt.cancelled = reason
        if attempt.executor is not None:
            attempt.executor.tell(attempt)
            attempt.executor.interrupt(attempt)

    def _abort_all(self, reason: Cancellation) -> None:
        for attempt in list(self._attempts):
            attempt.cancelled = reason
        for attempt in list(self._attempts):
            self._abort(attempt, reason)

    def _end(self, attempt: Attempt, ending: Ending) -> None:
        """An attempt ends once, however many ways it could."""
        if attempt.is_over:
            return
        attempt.is_over = True
        if attempt.grace is not None:
            attempt.grace.cancel()
        self._attempts.remove(attempt)
        if self._is_closing or not (self._attempts or self._is_filling):
            self._emptied.set()
        if attempt in self._given_up:
            self._given_up.remove(attempt)
            if ending is None and not self._is_closing:
                # It may still be ours, and then goes back as what it is: a job that was started, and expires no more.
                ending = attempt.lease
        lease = None if attempt.job.partition_key is None else attempt.lease
        if ending is None:
            self._demand.doubt()
            if attempt.is_told_of_loss:
                self._tell_of_loss(attempt)
        else:
            if isinstance(ending, Refusal):
                ending = msgspec.structs.replace(ending, delay_ms=self._strangers.put_off(attempt.job))
            self._outcomes.add(ending, attempt, None if lease is None else self._buffer.lines.place(lease))
        if lease is not None:
            self._go_on(lease, attempt, ending)

    # --- runs of one partition key ------------------------------------------------------------------------------------

    def _go_on(self, lease: Lease, attempt: Attempt, ending: Ending) -> None:
        """After one that went well the next is started; otherwise those behind it go back."""
        lines = self._buffer.lines
        lines.learn(time.monotonic() - attempt.started_at)
        if not isinstance(ending, Completion):
            for job in lines.break_off(lease):
                behind = Lease(job.id, job.lease_generation)
                self._outcomes.add(behind, line=lines.place(behind), never_started=job)
            if ending is None:
                lines.leave(lease)
        elif (follower := lines.peek(lease)) is not None and not self._must_wait(follower):
            self._buffer.ready.appendleft(follower)
            lines.next(lease)

    def _must_wait(self, follower: ClaimedJob) -> bool:
        """Until what is in front of it is written: a handler that can write for itself must not be ahead of it."""
        handler = self._handlers.get(follower.type_name)
        return handler is None or handler.needs_context or handler.place is Place.PROCESS

    def _written(self, lease: Lease) -> None:
        """The outcome of a job of a run is in the database."""
        if (follower := self._buffer.lines.next(lease)) is not None:
            self._buffer.ready.appendleft(follower)
            self._loop.call_soon(self.fill)
        self._buffer.lines.leave(lease)
