"""Claimed jobs that wait for a slot.

`ready` may be started; `reserve` is one prefetched batch that the database still knows as not started, so that a crash
gives its jobs their attempt back.  The claim that fetches the next reserve makes the last one ready.  What is ready and
has no permit of its queue lies on the `shelf`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator

from holdfast.model.scan_position import Instant
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease
from holdfast.worker.lines import Lines
from holdfast.worker.pace import Pace
from holdfast.worker.shelf import Shelf

#: how much work to keep at hand, as time: long enough to bridge a round trip, short enough to leave the rest to others
_HORIZON_SECONDS = 0.03
#: and where claims take long, so many of them: a fetch begins when half of it is left, which has to last until it ends
_HORIZON_ROUND_TRIPS = 3
#: but never more than this
_LONGEST_HORIZON_SECONDS = 0.5
#: how much the last claim counts in what is known of how long they take
_WEIGHT = 0.3


class Buffer:
    """The two levels, and how much each should hold; `slots` is how many jobs run at once."""

    def __init__(self, batch: int, slots: int = 1) -> None:
        self._batch = batch
        self._slots = slots
        self.ready: deque[ClaimedJob] = deque()
        self.reserve: list[ClaimedJob] = []
        #: ready, but for a permit
        self.shelf = Shelf()
        #: behind those, others of their partition keys
        self.lines = Lines(batch)
        #: how many jobs can be started soon, beyond those that have a free slot now
        self.appetite = 0
        #: when so few are ready, it is time to fetch
        self.low_water = 0
        self._marks: list[Instant] = []
        self._pace = Pace(running=slots)
        self._round_trip = 0.0

    def __len__(self) -> int:
        return len(self.ready) + len(self.reserve) + len(self.shelf) + len(self.lines)

    def __iter__(self) -> Iterator[ClaimedJob]:
        # In the order in which they move on: the lease keeper's thread looks while they do.
        yield from self.lines
        yield from list(self.reserve)
        yield from list(self.ready)
        yield from self.shelf

    def count_of(self, queue: str) -> int:
        """How many wait, of one queue."""
        others = (self.lines, self.reserve, self.ready)
        return self.shelf.count_of(queue) + sum(job.queue == queue for jobs in others for job in jobs)

    @property
    def reserved_at(self) -> Instant | None:
        """The instant of the prefetching claim."""
        return self.reserve[0].claimed_at if self.reserve else None

    def measure(self, finished: int) -> None:
        """Keep the rate of finished jobs fresh; `finished` is a running total."""
        if self._pace.measure(finished, self._slots):
            self.appetite = self.portion(self._pace.rate)
            self.low_water = self.low_water_of(self._pace.rate)

    @property
    def horizon(self) -> float:
        """How much work is to be at hand, in seconds."""
        return min(max(_HORIZON_SECONDS, self._round_trip * _HORIZON_ROUND_TRIPS), _LONGEST_HORIZON_SECONDS)

    def portion(self, rate: float) -> int:
        """How many jobs to claim ahead at a time where so many end per second."""
        return min(int(rate * self.horizon), self._batch)

    def low_water_of(self, rate: float) -> int:
        """With how many left it is time to claim, then."""
        portion = self.portion(rate)
        # What is started while a claim is under way, so that the next one is answered when that is used up.
        meanwhile = int(rate * self._round_trip * _HORIZON_ROUND_TRIPS / 2)
        return min(portion, max(portion // 2, meanwhile))

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
        self._pace.rest()
        self.appetite = self.low_water = 0

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
        waiting = {job.claimed_at for job in self}
        idle = [mark for mark in self._marks if mark not in waiting]
        self._marks = [mark for mark in self._marks if mark in waiting]
        return idle

    def take(self, is_wanted: Callable[[ClaimedJob], bool], most: int) -> list[ClaimedJob]:
        """Up to `most` of those that are ready, in their order."""
        taken = self.shelf.take_wanted(is_wanted, most) if self.shelf else []
        left: deque[ClaimedJob] = deque()
        while self.ready and len(taken) < most:
            job = self.ready.popleft()
            (taken if is_wanted(job) else left).append(job)
        self.ready.extendleft(reversed(left))
        return taken

    def drop(self, leases: Collection[Lease]) -> list[ClaimedJob]:
        """Forget jobs that are not ours any more; returns those that waited behind them, which have to go back."""
        gone = [job for job in (*self.ready, *self.reserve) if Lease(job.id, job.lease_generation) in leases]
        gone += self.shelf.drop(leases)
        self.ready = deque(job for job in self.ready if Lease(job.id, job.lease_generation) not in leases)
        self.reserve = [job for job in self.reserve if Lease(job.id, job.lease_generation) not in leases]
        stranded = self.lines.drop(leases)
        self._leave(gone)
        return stranded

    def clear(self) -> list[ClaimedJob]:
        """Everything not started, taken out."""
        jobs = [*self.shelf.clear(), *self.ready, *self.reserve]
        self.ready.clear()
        self.reserve = []
        self._leave(jobs)
        return jobs + self.lines.clear()

    def take_out(self, queue: str) -> list[ClaimedJob]:
        """Those of a queue that wait for its permits, or would when they were ready, and those behind them."""
        jobs = [*self.shelf.take_all(queue), *(job for job in self.reserve if job.queue == queue)]
        self.reserve = [job for job in self.reserve if job.queue != queue]
        for job in list(jobs):
            if job.partition_key is not None:
                jobs += self.lines.break_off(Lease(job.id, job.lease_generation))
        self._leave(jobs)
        return jobs

    def _leave(self, jobs: Iterable[ClaimedJob]) -> None:
        for job in jobs:
            if job.partition_key is not None:
                self.lines.leave(Lease(job.id, job.lease_generation))
