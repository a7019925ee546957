"""Where a worker's next claim starts looking.

Within one (queue, priority) claims move forward in (ready_at, seq), so each claim starts where the last one ended and
does not walk over what was claimed before: under an old snapshot the dead index entries stay, and walking them costs
five sixths of the throughput.  What re-enters behind the position (a long transaction, a skipped lock) is found by
looking back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

#: a point in time as the database gave it: microseconds since 2000 from PostgreSQL, fixed-width text from SQLite
Instant = int | str

_SHARE = 0.05
_MOST_LANES = 64


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """One (queue, priority), and the last place in it that is not to be looked at again.

    With a tenant: those of the tenant's jobs that go by tenant, and no others.
    """

    queue: str
    priority: int
    ready_at: Instant
    seq: int
    tenant: str | None = None


class Place(Protocol):
    """Anything that stands at a place of a lane."""

    @property
    def queue(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def ready_at(self) -> Instant: ...
    @property
    def seq(self) -> int: ...


class ScanPosition:
    """The lanes a worker knows, best priority first, and when it may next look back."""

    def __init__(self) -> None:
        self._lanes: dict[tuple[int, str], Lane] = {}
        self._next_look_back = 0.0

    @property
    def lanes(self) -> list[Lane]:
        """In claim order: smaller priority first."""
        return [self._lanes[key] for key in sorted(self._lanes)]

    def advance(self, claimed: Iterable[Place]) -> None:
        """Move past what a claim returned; `claimed` is in claim order."""
        last = {(job.priority, job.queue): job for job in claimed}
        self._lanes |= {key: Lane(job.queue, job.priority, job.ready_at, job.seq) for key, job in last.items()}

    def look_back_soon(self) -> None:
        """What was passed by may be wanted now."""
        self._next_look_back = 0.0

    def may_look_back(self, now: float) -> bool:
        """Whether looking back again keeps its share of the time below 5 %."""
        return now >= self._next_look_back

    def seconds_until_look_back(self, now: float) -> float:
        return max(0.0, self._next_look_back - now)

    def look_back(self, found: Iterable[Place], began: float, ended: float) -> None:
        """Start each lane again at its first visible job; `found` is what the database says is there.

        An empty lane keeps its place: the next job in it comes later, and is found without looking back.
        """
        seen = {(place.priority, place.queue): _just_before(place) for place in found}
        if len(self._lanes) > _MOST_LANES:
            self._lanes.clear()
        self._lanes |= seen
        self._next_look_back = ended + (ended - began) * (1 / _SHARE - 1)


def _just_before(place: Place) -> Lane:
    return Lane(place.queue, place.priority, place.ready_at, place.seq - 1)
