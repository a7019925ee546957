"""Running everything that is due, with a real worker, until nothing is."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.app.observed import observed
from holdfast.model.clock import LONGEST, Duration, checked_duration
from holdfast.notify import Waker
from holdfast.operations.claim_jobs import next_due
from holdfast.operations.expire_jobs import expire_jobs
from holdfast.operations.reap_jobs import find_reapable
from holdfast.operations.register_types import register_types
from holdfast.operations.statement import Rows, Statement
from holdfast.stores import AsyncStore
from holdfast.telemetry import Listeners
from holdfast.telemetry.verbs import expired
from holdfast.worker import Handler, Worker, WorkerConfig
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.maintenance.key_sweeper import KeySweeper
from holdfast.worker.maintenance.limit_sweeper import LimitSweeper
from holdfast.worker.maintenance.unblocker import Unblocker

if TYPE_CHECKING:
    from holdfast.app.app import App

_BATCH = 500
#: how often to look whether the jobs of the dead have come back
_LOOK_SECONDS = 0.25
#: how long to wait at first for what is due, and may not start yet
_SHORTEST_PAUSE = 0.005


@dataclass(frozen=True, kw_only=True, slots=True)
class Drained:
    """What became of the attempts that a drain ran.

    - `completed`: finished, or continued by the next job of its chain.
    - `retried`: failed, and to be tried again later; `dead`: failed for good.
    - `cancelled`, `snoozed`: as the handler said, or somebody for it.
    - `suspended`: asleep, or waiting for a signal or for children.
    - `refused`: no handler here could run it; put back for a worker that can.
    - `expired`: not started in time, so cancelled without an attempt.
    """

    completed: int = 0
    retried: int = 0
    dead: int = 0
    cancelled: int = 0
    snoozed: int = 0
    suspended: int = 0
    refused: int = 0
    expired: int = 0

    @property
    def failed(self) -> int:
        """Attempts that failed, whether they are repeated or not."""
        return self.retried + self.dead


async def drain(
    app: App,
    handlers: Iterable[Handler],
    *,
    queues: Sequence[str] | None,
    concurrency: int | None,
    timeout: Duration | None,
    waits_for_dead: bool,
    listeners: Listeners,
) -> Drained:
    """Run what is due, and what becomes due by that, until nothing is."""
    patience = LONGEST if timeout is None else checked_duration("timeout", timeout)
    config = WorkerConfig(queues=queues, concurrency=concurrency, stop_deadline=patience, is_notified=False)
    tally = _Tally()
    store = observed(app.store, tally.note)
    looking = store.asynchronous()
    # As a worker chooses them.
    served = sorted(set(queues or {handler.job_type.queue for handler in handlers} or {"default"}))
    orphans = _Orphans(looking, served if waits_for_dead else (), config.dead_after)
    try:
        async with asyncio.timeout(patience.total_seconds()):
            await looking.ensure_ready()
            # As any worker does, with or without work: from now on SQL knows them.
            types = {handler.job_type.name: handler.job_type for handler in handlers}
            await looking.run(lambda: register_types(types.values()))
            while True:
                # First, for whoever waits for these may have to run; nobody starts them.
                await _expire(looking, listeners)
                # Nothing of ours runs now, so nobody can add what this look would miss.
                if not await _is_due(looking, served):
                    # Whom nobody could tell that their blockers have ended, a worker would find soon.
                    await _unblock(looking, listeners)
                    if not await _is_due(looking, served) and not await orphans.find():
                        return tally.counts()
                waker = _DryWaker()
                worker = app.make_worker(config, store=store, waker=waker.serve, has_schedules=False)
                await _until_dry(worker, waker, lambda: _is_due(looking, served), orphans)
    except TimeoutError:
        listing = ", ".join(served)
        raise TimeoutError(
            f"not everything could be run within {patience.total_seconds():g} s ({tally.counts()}; queues: {listing}): "
            f"a handler does not end, jobs enqueue each other for ever, a limit of their queue is too low for so many, "
            f"or a transaction keeps them locked"
        ) from None
    finally:
        await looking.close()


async def _is_due(store: AsyncStore, queues: Sequence[str]) -> bool:
    return await store.run(lambda: next_due(queues), read_only=True) == timedelta()


async def _unblock(store: AsyncStore, listeners: Listeners) -> None:
    for service in (
        Unblocker(store, lambda _: None, listeners),
        KeySweeper(store, lambda _: None),
        LimitSweeper(store, lambda _: None),
    ):
        await service.run_once()
        while service.is_amid:
            await service.run_once()


async def _expire(store: AsyncStore, listeners: Listeners) -> None:
    done = None
    while done is None or done.expired >= _BATCH:
        done = await store.run(lambda: expire_jobs(_BATCH))
        if listeners.heard:
            listeners.tell(expired(done.jobs))


class _Orphans:
    """Jobs of these queues that a worker held which is silent for so long that it is dead."""

    def __init__(self, store: AsyncStore, queues: Sequence[str], dead_after: timedelta) -> None:
        self._store = store
        self._queues = queues
        self._dead_after = dead_after
        #: somebody keeps them locked, so that no worker could take them back
        self._stuck: set[str] = set()

    async def find(self) -> set[str]:
        if not self._queues:
            return set()
        found = await self._store.run(lambda: find_reapable("", self._dead_after), read_only=True)
        return {job.id for job in found if job.is_owner_dead and job.queue in self._queues} - self._stuck

    async def gone(self) -> None:
        """Until the worker that runs beside has taken them back; for that it must have been heard for `dead_after`."""
        patient_until = time.monotonic() + self._dead_after.total_seconds() * 1.5
        while orphans := await self.find():
            if time.monotonic() >= patient_until:
                self._stuck |= orphans
            await asyncio.sleep(_LOOK_SECONDS)


async def _until_dry(
    worker: Worker, waker: _DryWaker, is_due: Callable[[], Awaitable[bool]], orphans: _Orphans
) -> None:
    """Run until the worker would sleep for want of jobs, and those of the dead are back; then let it finish."""

    async def be_dry() -> None:
        pause = _SHORTEST_PAUSE
        await waker.is_dry.wait()
        # It sleeps for want of a permit or a token, perhaps: a new worker would have to come by its share anew.
        while await is_due():
            waker.is_dry.clear()
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LOOK_SECONDS)
            waker.poke()
            await waker.is_dry.wait()
        await orphans.gone()

    running = asyncio.create_task(worker.run())
    dry = asyncio.create_task(be_dry())
    try:
        await asyncio.wait([running, dry], return_when=asyncio.FIRST_COMPLETED)
        worker.stop()
        await asyncio.wait([running])
    except asyncio.CancelledError:
        # Twice for an immediate end; cancelling the worker itself would leave its handlers running.
        worker.stop()
        worker.stop()
        await asyncio.wait([running])
        raise
    finally:
        await cancel_tasks([dry])
    await running
    if not dry.cancelled():
        dry.result()


class _DryWaker:
    """Turns the worker's wish to sleep into the signal that there is nothing to claim."""

    def __init__(self) -> None:
        self.is_dry = asyncio.Event()
        self._poked = asyncio.Event()

    lease_channel: str | None = None

    def start(self) -> None:
        """Nobody is listened to."""

    def has_lease_news(self, worker_id: str) -> bool:  # noqa: ARG002 - as above
        return False

    def serve(self, queues: Sequence[str]) -> Waker:  # noqa: ARG002 - no hints are listened to
        return self

    async def wait(self, timeout: float, beside: asyncio.Future[Any] | None = None) -> bool:
        if beside is None:
            self.is_dry.set()
            await self._wait_for_poke(timeout)
        else:  # it only looks, and is told of nothing meanwhile
            await asyncio.wait([beside], timeout=timeout)
        is_poked = self._poked.is_set()
        self._poked.clear()
        return is_poked

    async def _wait_for_poke(self, timeout: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._poked.wait()

    def poke(self) -> None:
        self._poked.set()

    async def close(self) -> None:
        """Nothing is open."""


class _Sent(msgspec.Struct):
    id: str
    lease_generation: int


_sent = msgspec.json.Decoder(list[_Sent])

#: verb -> what it makes of a job whose holder it is
_SUCCESS = {
    "complete_jobs": "completed",
    "continue_jobs": "completed",
    "fail_jobs": "retried",
    "snooze_jobs": "snoozed",
    "suspend_jobs": "suspended",
    "refuse_jobs": "refused",
}


#: the lease generation of a job that was never claimed
_NEVER = 0


class _Tally:
    """Counts outcomes as the database accepts them; the same one sent again is one."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, int], str] = {}

    def note(self, statement: Statement, rows: Rows) -> None:
        if statement.name == "expire_jobs":
            self._outcomes.update({(job_id, _NEVER): outcome for job_id, outcome, *_ in rows if outcome == "expired"})
        success = _SUCCESS.get(statement.name)
        if success is None:
            return
        # Of dependants these rows speak as well, by the ids of chains and the names of queues.
        answers: dict[str, str] = {job_id: outcome for job_id, outcome in rows if outcome not in ("woken", "unsettled")}
        for lease in _sent.decode(str(statement.parameters["jobs"])):
            # Most verbs answer only with what did not go through; what was locked is sent again.
            answer = answers.get(lease.id, success)
            self._outcomes[lease.id, lease.lease_generation] = success if answer == "pending" else answer

    def counts(self) -> Drained:
        found = list(self._outcomes.values())
        return Drained(
            completed=found.count("completed"),
            retried=found.count("retried"),
            dead=found.count("dead_letter"),
            cancelled=found.count("cancelled"),
            snoozed=found.count("snoozed"),
            suspended=found.count("suspended"),
            refused=found.count("refused"),
            expired=found.count("expired"),
        )
