"""Returns the jobs of dead workers and of leases that ran out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from holdfast.operations.lease import Lease
from holdfast.operations.reap_jobs import Reapable, reap_jobs
from holdfast.operations.worker_life import forget_workers
from holdfast.worker.patient_store import PatientStore

#: a living worker's lease runs out when somebody keeps its row locked: for so many times `dead_after` it may catch up
_EXPIRY_GRACE = 10


class Reaper:
    """Reaps nothing until this worker has been heard without a gap for `dead_after`.

    After an outage everybody's heartbeat looks stale; whoever reaped at once would take every living worker's jobs.
    `returned` is called when jobs have come back.
    """

    name = "reaper"
    timeout = timedelta(seconds=30)

    def __init__(
        self,
        store: PatientStore,
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
        self._expired: dict[Lease, float] = {}

    async def run_once(self) -> Mapping[str, int]:
        counts = {"returned": 0, "dead_letters": 0, "cancelled": 0, "dead_workers": 0}
        while self._is_steady():
            reaped = await self._store.run(lambda: reap_jobs(self._worker_id, self._dead_after, self._choose))
            counts["returned"] += reaped.returned
            counts["dead_letters"] += reaped.dead_letters
            counts["cancelled"] += reaped.cancelled
            if not any(reaped):
                break
        if counts["returned"]:
            self._returned()
        if self._is_steady():
            counts["dead_workers"] = len(await self._store.run(lambda: forget_workers(self._dead_after)))
        return counts

    def _choose(self, found: Sequence[Reapable]) -> Sequence[Reapable]:
        if not self._is_steady():
            return ()
        now = time.monotonic()
        leases = {Lease(job.id, job.lease_generation) for job in found if not job.is_owner_dead}
        self._expired = {lease: self._expired.get(lease, now) for lease in leases}
        patient_since = now - _EXPIRY_GRACE * self._dead_after.total_seconds()
        overdue = {lease for lease, since in self._expired.items() if since <= patient_since}
        # One that is locked now stays; its patience begins anew.
        self._expired |= dict.fromkeys(overdue, now)
        return [job for job in found if job.is_owner_dead or Lease(job.id, job.lease_generation) in overdue]
