"""Jobs that are ready to start and wait for a permit of their queue, each queue apart: they are in nobody's way."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator

from holdfast.operations.claim_jobs import ClaimedJob
from holdfast.operations.lease import Lease


class Shelf:
    """By queue, in the order in which they came, with the moment at which they did."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[tuple[float, ClaimedJob]]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __bool__(self) -> bool:
        return bool(self._queues)

    def __iter__(self) -> Iterator[ClaimedJob]:
        for jobs in list(self._queues.values()):
            yield from [job for _, job in list(jobs)]

    def count_of(self, queue: str) -> int:
        """How many wait, of one queue."""
        return len(self._queues.get(queue, ()))

    def put(self, job: ClaimedJob) -> None:
        """Behind those of its queue."""
        self._queues.setdefault(job.queue, deque()).append((time.monotonic(), job))

    def take(self, free: Callable[[str], int | None]) -> ClaimedJob | None:
        """The first of a queue that has a permit."""
        for queue, jobs in self._queues.items():
            if free(queue) != 0:
                _, job = jobs.popleft()
                if not jobs:
                    del self._queues[queue]
                return job
        return None

    def take_wanted(self, is_wanted: Callable[[ClaimedJob], bool], most: int) -> list[ClaimedJob]:
        """Up to `most`, in their order."""
        taken: list[ClaimedJob] = []
        for queue, jobs in list(self._queues.items()):
            left: deque[tuple[float, ClaimedJob]] = deque()
            while jobs and len(taken) < most:
                since, job = jobs.popleft()
                if is_wanted(job):
                    taken.append(job)
                else:
                    left.append((since, job))
            jobs.extendleft(reversed(left))
            if not jobs:
                del self._queues[queue]
        return taken

    def overdue(self, seconds: float) -> list[str]:
        """The queues of which one has waited so long."""
        before = time.monotonic() - seconds
        return [queue for queue, jobs in self._queues.items() if jobs[0][0] <= before]

    def take_all(self, queue: str) -> list[ClaimedJob]:
        """Of one queue."""
        return [job for _, job in self._queues.pop(queue, ())]

    def drop(self, leases: Collection[Lease]) -> list[ClaimedJob]:
        """Forget these; returns them."""
        gone = [job for job in self if Lease(job.id, job.lease_generation) in leases]
        for queue in {job.queue for job in gone}:
            left = deque(
                (since, job)
                for since, job in self._queues.pop(queue)
                if Lease(job.id, job.lease_generation) not in leases
            )
            if left:
                self._queues[queue] = left
        return gone

    def clear(self) -> list[ClaimedJob]:
        """All of them, taken out."""
        jobs = list(self)
        self._queues.clear()
        return jobs
