"""Returns the jobs of dead workers and of leases that ran out."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from holdfast.model.settings import RetrySettings
from holdfast.model.status import Status
from holdfast.operations.lease import Lease
from holdfast.operations.reap_jobs import Reapable, reap_jobs
from holdfast.telemetry import Listeners
from holdfast.telemetry.verbs import reaped as told
from holdfast.worker.maintenance.service import VerbRunner

#: a living worker's lease runs out when somebody keeps its row locked: for so many times `dead_after` it may catch up
_EXPIRY_GRACE = 10


class Reaper:
    """Reaps nothing until this worker, or others in turn, have been heard without a gap for `dead_after`.

    Where workers live for a shorter time than that, none of them could judge by itself. After an outage everybody's
    heartbeat looks stale; whoever reaped at once would take every living worker's jobs. `returned` is called when jobs
    have come back. Runs in every worker: what a dead leader held is not to wait for the next leader, nor the jobs of
    all for one that has just started and must hold still.
    """

    name = "reaper"
    timeout = timedelta(seconds=30)

    def __init__(
        self,
        store: VerbRunner,
        worker_id: str,
        dead_after: timedelta,
        interval: timedelta,
        *,
        is_heard: Callable[[], bool],
        is_steady: Callable[[], bool],
        returned: Callable[[], None],
        buried: Callable[[str], None],
        listeners: Listeners,
    ) -> None:
        #: what operators have set for retries
        self.settings = RetrySettings()
        self.interval = interval
        self._store = store
        self._worker_id = worker_id
        self._dead_after = dead_after
        self._is_heard = is_heard
        self._is_steady = is_steady
        self._returned = returned
        self._buried = buried
        self._listeners = listeners
        self._expired: dict[Lease, float] = {}

    async def run_once(self) -> Mapping[str, int]:
        counts = {"returned": 0, "dead_letters": 0, "cancelled": 0}
        while self._is_heard():
            reaped = await self._store.run(
                lambda: reap_jobs(
                    self._worker_id, self._dead_after, self._choose, is_steady=self._is_steady, settings=self.settings
                )
            )
            counts["returned"] += reaped.returned
            counts["dead_letters"] += reaped.dead_letters
            counts["cancelled"] += reaped.cancelled
            if self._listeners.heard:
                self._listeners.tell(told(reaped.jobs))
            for job, became, _ in reaped.jobs:
                if became == Status.DEAD_LETTER:
                    self._buried(job.id)
            if not reaped:
                break
        if counts["returned"]:
            self._returned()
        return counts

    def _choose(self, found: Sequence[Reapable]) -> Sequence[Reapable]:
        if not self._is_heard():
            return ()
        now = time.monotonic()
        leases = {Lease(job.id, job.lease_generation) for job in found if not job.is_owner_dead}
        self._expired = {lease: self._expired.get(lease, now) for lease in leases}
        patient_since = now - _EXPIRY_GRACE * self._dead_after.total_seconds()
        overdue = {lease for lease, since in self._expired.items() if since <= patient_since}
        # One that is locked now stays; its patience begins anew.
        self._expired |= dict.fromkeys(overdue, now)
        return [job for job in found if job.is_owner_dead or Lease(job.id, job.lease_generation) in overdue]
