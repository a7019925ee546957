"""How many handlers of each queue run in this worker, and how many more may: asked before each start.

A handler runs from before its first line until it has really ended: however its job has ended meanwhile, and whether
that has been written or not.  What lies at hand does not count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable


class Permits:
    """Counts the handlers of all queues: a limit may come at any time, and then counts those that run already."""

    def __init__(self) -> None:
        self._running: Counter[str] = Counter()
        self._ended: Counter[str] = Counter()
        #: how many handlers of a queue may run here at a time; None: any number
        self.most: Callable[[str], int | None] = lambda _: None
        #: called when one is put back
        self.freed: Callable[[str], None] = lambda _: None

    def running(self, queue: str) -> int:
        """How many do."""
        return self._running[queue]

    def ended(self, queue: str) -> int:
        """How many have, since the worker began."""
        return self._ended[queue]

    def free(self, queue: str) -> int | None:
        """How many more may be started now; None: any number."""
        most = self.most(queue)
        return None if most is None else max(0, most - self._running[queue])

    def take(self, queue: str) -> None:
        """A handler is about to be called."""
        self._running[queue] += 1

    def put_back(self, queue: str) -> None:
        """It has ended, and nothing of it goes on."""
        self._running[queue] -= 1
        self._ended[queue] += 1
        self.freed(queue)
