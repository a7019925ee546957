"""How much of a queue with a concurrency limit a worker keeps at hand, beyond what has a permit.

As much as of any queue, in time, but measured by what ends of this one: of fast jobs some hundreds, so that claims go
on while others are written; of long ones nothing, so that whoever has a permit for them gets them.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.worker.buffer import Buffer
from holdfast.worker.pace import Pace
from holdfast.worker.permits import Permits


class Stock:
    """The paces of limited queues, and what follows from them; sizes as those of the buffer."""

    def __init__(self, buffer: Buffer, permits: Permits) -> None:
        self._buffer = buffer
        self._permits = permits
        self._paces: dict[str, Pace] = {}
        #: with how many on the shelf more are of use
        self._low: dict[str, int] = {}

    def measure(self, queues: Iterable[str]) -> None:
        """Keep the paces of limited queues fresh; these are all that are limited now."""
        self._paces = {queue: self._paces.get(queue) or Pace(*self._counts(queue)) for queue in queues}
        for queue, pace in self._paces.items():
            if pace.measure(*self._counts(queue)):
                self._low[queue] = self._buffer.low_water_of(pace.rate)

    def appetite(self, queue: str) -> int:
        """How many to claim at a time, before there are permits for them."""
        pace = self._paces.get(queue)
        return 0 if pace is None else self._buffer.portion(pace.rate)

    def more(self, queue: str, waiting: int) -> int:
        """How many to claim where so many wait already that have no permit: one portion while one is started from."""
        pace = self._paces.get(queue)
        if pace is None:
            return 0
        portion = self._buffer.portion(pace.rate)
        return portion if waiting <= portion + self._buffer.low_water_of(pace.rate) else 0

    def is_enough(self, queue: str) -> bool:
        """Whether so many wait for permits that more are of no use."""
        return self._buffer.shelf.count_of(queue) > self._low.get(queue, 0)

    def rest(self, queue: str) -> None:
        """What was at hand could not be started; the pace is measured anew."""
        if (pace := self._paces.get(queue)) is not None:
            pace.rest()
            self._low[queue] = 0

    def _counts(self, queue: str) -> tuple[int, int]:
        return self._permits.ended(queue), self._permits.running(queue)
