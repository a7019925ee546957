"""Returns the jobs of dead workers and of leases that ran out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from holdfast.operations.reap_jobs import reap_jobs
from holdfast.operations.worker_life import forget_workers
from holdfast.stores import AsyncStore


class Reaper:
    """Reaps nothing for `dead_after` since the database was last out of reach.

    After an outage everybody's heartbeat looks stale; whoever reaped at once would take every living worker's jobs.
    """

    name = "reaper"
    timeout = timedelta(seconds=30)

    def __init__(
        self,
        store: AsyncStore,
        worker_id: str,
        dead_after: timedelta,
        interval: timedelta,
        recovered_at: Callable[[], float],
    ) -> None:
        self.interval = interval
        self._store = store
        self._worker_id = worker_id
        self._dead_after = dead_after
        self._recovered_at = recovered_at

    async def run_once(self) -> Mapping[str, int]:
        counts = {"returned": 0, "dead_letters": 0, "dead_workers": 0}
        if time.monotonic() - self._recovered_at() < self._dead_after.total_seconds():
            return counts
        counts["dead_workers"] = len(await self._store.run(lambda: forget_workers(self._dead_after)))
        while True:
            reaped = await self._store.run(lambda: reap_jobs(self._worker_id, self._dead_after))
            counts["returned"] += reaped.returned
            counts["dead_letters"] += reaped.dead_letters
            if reaped.returned + reaped.dead_letters == 0:
                return counts
