"""Ends what has had its time: jobs that nobody started, and keys that handlers once used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from holdfast.operations.expire_jobs import expire_jobs
from holdfast.operations.process_once import forget_processed
from holdfast.telemetry import Listeners
from holdfast.telemetry.verbs import expired
from holdfast.worker.maintenance.service import VerbRunner

_BATCH = 500


class Expirer:
    """Claims leave expired jobs alone; this ends them, so that they are seen and those who wait for them are told.

    `woken` is called with the queues that got work by it. Keys of `ctx.once` are dropped when they are no longer kept.
    """

    name = "expirer"
    timeout = timedelta(seconds=30)

    def __init__(
        self, store: VerbRunner, interval: timedelta, woken: Callable[[Iterable[str]], None], listeners: Listeners
    ) -> None:
        self.interval = interval
        self._store = store
        self._woken = woken
        self._listeners = listeners

    async def run_once(self) -> Mapping[str, int]:
        counts = {"expired": 0, "forgotten": 0}
        while True:
            done = await self._store.run(lambda: expire_jobs(_BATCH))
            counts["expired"] += done.expired
            if self._listeners.heard:
                self._listeners.tell(expired(done.jobs))
            if done.woken:
                self._woken(done.woken)
            if done.expired < _BATCH:
                break
        while True:
            forgotten = await self._store.run(lambda: forget_processed(_BATCH))
            counts["forgotten"] += forgotten
            if forgotten < _BATCH:
                return counts
