"""Whose turn it is: the tenants of a queue that is fair by tenant, one after the other.

A worker knows a window of them, the next ones behind those that it has served.  Each claim asks every tenant in it for
its share, beginning with the one that was served longest ago.  Whoever has nothing more is left out until the next look
at the database, and the others share what is left.  When all in a full window have had their turn, it moves on to the
next ones; where there are fewer, a look every few claims shows whether somebody has come.  So neither claims nor looks
cost more because there are more tenants, or because one has more jobs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from holdfast.model.scan_position import Instant, Lane, Place

#: how many tenants are looked at in one go: a look costs two or three index descents for each
WINDOW = 32
#: after how many claims somebody may have come whom a worker does not know
_CLAIMS = 4
#: what is lost in adding up parts
_TRIFLE = 0.001
#: at most which part of the time is spent on the way to the next ones
_SHARE = 0.5


class TenantLane(NamedTuple):
    """A priority of a tenant with its first job; or, all but the tenant None, a tenant with nothing to claim."""

    place: int
    tenant: str
    priority: int | None
    ready_at: Instant | None
    seq: int | None
    due_in_ms: int | None


class TenantPlace(Place, Protocol):
    """Anything that stands at a place of a tenant's lane."""

    @property
    def tenant(self) -> str | None: ...


class Part(NamedTuple):
    """One claim: into which lanes it looks, for how many jobs in all, and how many of each tenant; None: any number."""

    lanes: list[Lane]
    limit: int
    most: int | None


class TenantTurns:
    """The turns of one queue, as one worker sees them."""

    def __init__(self, queue: str) -> None:
        self._queue = queue
        #: by tenant, in the order of their turns, the lanes that are left, best priority first
        self._lanes: dict[str, list[Lane]] = {}
        #: those that came back short
        self._spent: dict[str, list[Lane]] = {}
        #: the tenants of the last look, in the order of the database, and whether there may be others behind them
        self._seen: list[str] = []
        self._is_full = False
        self._served: dict[str, int] = {}
        self._number = 0
        self._start = ""
        self._claims = 0
        #: what jobs without a tenant, who count as one more, have not got yet of what is theirs
        self._credit = 0.0
        self._is_plain_spent = False
        #: nothing was there at the last look, and nothing has been claimed since
        self.is_quiet = False

    @property
    def after(self) -> str:
        """Behind which tenant the next look begins: behind those who have had a turn."""
        after = self._start
        for tenant in self._seen:
            if tenant in self._lanes and tenant not in self._served:
                break
            after = tenant
        return after

    @property
    def lanes(self) -> list[Lane]:
        """Of each tenant the best one, in the order of their turns."""
        return [lanes[0] for lanes in self._lanes.values()]

    @property
    def is_over(self) -> bool:
        """Everybody in the window has had a turn, and there may be others."""
        return self.after == self._seen[-1] if self._is_full else self._claims >= _CLAIMS

    def look(self, found: Sequence[TenantLane], *, has_plain: bool | None = None) -> None:
        """Begin a new window; `found` is in the order of the database. Others are looked for less often: None."""
        self._start = self.after
        self._claims = 0
        self._seen = list(dict.fromkeys(lane.tenant for lane in found))
        self._is_full = len(self._seen) >= WINDOW
        due: dict[str, list[Lane]] = {}
        for lane in found:
            if lane.priority is not None and lane.ready_at is not None and lane.seq is not None and not lane.due_in_ms:
                just_before = Lane(self._queue, lane.priority, lane.ready_at, lane.seq - 1, lane.tenant)
                due.setdefault(lane.tenant, []).append(just_before)
        order = sorted(due, key=lambda tenant: self._served.get(tenant, 0))
        self._lanes = {tenant: due[tenant] for tenant in order}
        # Where one round shows them all, who was served last stays last; else the walk sees to it.
        self._served = {} if self._is_full else {name: turn for name, turn in self._served.items() if name in due}
        self._spent = {}
        if has_plain is not None:
            self._is_plain_spent = not has_plain
        self.is_quiet = False

    def parts(self, plain: list[Lane], limit: int) -> list[Part]:
        """The claim to make, if any; `plain` are the lanes of jobs that do not go by tenant.

        These get whole claims, in their turn: two small claims in the place of one keep a worker from fetching ahead.
        """
        tenants = self.lanes
        if plain and not self._is_plain_spent:
            self._credit += limit / (len(tenants) + 1)
            if self._credit >= limit - _TRIFLE:
                self._credit -= limit
                return [Part(plain, limit, None)]
        return [Part(tenants[:limit], limit, math.ceil(limit / len(tenants)))] if tenants else []

    def took_plain(self, *, is_more: bool) -> None:
        self._is_plain_spent = not is_more

    def took(
        self,
        part: Part,
        claimed: Iterable[TenantPlace],
        passed: Iterable[TenantPlace],
        left: Mapping[str | None, int],
    ) -> None:
        """What a claim by turns has brought.

        `passed` are the last places of lanes in which jobs were left, `left` is how many were found and not claimed.
        """
        self._claims += 1
        counts = Counter(left)
        places: dict[str | None, Lane] = {}
        for job in claimed:
            counts[job.tenant] += 1
            places[job.tenant] = Lane(job.queue, job.priority, job.ready_at, job.seq, job.tenant)
        for place in passed:
            places[place.tenant] = Lane(place.queue, place.priority, place.ready_at, place.seq, place.tenant)
        room = part.limit
        for lane in part.lanes:
            tenant = lane.tenant
            if room <= 0 or tenant is None:
                break
            lanes = self._lanes.pop(tenant, None)
            if lanes is None:
                continue
            share = min(room, part.limit if part.most is None else part.most)
            room -= counts[tenant]
            self._number += 1
            self._served[tenant] = self._number
            here = places.get(tenant, lane)
            if counts[tenant] >= share:
                lanes[0] = here
            else:
                self._spent.setdefault(tenant, []).append(here)
                del lanes[0]
            if lanes:
                self._lanes[tenant] = lanes  # behind all others
        if counts.total():
            self.is_quiet = False

    def revive(self) -> None:
        """Something may have come in where there was nothing more."""
        for tenant, lanes in self._spent.items():
            self._lanes[tenant] = [*lanes, *self._lanes.get(tenant, [])]
        self._spent = {}
        self._is_plain_spent = False


