"""Runs: jobs of one partition key that were claimed together and are started one after the other.

The first of them is started like any other; each of the rest when the one before it has ended well. When one has not,
those behind it go back.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease

#: how long a run should take: long enough to be worth its claim, short enough that little of it ever has to go back
_RUN_SECONDS = 0.05
#: how long a job takes, until it is known
_FIRST_GUESS = 0.005
#: how much the last job counts in what is known
_WEIGHT = 0.2
#: as many of a key are claimed at once, where they are there, before those of more keys are
_DEPTH = 50


_place = attrgetter("partition_seq")


@dataclass(slots=True, eq=False)
class Line:
    """One run: whose turn it is, those that wait, in their order, and the place of each."""

    number: int
    current: Lease
    waiting: deque[ClaimedJob]
    places: dict[Lease, int]


class Lines:
    """The runs of a worker."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._lines: dict[Lease, Line] = {}
        self._numbers = itertools.count()
        self._mean = _FIRST_GUESS
        #: of how many keys to claim; None: of as many as there are
        self._width: int | None = None

    @property
    def run(self) -> int:
        """How many to claim behind a first one."""
        return min(int(_RUN_SECONDS / self._mean), self._longest)

    def learn(self, seconds: float) -> None:
        """How long a job with a partition key has taken."""
        self._mean = max(self._mean + (seconds - self._mean) * _WEIGHT, 0.00001)

    def width(self, limit: int) -> int:
        """Of how many keys to claim where there is room for so many."""
        return limit if self._width is None else min(limit, self._width)

    def learn_width(self, keys: int, jobs: int, room: int) -> None:
        """A claim brought so many first jobs and so many in all, where there was room for some.

        Whoever takes the few jobs that there is room for from all keys leaves nothing for the next claim, his own or
        another's, until all of that is written.  Fewer keys and longer runs, and one is claimed from, one worked on and
        one written at the same time.
        """
        if jobs > keys and jobs > room - keys and self.run >= _DEPTH:
            self._width = max(keys // 2, room // _DEPTH, 1)
        elif self._width is not None and keys >= self._width and jobs < room * 4 // 5:
            self._width = 2 * self._width if 2 * self._width < room else None

    def __len__(self) -> int:
        return sum(len(line.waiting) for line in self._distinct())

    def __iter__(self) -> Iterator[ClaimedJob]:
        for line in self._distinct():
            yield from list(line.waiting)

    def enter(self, claimed: Iterable[ClaimedJob]) -> list[ClaimedJob]:
        """Those that may be started; the others of their keys wait behind them."""
        claimed = list(claimed)
        first = [job for job in claimed if job.partition_key is None]
        if len(first) == len(claimed):
            return first
        runs: dict[tuple[str, str | None], list[ClaimedJob]] = {}
        for job in claimed:
            if job.partition_key is not None:
                runs.setdefault((job.queue, job.partition_key), []).append(job)
        for jobs in runs.values():
            jobs.sort(key=_place)
            first.append(jobs[0])
            if len(jobs) > 1:
                leases = [Lease(job.id, job.lease_generation) for job in jobs]
                places = {lease: place for place, lease in enumerate(leases)}
                line = Line(next(self._numbers), leases[0], deque(jobs[1:]), places)
                self._lines.update(dict.fromkeys(leases, line))
        return first

    def place(self, lease: Lease) -> tuple[int, int] | None:
        """The number of its run, and how far from the front it stands; None of a job that came alone."""
        line = self._lines.get(lease)
        return None if line is None else (line.number, line.places[lease])

    def peek(self, lease: Lease) -> ClaimedJob | None:
        """The one behind it, whose turn is next."""
        line = self._lines.get(lease)
        return line.waiting[0] if line is not None and line.current == lease and line.waiting else None

    def next(self, lease: Lease) -> ClaimedJob | None:
        """The one behind it, whose turn it is now."""
        line = self._lines.get(lease)
        if line is None or line.current != lease or not line.waiting:
            return None
        job = line.waiting.popleft()
        line.current = Lease(job.id, job.lease_generation)
        return job

    def leave(self, lease: Lease) -> None:
        """Its outcome is written, or not ours to write."""
        self._lines.pop(lease, None)

    def break_off(self, lease: Lease) -> list[ClaimedJob]:
        """Those behind it, which will not be started."""
        line = self._lines.get(lease)
        if line is None:
            return []
        rest = list(line.waiting)
        line.waiting.clear()
        return rest

    def drop(self, leases: Collection[Lease]) -> list[ClaimedJob]:
        """Forget those that are not ours any more; returns those behind them, which have to go back.

        Also where one of those that wait is lost: perhaps it is to be run elsewhere, and they come after it.
        """
        stranded: list[ClaimedJob] = []
        for line in self._distinct():
            staying: list[ClaimedJob] = []
            is_broken = line.current in leases
            for job in line.waiting:
                lease = Lease(job.id, job.lease_generation)
                is_lost = lease in leases
                is_broken |= is_lost
                if is_broken:
                    self.leave(lease)
                    stranded += [] if is_lost else [job]
                else:
                    staying.append(job)
            line.waiting = deque(staying)
        return stranded

    def clear(self) -> list[ClaimedJob]:
        """Everything that waits, taken out."""
        jobs = list(self)
        for line in self._distinct():
            line.waiting.clear()
        for job in jobs:
            self.leave(Lease(job.id, job.lease_generation))
        return jobs

    def _distinct(self) -> Iterable[Line]:
        return set(self._lines.values()) if self._lines else ()
