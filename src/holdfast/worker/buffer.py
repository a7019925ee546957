"""Claimed jobs that wait for a slot.

`ready` may be started; `reserve` is one prefetched batch that the database still knows as not started, so that a crash
gives its jobs their attempt back.  The claim that fetches the next reserve makes the last one ready.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Collection, Iterator

from holdfast.model.scan_position import Instant
from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease

#: how much work to keep at hand, as time: long enough to bridge a round trip, short enough to leave the rest to others
_HORIZON_SECONDS = 0.03


class Buffer:
    """The two levels, and how much each should hold."""

    def __init__(self, batch: int) -> None:
        self._batch = batch
        self.ready: deque[ClaimedJob] = deque()
        self.reserve: list[ClaimedJob] = []
        #: how many jobs can be started soon, beyond those that have a free slot now
        self.appetite = 0
        #: when so few are ready, it is time to fetch
        self.low_water = 0
        self._marks: list[Instant] = []
        self._rate = 0.0
        self._counted = 0
        self._measured_at = time.monotonic()

    def __len__(self) -> int:
        return len(self.ready) + len(self.reserve)

    def __iter__(self) -> Iterator[ClaimedJob]:
        yield from list(self.ready)
        yield from list(self.reserve)

    @property
    def reserved_at(self) -> Instant | None:
        """The instant of the prefetching claim."""
        return self.reserve[0].claimed_at if self.reserve else None

    def measure(self, finished: int) -> None:
        """Keep the rate of finished jobs fresh; `finished` is a running total."""
        now = time.monotonic()
        elapsed = now - self._measured_at
        if elapsed >= 0.01:  # noqa: PLR2004 - shorter spans are mostly noise
            latest = (finished - self._counted) / elapsed
            # Grow at once, shrink slowly: a single slow look must not empty the pipeline.
            self._rate = latest if latest > self._rate else self._rate * 0.8 + latest * 0.2
            self._counted, self._measured_at = finished, now
            self.appetite = min(int(self._rate * _HORIZON_SECONDS), self._batch)
            self.low_water = self.appetite // 2

    def rest(self) -> None:
        """Nothing can be started soon; the rate is measured anew."""
        self._rate = 0.0
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

    def drop(self, leases: Collection[Lease]) -> None:
        """Forget jobs that are not ours any more."""
        self.ready = deque(job for job in self.ready if Lease(job.id, job.lease_generation) not in leases)
        self.reserve = [job for job in self.reserve if Lease(job.id, job.lease_generation) not in leases]

    def clear(self) -> list[ClaimedJob]:
        """Everything not started, taken out."""
        jobs = [*self.ready, *self.reserve]
        self.ready.clear()
        self.reserve = []
        return jobs
