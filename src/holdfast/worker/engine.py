"""The parts of a working worker, put together: who feeds whom, and who tells whom."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.ids import Ids
from holdfast.model.schedule import AppSchedules
from holdfast.model.settings import RetrySettings
from holdfast.notify import Waker
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.worker_life import WorkerIdentity
from holdfast.stores import SyncStore
from holdfast.telemetry import Listeners
from holdfast.worker.attempt import Attempt
from holdfast.worker.buffer import Buffer
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.config import WorkerConfig
from holdfast.worker.demand import Demand
from holdfast.worker.equipment import Equipment, Hints, handlers_own
from holdfast.worker.executors.base import Done, Executor
from holdfast.worker.executors.process_line import ProcessPlan
from holdfast.worker.executors.processes import ProcessExecutor
from holdfast.worker.executors.tasks import TaskExecutor
from holdfast.worker.executors.threads import ThreadExecutor
from holdfast.worker.fetcher import Fetcher
from holdfast.worker.handler import Handler, Place
from holdfast.worker.hooks import Hooks
from holdfast.worker.journal import Journal
from holdfast.worker.leases import LeaseKeeper
from holdfast.worker.limits import Limit, limit_reached
from holdfast.worker.maintenance.housekeeping import Housekeeping
from holdfast.worker.maintenance.service import ServiceLoop
from holdfast.worker.outcomes import Outcomes
from holdfast.worker.patient_store import PatientStore
from holdfast.worker.permits import Permits
from holdfast.worker.ring_keeper import RingKeeper
from holdfast.worker.selection import Selection
from holdfast.worker.settler import Settler
from holdfast.worker.share_keeper import ShareKeeper
from holdfast.worker.slots import Slots
from holdfast.worker.stock import Stock
from holdfast.worker.tally import Tally

_log = logging.getLogger("holdfast.worker")

#: how long cancelled handlers have to clean up, and the last outcomes to be written
_GRACE = 10.0
_HURRIED_GRACE = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Supplies:
    """What the engine is given from outside, and does not close.

    - `store` is the engine's, `lease_store` the lease keeper's, `thread_store` that of handlers in threads.
    - `schedules`: those of the app's code; None if it has no say in them.
    - `listeners`: who is told of what becomes of jobs.
    - `state`: what the app's lifespan yielded.
    """

    store: PatientStore
    lease_store: SyncStore
    thread_store: SyncStore
    async_client: Any
    sync_client: Any
    ids: Ids
    hints: Hints
    waker: Waker
    processes: ProcessPlan
    hooks: Hooks
    listeners: Listeners
    schedules: AppSchedules | None
    state: Any


class Engine:
    """Runs from `start` to `close`; in between it ends by itself only at a limit or by a failure."""

    def __init__(
        self,
        identity: WorkerIdentity,
        handlers: Mapping[str, Handler],
        concurrency: int,
        config: WorkerConfig,
        supplies: Supplies,
    ) -> None:
        self._config = config
        self._supplies = supplies
        self._concurrency = concurrency
        self._served = frozenset(identity.queues)
        self._loop = asyncio.get_running_loop()
        store, waker, hooks = supplies.store, supplies.waker, supplies.hooks
        #: how many jobs became dead letters by what this worker wrote
        self.dead_letters = 0
        tally = Tally()
        self._demand = demand = Demand()
        buffer, permits = Buffer(config.batch, concurrency), Permits()
        stock = Stock(buffer, permits)
        self.outcomes = Outcomes(store, identity.id, config.batch, tally, supplies.listeners)
        self.outcomes.woken = self._tell_of_work
        self.outcomes.returned = waker.poke
        self._settler = Settler(store)
        self._settler.woken = self._tell_of_work
        self.outcomes.unsettled = self._settler.add
        self.outcomes.dead = self._count_dead
        self.outcomes.acknowledged = demand.written
        self._journal = Journal(store)
        self.slots = Slots(
            identity.id,
            handlers,
            concurrency,
            buffer=buffer,
            outcomes=self.outcomes,
            demand=demand,
            permits=permits,
            executors=self._executors,
            hook=hooks.error,
            listeners=supplies.listeners,
        )
        self._ring = RingKeeper(
            store,
            identity.id,
            identity.queues,
            config,
            is_draining=lambda: self.keeper.is_draining,
            gained=lambda _: self._fetcher.look_again(),
        )
        self._shares = ShareKeeper(
            store,
            identity.id,
            identity.queues,
            lambda queue: permits.running(queue) + self.slots.free,
            interval=config.heartbeat,
            dead_after=config.dead_after,
            changed=self._use_shares,
            in_use=permits.running,
            waiting=self.slots.waiting_of,
            at_hand=buffer.count_of,
            ahead=stock.more,
        )
        permits.most, permits.freed = self._shares.most, self._shares.freed
        self.outcomes.is_in_the_way = self._is_in_the_way
        self.slots.has_enough = stock.is_enough
        self.slots.given_back = self._shares.given_back
        self._fetcher = Fetcher(
            store,
            identity.id,
            identity.queues,
            config,
            buffer=buffer,
            slots=self.slots,
            demand=demand,
            waker=waker,
            selection=Selection(config, identity.queues, self._ring),
            shares=self._shares,
            stock=stock,
            woken=self._tell_of_work,
        )
        self.housekeeping = Housekeeping(
            store,
            identity.id,
            config,
            tally,
            make_ids=supplies.ids.make,
            schedules=supplies.schedules,
            listeners=supplies.listeners,
            is_heard=lambda: self.keeper.is_heard,
            is_steady=lambda: self.keeper.is_steady,
            returned=waker.poke,
            buried=self._count_dead,
            woken=self._tell_of_work,
        )
        self.keeper = LeaseKeeper(
            supplies.lease_store,
            identity,
            config,
            leases=self.slots.leases,
            has_news=lambda: waker.has_lease_news(identity.id),
            lost=lambda losses: self._tell(self.slots.lose, losses),
            asked_to_stop=lambda leases: self._tell(self.slots.ask_to_stop, leases),
            silent=lambda: self._tell(self.slots.fall_silent),
            heard=lambda: self._tell(self.slots.be_heard),
            leaderless=lambda: self._tell(self.housekeeping.leader.notice_vacancy),
            set_for_retries=lambda settings: self._tell(self._set_for_retries, settings),
        )
        self._limit = limit_reached(
            config, store, identity.queues, self._fetcher, self.slots, lambda: self.outcomes.finished
        )
        self._tasks: list[asyncio.Task[Any]] = []

    def start(self) -> None:
        """The caller has just registered the worker."""
        self._supplies.waker.start()
        self.keeper.start()
        self._fetching = _task(self._fetch(), "fetcher")
        self._limiting = _task(self._limit, "limit")
        self._tasks = [
            self._fetching,
            self._limiting,
            _task(self.outcomes.run(), "outcomes"),
            _task(self._settler.run(), "settler"),
            _task(self._journal.run(), "journal"),
            _task(self._supplies.hooks.run(), "hooks"),
            _task(self._shares.run(), "shares"),
            *self.housekeeping.start(),
        ]
        if self._config.affinity == "ring":
            self._tasks.append(_task(ServiceLoop(self._ring).run(), "ring"))

    async def _fetch(self) -> None:
        """Not before it is known what is whose."""
        with suppress(HoldfastError):
            await self._ring.run_once()
            await self._shares.look()
        await self._fetcher.run()

    async def until(self, stopping: asyncio.Event) -> Limit | None:
        """Return when asked to stop, when a part has failed, or with the limit that was reached."""
        asked = _task(stopping.wait(), "stop")
        try:
            await asyncio.wait([*self._tasks, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
        for task in self._tasks:
            # None of them ends by itself; what it raised is raised in the end.
            if task.done() and task is not self._limiting and (task.cancelled() or task.exception() is None):
                raise RuntimeError(f"a part of the worker has ended by itself: {task.get_name()}")
        reached: Limit | None = None
        if self._limiting.done() and self._limiting.exception() is None:
            reached = self._limiting.result()
        return reached

    async def finish(self, hurry: asyncio.Event) -> None:
        """No new claims; what is not started goes back; what runs may finish until the deadline, then is released."""
        deadline = time.monotonic() + self._config.stop_deadline.total_seconds()
        self.keeper.is_draining = True
        self.housekeeping.step_down()
        self._fetcher.stop()
        self._supplies.waker.poke()
        # A claim under way is heard out, so that its jobs are known and can be given back.
        await asyncio.wait([self._fetching], timeout=_HURRIED_GRACE)
        await cancel_tasks([self._fetching])
        self._shares.drain()
        await self.slots.finish(deadline, hurry)
        await self.slots.release_all(_HURRIED_GRACE if hurry.is_set() else _GRACE, hurry, _HURRIED_GRACE)
        for drained in (
            self.outcomes.drained,
            self._settler.drained,
            self._journal.drained,
            self._supplies.hooks.drained,
        ):
            await _unless_hurried(drained(), hurry)

    async def close(self) -> None:
        """Stop everything but the heartbeats, whatever has come before; raises what made a part fail."""
        await cancel_tasks(self._tasks)
        # Only if `finish` was cancelled, or never called, is there still something to stop.
        await self.slots.release_all(_HURRIED_GRACE)
        await self.housekeeping.close()
        for task in self._tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _executors(self, done: Done, began: Callable[[Sequence[Attempt]], None]) -> Mapping[Place, Executor]:
        """One for every place where a handler of this worker may run."""
        given, hook = self._supplies, self._supplies.hooks.error
        shared = (self._journal, given.ids, given.hints, given.state)
        asynchronous = Equipment(handlers_own(given.async_client), given.store, *shared)
        plain = Equipment(handlers_own(given.sync_client), given.thread_store, *shared)
        return {
            Place.LOOP: TaskExecutor(asynchronous, hook, done),
            Place.THREAD: ThreadExecutor(self._concurrency, plain, hook, done),
            Place.PROCESS: ProcessExecutor(given.processes, asynchronous, hook, began, done),
        }

    def _count_dead(self, job_id: str) -> None:
        self.dead_letters += 1
        self._supplies.hooks.dead(job_id)

    def _set_for_retries(self, settings: RetrySettings) -> None:
        self.outcomes.settings = settings
        self.housekeeping.set_for_retries(settings)

    def _tell_of_work(self, queues: Iterable[str]) -> None:
        """What was written has given somebody something to do."""
        self._supplies.hints.send(queues)
        if not self._served.isdisjoint(queues):
            self._supplies.waker.poke()

    def _is_in_the_way(self, job: ClaimedJob) -> bool:
        """Whether others may start when this one has ended."""
        return job.partition_key is not None or not self._shares.may_wait(job.queue)

    def _use_shares(self) -> None:
        """There may be permits for what waits, or room for more."""
        self.slots.fill()
        self._demand.room()
        self._supplies.waker.poke()

    def _tell(self, callback: Callable[..., None], *args: object) -> None:
        """From the lease keeper's thread."""
        with suppress(RuntimeError):  # the loop has closed: nobody is left to tell
            self._loop.call_soon_threadsafe(callback, *args)


async def _unless_hurried(work: Coroutine[Any, Any, None], hurry: asyncio.Event) -> None:
    """For as long as it may take, or from when somebody is in a hurry a second more."""
    working, hurried = asyncio.create_task(work), asyncio.create_task(hurry.wait())
    await asyncio.wait([working, hurried], timeout=_GRACE, return_when=asyncio.FIRST_COMPLETED)
    if hurry.is_set():
        await asyncio.wait([working], timeout=_HURRIED_GRACE)
    await cancel_tasks([working, hurried])


def _task(work: Any, name: str) -> asyncio.Task[Any]:
    return asyncio.create_task(work, name=f"holdfast-{name}")
