"""Counts how attempts end, by queue and type, until the numbers are reported."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.stats import OutcomeCount


class Tally:
    """What ended since the last report, as far as the database has it."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, str], OutcomeCount] = {}

    def completed(self, job: ClaimedJob) -> None:
        self._count(job.queue, job.type_name).completed += 1

    def failed(self, job: ClaimedJob) -> None:
        self._count(job.queue, job.type_name).failed += 1

    def take(self) -> list[OutcomeCount]:
        """What to report; put it back if that fails."""
        taken, self._ended = list(self._ended.values()), {}
        return taken

    def put_back(self, counts: Iterable[OutcomeCount]) -> None:
        for count in counts:
            known = self._count(count.queue, count.type_name)
            known.completed += count.completed
            known.failed += count.failed

    def _count(self, queue: str, type_name: str) -> OutcomeCount:
        found = self._ended.get((queue, type_name))
        if found is None:
            found = self._ended[queue, type_name] = OutcomeCount(queue, type_name)
        return found
