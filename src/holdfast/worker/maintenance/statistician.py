"""Keeps the counts that commands and dashboards read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from holdfast.operations.stats import count_jobs, keep_stats
from holdfast.worker.maintenance.leader import Leader


class Statistician:
    """Counts by bounded looks, outside of any write transaction, and writes down what it found.

    With it, how long ago each service of this worker had its last success: `successes`.
    """

    name = "statistician"
    timeout = timedelta(seconds=30)

    def __init__(
        self, leader: Leader, worker_id: str, interval: timedelta, successes: Callable[[], Mapping[str, timedelta]]
    ) -> None:
        self.interval = interval
        self._successes = successes
        self._leader = leader
        self._worker_id = worker_id

    async def run_once(self) -> Mapping[str, int]:
        store = self._leader.store
        counts = await store.run(count_jobs, read_only=True)
        term = self._leader.term
        if term is not None:
            await store.run(lambda: keep_stats(self._worker_id, term, counts, self._successes()))
        return {}
