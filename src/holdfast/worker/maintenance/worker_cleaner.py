"""Keeps the registry of workers true: the silent are marked dead, and the long dead are dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta

from holdfast.operations.worker_life import forget_workers, heard_steadily
from holdfast.worker.maintenance.service import VerbRunner


class WorkerCleaner:
    """Marks nobody until somebody has been heard without a gap for `dead_after`: see the reaper."""

    name = "worker cleaner"
    timeout = timedelta(seconds=30)

    def __init__(
        self, store: VerbRunner, dead_after: timedelta, interval: timedelta, *, is_steady: Callable[[], bool]
    ) -> None:
        self.interval = interval
        self._store = store
        self._dead_after = dead_after
        self._is_steady = is_steady

    async def run_once(self) -> Mapping[str, int]:
        if not self._is_steady() and not await self._store.run(lambda: heard_steadily(self._dead_after)):
            return {"dead_workers": 0}
        return {"dead_workers": len(await self._store.run(lambda: forget_workers(self._dead_after)))}
