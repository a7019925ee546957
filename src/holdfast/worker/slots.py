"""The running jobs of a worker: started when there is a free slot, ended once, told when to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from holdfast.errors import DatabaseUnavailable, HoldfastError, InvalidPayload, JobTimeout, UnknownJobType
from holdfast.model.endings import Cancel
from holdfast.model.running import running
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease
from holdfast.operations.read_blockers import read_blockers
from holdfast.worker.attempt import Attempt, Ending, Written
from holdfast.worker.buffer import Buffer
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.context import Context
from holdfast.worker.demand import Demand
from holdfast.worker.equipment import AsyncEquipment, SyncEquipment
from holdfast.worker.handler import Handler
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.sync_context import SyncContext
from holdfast.worker.threads import ThreadRunner

_log = logging.getLogger("holdfast.worker")

#: outcomes that may wait to be written before no more jobs are claimed
_UNWRITTEN_LIMIT = 5_000
#: how long a cancelled task may clean up after its timeout
_TIMEOUT_GRACE = 5.0
#: how long a handler that was asked to stop may go on before its task is cancelled
_CANCEL_GRACE = 5.0


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
        equipment: tuple[AsyncEquipment, SyncEquipment],
    ) -> None:
        self._worker_id = worker_id
        self._handlers = handlers
        self._concurrency = concurrency
        self._buffer = buffer
        self._outcomes = outcomes
        self._demand = demand
        self._async_equipment, self._sync_equipment = equipment
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadRunner(concurrency, self._thread_done)
        self._attempts: dict[Lease, Attempt] = {}
        #: not the same as len(attempts): an abandoned thread keeps its slot after its attempt has ended
        self._occupied = 0
        self._is_exclusive = False
        self._is_silenced = False
        self._emptied = asyncio.Event()
        self.last_start = time.monotonic()

    # --- what the fetcher asks ----------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        return 0 if self._is_exclusive else self._concurrency - self._occupied

    @property
    def finished(self) -> int:
        return self._outcomes.finished

    @property
    def may_claim(self) -> bool:
        return not self._is_silenced and len(self._outcomes) < _UNWRITTEN_LIMIT

    def fill(self) -> None:
        """Start what is ready."""
        ready = self._buffer.ready
        while ready and self._occupied < self._concurrency and not self._is_exclusive:
            self._start(ready.popleft())

    def start_alone(self, job: ClaimedJob) -> None:
        """Start a suspect; the caller sees to it that nothing else runs."""
        self._is_exclusive = True
        self._start(job)

    def give_back(self, jobs: Iterable[ClaimedJob]) -> None:
        """Release jobs that were not started."""
        for job in jobs:
            self._outcomes.add(Lease(job.id, job.lease_generation))

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
    def has_suspect(self) -> bool:
        """Whether a job runs here that may have killed a worker before."""
        return any(attempt.job.crash_count for attempt in self._attempts.values())

    async def wait_written(self, patience: float) -> None:
        """Until every outcome is in the database, or for `patience` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self._outcomes.drained()

    def leases(self) -> list[Lease]:
        """Everything held: running, waiting and not yet written. Called from the lease keeper's thread too."""
        waiting = [Lease(job.id, job.lease_generation) for job in self._buffer]
        return [*list(self._attempts), *waiting, *self._outcomes.leases()]

    # --- what the lease keeper tells ----------------------------------------------------------------------------------

    def lose(self, losses: Mapping[Lease, Cancellation]) -> None:
        """These jobs are not ours any more."""
        for lease, reason in losses.items():
            attempt = self._attempts.get(lease)
            if attempt is None or attempt.is_told_of_loss:
                continue
            if attempt.is_self_completed and reason is Cancellation.COMPLETED_ELSEWHERE:
                continue  # by its own handler, which may have things to do after that
            _log.warning("job %s: %s", lease.id, reason.replace("_", " "))
            self._abort(attempt, reason)
        self._buffer.drop(losses.keys())

    def ask_to_stop(self, leases: Iterable[Lease]) -> None:
        """Somebody wants these jobs cancelled: their handlers are told, and have a while to come to an end."""
        leases = set(leases)
        waiting = [job for job in self._buffer if Lease(job.id, job.lease_generation) in leases]
        self._buffer.drop(leases)
        self.give_back(waiting)
        for lease in leases:
            attempt = self._attempts.get(lease)
            if attempt is None or attempt.cancelled is not None:
                continue
            _log.info("job %s: asked to stop", lease.id)
            attempt.cancelled = Cancellation.CANCELLED
            if attempt.task is not None:
                attempt.grace = self._loop.call_later(_CANCEL_GRACE, attempt.task.cancel)

    def fall_silent(self) -> None:
        """Nobody acknowledges our heartbeats: others will take our jobs, so we let go of them first."""
        _log.error("no heartbeat was acknowledged for too long: the jobs of this worker are given up")
        self._is_silenced = True
        self._buffer.clear()
        self._abort_all(Cancellation.LEASE_LOST)

    def be_heard(self) -> None:
        _log.info("heartbeats are acknowledged again")
        self._is_silenced = False
        self._demand.doubt()

    # --- the end ------------------------------------------------------------------------------------------------------

    async def finish(self, deadline: float, hurry: asyncio.Event) -> None:
        """Let what runs finish until the deadline or until somebody is in a hurry."""
        self.give_back(self._buffer.clear())
        hurried = asyncio.create_task(hurry.wait())
        while self._attempts and not hurry.is_set() and (left := deadline - time.monotonic()) > 0:
            self._emptied.clear()
            emptied = asyncio.create_task(self._emptied.wait())
            await asyncio.wait([emptied, hurried], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            emptied.cancel()
        hurried.cancel()

    async def release_all(self, grace: float) -> None:
        """Stop what still runs; what does not stop is released all the same, its late outcome will be refused."""
        self._abort_all(Cancellation.STOPPING)
        if tasks := [attempt.task for attempt in self._attempts.values() if attempt.task is not None]:
            await asyncio.wait(tasks, timeout=grace)
        for attempt in list(self._attempts.values()):
            self._end(attempt, attempt.lease)
        self._threads.close()

    # --- attempts -----------------------------------------------------------------------------------------------------

    def _start(self, job: ClaimedJob) -> None:
        handler = self._handlers.get(job.type_name)
        attempt = Attempt(job, handler, self._worker_id)
        self._attempts[attempt.lease] = attempt
        if handler is None:
            _log.warning("job %s: type %r is unknown here; put back for a worker that knows it", job.id, job.type_name)
            self._end(attempt, attempt.refusal(UnknownJobType(job.type_name, tuple(self._handlers))))
            return
        self._occupied += 1
        self.last_start = time.monotonic()
        if job.timeout_ms is not None:
            attempt.timer = self._loop.call_later(job.timeout_ms / 1000, self._time_out, attempt)
        if handler.is_async:
            attempt.task = self._loop.create_task(self._run_async(attempt, handler))
        else:
            self._threads.start(attempt, lambda: self._call(attempt, handler))

    async def _run_async(self, attempt: Attempt, handler: Handler) -> None:
        ending: Ending
        try:
            if attempt.cancelled is not None:
                raise asyncio.CancelledError  # noqa: TRY301 - as if it had come a moment later
            arguments = _arguments(attempt, handler)
            if handler.job_type.signature.wants_context:
                if attempt.job.has_blockers:
                    with _giving_back():
                        store = self._async_equipment.store
                        attempt.blockers = await store.run(lambda: read_blockers(attempt.job.id), read_only=True)
                with running(attempt.job.id):
                    output = await handler.function(Context(attempt, self._async_equipment), **arguments)
            else:
                with running(attempt.job.id):
                    output = await handler.function(**arguments)
            # The time was up: whatever came after the cancellation does not count.
            ending = (
                attempt.failure(_cause(attempt, TimeoutError()))
                if _is_late(attempt)
                else attempt.ending_of_return(output)
            )
        except asyncio.CancelledError as error:
            ending = attempt.ending_of_cancelled(_cause(attempt, error))
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler fails the job, not the worker
            ending = _ending_of_raise(attempt, error)
        attempt.task = None
        self._end(attempt, ending)
        self._free_slot()

    def _call(self, attempt: Attempt, handler: Handler) -> Written:
        """In a pool thread; the output is encoded there too."""
        arguments = _arguments(attempt, handler)
        if not handler.job_type.signature.wants_context:
            with running(attempt.job.id):
                return attempt.ending_of_return(handler.function(**arguments))
        if attempt.job.has_blockers:
            with _giving_back():
                store = self._sync_equipment.store
                attempt.blockers = store.run(lambda: read_blockers(attempt.job.id), read_only=True)
        with running(attempt.job.id):
            return attempt.ending_of_return(handler.function(SyncContext(attempt, self._sync_equipment), **arguments))

    def _thread_done(self, attempt: Attempt, ending: Any, error: BaseException | None) -> None:
        self._end(attempt, ending if error is None else _ending_of_raise(attempt, error))
        self._free_slot()

    def _time_out(self, attempt: Attempt) -> None:
        attempt.cancelled = Cancellation.TIMEOUT
        if attempt.task is not None:
            self._loop.call_soon(attempt.task.cancel)
            attempt.timer = self._loop.call_later(_TIMEOUT_GRACE, self._give_up, attempt)
        else:
            self._give_up(attempt)

    def _give_up(self, attempt: Attempt) -> None:
        """A thread, or a task that swallows its cancellation, keeps its slot; the fence shuts out what it does."""
        self._end(attempt, attempt.failure(_cause(attempt, TimeoutError())))

    def _abort(self, attempt: Attempt, reason: Cancellation) -> None:
        attempt.cancelled = reason
        if attempt.task is not None:
            # Not at once: a task that is cancelled before its first step never gets to the end of its attempt.
            self._loop.call_soon(attempt.task.cancel)

    def _abort_all(self, reason: Cancellation) -> None:
        for attempt in list(self._attempts.values()):
            self._abort(attempt, reason)

    def _free_slot(self) -> None:
        self._occupied -= 1
        self.fill()
        if len(self._buffer.ready) <= self._buffer.low_water:
            self._demand.room()

    def _end(self, attempt: Attempt, ending: Ending) -> None:
        """An attempt ends once, however many ways it could."""
        if attempt.is_over:
            return
        attempt.is_over = True
        for timer in (attempt.timer, attempt.grace):
            if timer is not None:
                timer.cancel()
        del self._attempts[attempt.lease]
        if not self._attempts:
            self._emptied.set()
        if ending is None:
            self._demand.doubt()
        else:
            self._outcomes.add(ending, is_self_completed=attempt.is_self_completed)


class _NotStarted(Exception):
    """The handler was not called: its input is not what it takes (then `is_refused`), or could not be read."""

    def __init__(self, error: HoldfastError, *, is_refused: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_refused = is_refused


@contextmanager
def _giving_back() -> Iterator[None]:
    """What a handler needs cannot be read: the job is as good as never claimed."""
    try:
        yield
    except DatabaseUnavailable as error:
        raise _NotStarted(error, is_refused=False) from error


def _ending_of_raise(attempt: Attempt, error: BaseException) -> Written:
    if isinstance(error, _NotStarted):
        return attempt.refusal(error.error) if error.is_refused else attempt.lease
    return attempt.ending_of_raise(error)


def _arguments(attempt: Attempt, handler: Handler) -> dict[str, Any]:
    try:
        return handler.job_type.signature.decode(attempt.job.input)
    except InvalidPayload as error:
        _log.warning("job %s: %s; put back for a worker that accepts it", attempt.job.id, error)
        raise _NotStarted(error, is_refused=True) from error


def _is_late(attempt: Attempt) -> bool:
    return attempt.cancelled is Cancellation.TIMEOUT


def _cause(attempt: Attempt, error: BaseException) -> BaseException:
    if _is_late(attempt):
        return JobTimeout((attempt.job.timeout_ms or 0) / 1000)
    if attempt.cancelled is Cancellation.CANCELLED:
        return Cancel("cancelled while it ran")
    return error