class FairQueues:
    """The queues of a worker in which tenants take turns."""

    def __init__(self) -> None:
        self._turns: dict[str, TenantTurns] = {}
        #: those in which something is due, as far as is known
        self._due: set[str] = set()
        self._next_walk = 0.0

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._turns)

    @property
    def lanes(self) -> list[Lane]:
        return [lane for turns in self._turns.values() for lane in turns.lanes]

    def after(self, queue: str) -> str:
        """Behind which tenant a look begins."""
        return self._turns[queue].after if queue in self._turns else ""

    def has_turn(self, queue: str) -> bool:
        """Whether somebody is known to have something left."""
        return queue in self._turns and bool(self._turns[queue].lanes)

    def look(self, found: Mapping[str, Sequence[TenantLane]], plain: Collection[str], empty: Iterable[str]) -> None:
        """By queue what was found; `plain` are the queues that have other jobs, `empty` those that have no such."""
        self._due = set(found)
        for queue, lanes in found.items():
            self._turns.setdefault(queue, TenantTurns(queue)).look(lanes, has_plain=queue in plain)
        for queue in self.names.difference(found):
            self._turns[queue].took_plain(is_more=queue in plain)
        for queue in self.names.intersection(empty):
            if self._turns[queue].is_quiet:
                del self._turns[queue]
            else:
                self._turns[queue].is_quiet = True

    def to_walk(self, now: float) -> list[str]:
        """The queues in which it is time to see who comes next."""
        return [] if now < self._next_walk else self._over()

    def seconds_until_walk(self, now: float) -> float:
        return max(0.0, self._next_walk - now) if self._over() else math.inf

    def walked(self, found: Mapping[str, Sequence[TenantLane]], began: float, ended: float) -> None:
        """The next ones, by queue."""
        for queue, lanes in found.items():
            self._turns[queue].look(lanes)
        self._next_walk = ended + (ended - began) * (1 / _SHARE - 1)

    def _over(self) -> list[str]:
        return [queue for queue in self._due if self._turns[queue].is_over]

    def parts(self, lanes: list[Lane], limit: int) -> list[Part]:
        """The claim to make, if any; `lanes` are those of one fair queue, or of any number of others."""
        turns = self._turns.get(lanes[0].queue)
        if turns is None:
            return [Part(lanes, limit, None)]
        return turns.parts([lane for lane in lanes if lane.tenant is None], limit)

    def took_plain(self, queue: str, *, is_more: bool) -> None:
        """A claim of jobs that do not go by tenant was answered."""
        if queue in self._turns:
            self._turns[queue].took_plain(is_more=is_more)

    def took(
        self,
        part: Part,
        claimed: Iterable[TenantPlace],
        passed: Iterable[TenantPlace],
        left: Mapping[str | None, int],
    ) -> None:
        """A claim by turns was answered; see `TenantTurns.took`."""
        turns = self._turns.get(part.lanes[0].queue)
        if turns is not None:
            turns.took(part, claimed, passed, left)

    def revive(self) -> None:
        """Something may have come in anywhere."""
        for turns in self._turns.values():
            turns.revive()
