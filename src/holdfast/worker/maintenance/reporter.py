"""Reports how many attempts a worker has completed and failed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from holdfast.errors import HoldfastError
from holdfast.operations.stats import report_outcomes
from holdfast.worker.maintenance.service import VerbRunner
from holdfast.worker.tally import Tally


class Reporter:
    """Sends nothing when there is nothing to tell.

    A report whose answer was lost is sent again: after a broken connection a few jobs may be counted twice.
    """

    name = "reporter"
    timeout = timedelta(seconds=30)

    def __init__(self, store: VerbRunner, tally: Tally, interval: timedelta) -> None:
        self.interval = interval
        self._store = store
        self._tally = tally

    async def run_once(self) -> Mapping[str, int]:
        counts = self._tally.take()
        if counts:
            try:
                await self._store.run(lambda: report_outcomes(counts))
            except HoldfastError:
                self._tally.put_back(counts)
                raise
        # Not said aloud: this is no news.
        return {}
