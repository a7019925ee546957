"""Which services there are, and where each of them runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from datetime import timedelta

from holdfast.errors import HoldfastError
from holdfast.model.schedule import AppSchedules
from holdfast.model.settings import RetrySettings
from holdfast.operations.fire_schedule import MakeIds
from holdfast.telemetry import Listeners
from holdfast.worker.cancel_tasks import cancel_tasks
from holdfast.worker.config import WorkerConfig
from holdfast.worker.maintenance.expirer import Expirer
from holdfast.worker.maintenance.key_sweeper import KeySweeper
from holdfast.worker.maintenance.leader import Leader
from holdfast.worker.maintenance.limit_sweeper import LimitSweeper
from holdfast.worker.maintenance.pruner import Pruner
from holdfast.worker.maintenance.reaper import Reaper
from holdfast.worker.maintenance.reporter import Reporter
from holdfast.worker.maintenance.schedule_keeper import ScheduleKeeper
from holdfast.worker.maintenance.scheduler import Scheduler
from holdfast.worker.maintenance.service import ServiceLoop, VerbRunner
from holdfast.worker.maintenance.statistician import Statistician
from holdfast.worker.maintenance.unblocker import Unblocker
from holdfast.worker.maintenance.worker_cleaner import WorkerCleaner
from holdfast.worker.tally import Tally

_log = logging.getLogger("holdfast.maintenance")

#: in heartbeats, between two looks of the reaper: often enough for 30 s in all, seldom enough for an idle worker
_REAP_PAUSE = 0.8
#: how long the last report may take
_CLOSE_SECONDS = 1.0


class Housekeeping:
    """The reaper, the reporter and the keeper of its own schedules in every worker, all else in the one that leads.

    - `tally`: what this worker has to report.
    - `make_ids`: for jobs of schedules; `schedules`: those of this worker's code, if it has a say in them.
    - `listeners`: who is told of what becomes of jobs.
    - `is_heard`: whether this worker has been heard of late.
    - `is_steady`: whether this worker has been heard without a gap for long enough to judge others.
    - `returned` is called when jobs came back, `buried` with those that became dead letters, `woken` with the queues
      that got work.
    """

    def __init__(
        self,
        store: VerbRunner,
        worker_id: str,
        config: WorkerConfig,
        tally: Tally,
        *,
        make_ids: MakeIds,
        schedules: AppSchedules | None,
        listeners: Listeners,
        is_heard: Callable[[], bool],
        is_steady: Callable[[], bool],
        returned: Callable[[], None],
        buried: Callable[[str], None],
        woken: Callable[[Iterable[str]], None],
    ) -> None:
        self.leader = Leader(store, worker_id, config.heartbeat)
        self._reaper = Reaper(
            store,
            worker_id,
            config.dead_after,
            config.heartbeat * _REAP_PAUSE,
            is_heard=is_heard,
            is_steady=is_steady,
            returned=returned,
            buried=buried,
            listeners=listeners,
        )
        self._reporter = Reporter(store, tally, config.heartbeat * 2)
        self._everywhere = [ServiceLoop(self._reaper), ServiceLoop(self._reporter)]
        if schedules is not None:
            self._everywhere.append(ServiceLoop(ScheduleKeeper(store, worker_id, schedules, config.heartbeat)))
        led = self.leader.store
        self.leader.services = [
            ServiceLoop(service)
            for service in (
                Scheduler(led, make_ids, config.poll, woken, listeners),
                Expirer(led, config.poll, woken, listeners),
                Unblocker(led, woken, listeners, has_claimers=True),
                KeySweeper(led, woken),
                LimitSweeper(led, woken),
                WorkerCleaner(led, config.dead_after, config.heartbeat, is_steady=is_steady),
                Pruner(led),
                Statistician(self.leader, worker_id, config.heartbeat * 3, self.successes),
            )
        ]
        self._leading: asyncio.Task[None] | None = None
        self._stepping_down: asyncio.Task[None] | None = None

    def set_for_retries(self, settings: RetrySettings) -> None:
        """What operators have set from now on."""
        self._reaper.settings = settings

    @property
    def services(self) -> list[ServiceLoop]:
        """Each with the time of its last success in this process."""
        return [*self._everywhere, *self.leader.services]

    def successes(self) -> dict[str, timedelta]:
        """How long ago each service that ever had one had its last success."""
        now = time.monotonic()
        return {
            loop.service.name: timedelta(seconds=now - loop.last_success)
            for loop in self.services
            if loop.last_success is not None
        }

    def start(self) -> list[asyncio.Task[None]]:
        """None of them ends by itself, unless it fails."""
        self._leading = asyncio.create_task(self.leader.run(), name="holdfast-leader")
        everywhere = [
            asyncio.create_task(loop.run(), name=f"holdfast-{loop.service.name}") for loop in self._everywhere
        ]
        return [*everywhere, self._leading]

    def step_down(self) -> asyncio.Task[None]:
        """Lead no more, so that another may begin; can be waited for, and asked for again."""
        if self._stepping_down is None:
            self._stepping_down = asyncio.create_task(self._step_down())
        return self._stepping_down

    async def close(self) -> None:
        """When all outcomes are written: the last report, and no more leading."""
        await self.step_down()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._reporter.run_once()
        except (HoldfastError, TimeoutError) as error:
            _log.warning("the last report was not written: %s: %s", type(error).__name__, error)

    async def _step_down(self) -> None:
        if self._leading is not None:
            await cancel_tasks([self._leading])
            await self.leader.resign()
