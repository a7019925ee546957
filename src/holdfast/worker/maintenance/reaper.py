"""Returns the jobs of dead workers and of leases that ran out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from holdfast.operations.reap_jobs import reap_jobs
from holdfast.operations.worker_life import forget_workers
from holdfast.stores import AsyncStore


class Reaper:
    """Reaps nothing until this worker has been heard without a gap for `dead_after`.

    After an outage everybody's heartbeat looks stale; whoever reaped at once would take every living worker's jobs.
    `returned` is called when jobs have come back.
    """

    name = "reaper"
    timeout = timedelta(seconds=30)

    def __init__(
        self,
        store: AsyncStore,
        worker_id: str,
        dead_after: timedelta,
        interval: timedelta,
        *,
        is_steady: Callable[[], bool],
        returned: Callable[[], None],
    ) -> None:
        self.interval = interval
        self._store = store
        self._worker_id = worker_id
        self._dead_after = dead_after
        self._is_steady = is_steady
        self._returned = returned

    async def run_once(self) -> Mapping[str, int]:
        counts = {"returned": 0, "dead_letters": 0, "dead_workers": 0}
        while self._is_steady():
            reaped = await self._store.run(lambda: reap_jobs(self._worker_id, self._dead_after, self._is_steady))
            counts["returned"] += reaped.returned
            counts["dead_letters"] += reaped.dead_letters
            if reaped.returned + reaped.dead_letters == 0:
                break
        if counts["returned"]:
            self._returned()
        if self._is_steady():
            counts["dead_workers"] = len(await self._store.run(lambda: forget_workers(self._dead_after)))
        return counts
