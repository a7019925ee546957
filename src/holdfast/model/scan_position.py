"""Where a worker's next claim starts looking.

Within one (queue, priority) claims move forward in (ready_at, seq), so each claim starts where the last one ended and
does not walk over what was claimed before: under an old snapshot the dead index entries stay, and walking them costs
five sixths of the throughput.  What re-enters behind the position (a long transaction, a skipped lock) is found by
looking back.  Who is busy and finds nothing by that looks less often: eight workers that spend a twentieth of their
time on it take a fifth of two cores away from each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

#: a point in time as the database gave it: microseconds since 2000 from PostgreSQL, fixed-width text from SQLite
Instant = int | str

#: how much of the time goes into looking back at most, and of that of a busy worker whose looks find nothing
_SHARE = 0.05
_LEAST_SHARE = 0.01
#: by how much it becomes less after each of those
_DECAY = 0.5
#: but the next look comes after this at the latest, if a twentieth of the time allows it
_LONGEST_PAUSE_SECONDS = 0.5
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
        self._next_look_back = self._next_busy_look = 0.0
        #: where lanes were that the last look has put back, and whether anything was there to be had
        self._left: dict[tuple[int, str], Lane] = {}
        self._was_worth_it = True
        self._busy_share = _SHARE

    @property
    def lanes(self) -> list[Lane]:
        """In claim order: smaller priority first."""
        return [self._lanes[key] for key in sorted(self._lanes)]

    def advance(self, claimed: Iterable[Place]) -> None:
        """Move past what a claim returned; `claimed` is in claim order."""
        last = {}
        for job in claimed:
            key = (job.priority, job.queue)
            last[key] = job
            if self._left and (left := self._left.get(key)) is not None:
                self._was_worth_it |= (job.ready_at, job.seq) <= (left.ready_at, left.seq)
                del self._left[key]  # the first of them says it all
        self._lanes |= {key: Lane(job.queue, job.priority, job.ready_at, job.seq) for key, job in last.items()}

    def look_back_soon(self) -> None:
        """What was passed by may be wanted now."""
        self._next_look_back = self._next_busy_look = 0.0

    def may_look_back(self, now: float, *, is_busy: bool = False) -> bool:
        """Whether looking back again keeps its share of the time below 5 %; less, if there is enough to do without."""
        return now >= (self._next_busy_look if is_busy else self._next_look_back)

    def seconds_until_look_back(self, now: float) -> float:
        return max(0.0, self._next_look_back - now)

    def look_back(self, found: Iterable[Place], began: float, ended: float) -> None:
        """Start each lane again at its first visible job; `found` is what the database says is there.

        An empty lane keeps its place: the next job in it comes later, and is found without looking back.
        """
        seen = {(place.priority, place.queue): _just_before(place) for place in found}
        self._busy_share = _SHARE if self._was_worth_it else max(self._busy_share * _DECAY, _LEAST_SHARE)
        self._was_worth_it = not self._lanes.keys() >= seen.keys()
        self._left = {
            key: lane for key, lane in self._lanes.items()
            if key in seen and (seen[key].ready_at, seen[key].seq) < (lane.ready_at, lane.seq)
        }  # fmt: skip
        if len(self._lanes) > _MOST_LANES:
            self._lanes.clear()
        self._lanes |= seen
        self._next_look_back = ended + _pause(ended - began, _SHARE)
        longest = max(self._next_look_back, ended + _LONGEST_PAUSE_SECONDS)
        self._next_busy_look = min(ended + _pause(ended - began, self._busy_share), longest)


def _pause(seconds: float, share: float) -> float:
    """After something that took so long, until it may be done again."""
    return seconds * (1 / share - 1)


def _just_before(place: Place) -> Lane:
    return Lane(place.queue, place.priority, place.ready_at, place.seq - 1)
