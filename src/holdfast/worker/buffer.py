"""Claimed jobs that wait for a slot.

`ready` may be started; `reserve` is one prefetched batch that the database still knows as not started, so that a crash
gives its jobs their attempt back.  The claim that fetches the next reserve makes the last one ready.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from holdfast.model.scan_position import Instant
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease
from holdfast.worker.lines import Lines

#: how much work to keep at hand, as time: long enough to bridge a round trip, short enough to leave the rest to others
_HORIZON_SECONDS = 0.03
#: and where claims take long, so many of them: a fetch begins when half of it is left, which has to last until it ends
_HORIZON_ROUND_TRIPS = 3
#: but never more than this
_LONGEST_HORIZON_SECONDS = 0.5
#: how much the last claim counts in what is known of how long they take
_WEIGHT = 0.3
#: between two looks at the rate: shorter spans are mostly noise
_LOOK_SECONDS = 0.01
#: over which the rate is measured at most: jobs that take as long as this are not fetched ahead
_MEMORY_SECONDS = 1.0


class Buffer:
    """The two levels, and how much each should hold; `slots` is how many jobs run at once."""

    def __init__(self, batch: int, slots: int = 1) -> None:
        self._batch = batch
        self._slots = slots
        self.ready: deque[ClaimedJob] = deque()
        self.reserve: list[ClaimedJob] = []
        #: behind those, others of their partition keys
        self.lines = Lines(batch)
        #: how many jobs can be started soon, beyond those that have a free slot now
        self.appetite = 0
        #: when so few are ready, it is time to fetch
        self.low_water = 0
        self._marks: list[Instant] = []
        self._rate = 0.0
        self._round_trip = 0.0
        #: how many had finished, and when
        self._looks = deque([(time.monotonic(), 0)])

    def __len__(self) -> int:
        return len(self.ready) + len(self.reserve) + len(self.lines)

    def __iter__(self) -> Iterator[ClaimedJob]:
        yield from list(self.ready)
        yield from list(self.reserve)
        yield from self.lines

    def count_of(self, queue: str) -> int:
        """How many wait, of one queue."""
        return sum(job.queue == queue for job in self)

    @property
    def reserved_at(self) -> Instant | None:
        """The instant of the prefetching claim."""
        return self.reserve[0].claimed_at if self.reserve else None

    def measure(self, finished: int) -> None:
        """Keep the rate of finished jobs fresh; `finished` is a running total."""
        now = time.monotonic()
        if now - self._looks[-1][0] < _LOOK_SECONDS:
            return
        # Those that ran already when a span began may all end at once, however long they took; what ended besides was
        # begun in it.  So this is never more than the slots can do, and comes near it over long spans.
        latest = max((finished - before - self._slots) / (now - then) for then, before in self._looks)
        # Grow at once, shrink slowly: a single slow look must not empty the pipeline.  What was before a long
        # sleep says nothing of what comes after it: the first job then is to be started, not kept in reserve.
        kept = 0.0 if now - self._looks[-1][0] > _MEMORY_SECONDS else 0.8
        self._rate = max(latest, self._rate * kept + max(latest, 0.0) * (1 - kept))
        horizon = min(max(_HORIZON_SECONDS, self._round_trip * _HORIZON_ROUND_TRIPS), _LONGEST_HORIZON_SECONDS)
        self.appetite = min(int(self._rate * horizon), self._batch)
        # What is started while a claim is under way, so that the next one is answered when that is used up.
        meanwhile = int(self._rate * self._round_trip * _HORIZON_ROUND_TRIPS / 2)
        self.low_water = min(self.appetite, max(self.appetite // 2, meanwhile))
        self._looks.append((now, finished))
        while now - self._looks[0][0] > _MEMORY_SECONDS:
            self._looks.popleft()

    def wanted(self, free: int, *, is_first: bool = False) -> tuple[int, bool]:
        """How many to claim now, where so many could be started; and whether they would have to wait in reserve.

        `is_first`: there was nothing to do before.
        """
        missing = free - len(self.ready)
        if self.reserve:
            is_time = len(self.ready) <= self.low_water or missing > 0
            # What is in reserve may fill a part of the room only: batch handlers take as many as there are.
            return (max(self.appetite, missing - len(self.reserve), 1) if is_time else 0), True
        # Handlers that end as soon as they are started leave all slots free, however fast they come: what these could
        # start now is less than they will have started before the next claim is answered.
        # But the first after a pause is waited for, however many went by before.
        if missing > 0 and (is_first or missing >= self.appetite):
            return missing, False
        return (self.appetite if len(self.ready) <= self.appetite else 0), True

    def learn_round_trip(self, seconds: float) -> None:
        """How long a claim has taken."""
        self._round_trip += (seconds - self._round_trip) * _WEIGHT

    def rest(self) -> None:
        """Nothing can be started soon; the rate is measured anew."""
        self._rate = 0.0
        self.appetite = self.low_water = 0
        self._looks = deque([self._looks[-1]])

    def promote(self, next_reserve: list[ClaimedJob]) -> None:
        """The claim that carried `reserved_at` has committed: the old reserve may start."""
        self.ready.extend(self.reserve)
        self.reserve = next_reserve
        if self.reserved_at is not None:
            self._marks.append(self.reserved_at)

    def take_idle_marks(self) -> list[Instant]:
        """The prefetching claims of which nothing waits any more."""
        if not self._marks:
            return []
        waiting = {job.claimed_at for jobs in (self.ready, self.reserve, self.lines) for job in jobs}
        idle = [mark for mark in self._marks if mark not in waiting]
        self._marks = [mark for mark in self._marks if mark in waiting]
        return idle

    def take(self, is_wanted: Callable[[ClaimedJob], bool], most: int) -> list[ClaimedJob]:
        """Up to `most` of those that are ready, in their order."""
        taken: list[ClaimedJob] = []
        left: deque[ClaimedJob] = deque()
        while self.ready and len(taken) < most:
            job = self.ready.popleft()
            (taken if is_wanted(job) else left).append(job)
        self.ready.extendleft(reversed(left))
        return taken

    def drop(self, leases: Collection[Lease]) -> list[ClaimedJob]:
        """Forget jobs that are not ours any more; returns those that waited behind them, which have to go back."""
        gone = [job for job in (*self.ready, *self.reserve) if Lease(job.id, job.lease_generation) in leases]
        self.ready = deque(job for job in self.ready if Lease(job.id, job.lease_generation) not in leases)
        self.reserve = [job for job in self.reserve if Lease(job.id, job.lease_generation) not in leases]
        stranded = self.lines.drop(leases)
        self._leave(gone)
        return stranded

    def clear(self) -> list[ClaimedJob]:
        """Everything not started, taken out."""
        jobs = [*self.ready, *self.reserve]
        self.ready.clear()
        self.reserve = []
        self._leave(jobs)
        return jobs + self.lines.clear()

    def _leave(self, jobs: Iterable[ClaimedJob]) -> None:
        for job in jobs:
            if job.line is not None:
                self.lines.leave(Lease(job.id, job.lease_generation))
