"""Counts how attempts end, by queue and type, until the numbers are reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.stats import OutcomeCount


class Tally:
    """What ended since the last report, as far as the database has it."""

    def __init__(self) -> None:
        self._ended: dict[tuple[str, str], OutcomeCount] = {}

    def completed(self, jobs: Iterable[ClaimedJob]) -> None:
        for kind, count in Counter(map(_kind, jobs)).items():
            self._count(*kind).completed += count

    def failed(self, jobs: Iterable[ClaimedJob]) -> None:
        for kind, count in Counter(map(_kind, jobs)).items():
            self._count(*kind).failed += count

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


_kind = attrgetter("queue", "type_name")
