"""Makes the schedules in the database those of this worker's code."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta

from holdfast.model.schedule import AppSchedules
from holdfast.operations.sync_schedules import Synced, sync_schedules
from holdfast.worker.maintenance.service import VerbRunner

_log = logging.getLogger("holdfast.maintenance")

#: in heartbeats, while workers with other code are in the way: about as long as it takes to notice that one has died
_WAITING_PAUSE = 3
_SETTLED_PAUSE = timedelta(minutes=10)


class ScheduleKeeper:
    """In every worker, once at its start and again while something had to wait for workers with other code."""

    name = "schedule keeper"
    timeout = timedelta(seconds=30)

    def __init__(self, store: VerbRunner, worker_id: str, schedules: AppSchedules, heartbeat: timedelta) -> None:
        self.interval = heartbeat * _WAITING_PAUSE
        self._store = store
        self._worker_id = worker_id
        self._schedules = schedules
        self._waiting_pause = heartbeat * _WAITING_PAUSE
        self._told = Synced()

    async def run_once(self) -> Mapping[str, int]:
        app, definitions = self._schedules.app, self._schedules.definitions
        synced = await self._store.run(lambda: sync_schedules(app, definitions.values(), self._worker_id))
        self.interval = self._waiting_pause if synced.deferred else _SETTLED_PAUSE
        if synced.deferred and synced.deferred != self._told.deferred:
            names = ", ".join(synced.deferred)
            _log.info("schedules that live workers with other code have otherwise stay until these are gone: %s", names)
        if synced.taken and synced.taken != self._told.taken:
            names = ", ".join(synced.taken)
            _log.warning("schedules of these names were created at run time, so those in code do not come: %s", names)
        self._told = synced
        return {"created": len(synced.created), "changed": len(synced.changed), "retired": len(synced.retired)}
