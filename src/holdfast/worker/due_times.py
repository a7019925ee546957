"""When a worker should claim again although nobody tells it to: what is due, as far as looks and claims have shown."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from holdfast.worker.share_keeper import ShareKeeper

#: a share is being asked for, or has just come
_BUSY_SECONDS = 0.005


class DueTimes:
    """The last look, less what the claims since then have taken.

    A due time is a reason to claim once: what a claim has looked for and not found is no reason to look for it again
    before the next look.  Three things stay reasons: what is due later, what there was no room for in a limited queue,
    and what a claim that came back full has left.
    """

    def __init__(self, shares: ShareKeeper, look_back_soon: Callable[[], None]) -> None:
        self._shares = shares
        self._look_back_soon = look_back_soon
        self._due: list[tuple[float, str]] = []
        #: the queues that the last claims have looked into, and whether there may be more in them
        self._asked: dict[str, bool] = {}
        #: there may be more in a limited queue, of which nothing is claimed before a slot is free
        self.lacks_slot = False

    @property
    def lacks_room(self) -> bool:
        """There is more in a limited queue, of which nothing may be claimed for now."""
        return any(self._shares.room(queue) == 0 for _, queue in self._due)

    def looked(self, due: Iterable[tuple[float, str]]) -> None:
        """These are all: when, and in which queue."""
        self._due = list(due)

    def begin_claims(self) -> None:
        self.lacks_slot = False
        self._asked.clear()

    def claimed(self, queues: Iterable[str], *, is_more: bool) -> None:
        """A claim has looked into these."""
        self._asked |= dict.fromkeys(queues, is_more)

    def wants_room(self, queue: str) -> None:
        """There is more in a limited queue: it is due as soon as there is room again."""
        if all(known != queue for _, known in self._due):
            self._due.append((time.monotonic(), queue))

    def forget_taken(self, began: float) -> None:
        """The claims that began then came back short."""
        self._due = [(at, queue) for at, queue in self._due if at > began or self._is_still_due(queue)]

    def _is_still_due(self, queue: str) -> bool:
        if queue in self._asked:
            return self._asked[queue]
        if self._shares.room(queue) != 0 and not self.lacks_slot:
            self._look_back_soon()  # it stands in a lane that we do not know
            return False
        return True

    def seconds_left(self, now: float) -> float:
        """Until something can be claimed that we know of, by time alone; whatever else makes room wakes us."""
        waits = (max(at - now, self._seconds_until_room(queue)) for at, queue in self._due)
        return min((wait for wait in waits if wait > 0 or not self.lacks_slot), default=math.inf)

    def _seconds_until_room(self, queue: str) -> float:
        return max(self._shares.seconds_until_room(queue), _BUSY_SECONDS) if self._shares.room(queue) == 0 else 0.0
