"""How fast jobs end: what ends within a span, less what may have run already when the span began."""

from __future__ import annotations

import time
from collections import deque

#: between two looks: shorter spans are mostly noise
_LOOK_SECONDS = 0.01
#: over which it is measured at most: jobs that take as long as this have no pace
_MEMORY_SECONDS = 1.0


class Pace:
    """Jobs per second; never more than could be begun."""

    def __init__(self, ended: int = 0, running: int = 0) -> None:
        self.rate = 0.0
        #: when, how many had ended by then, and how many ran
        self._looks = deque([(time.monotonic(), ended, running)])

    def measure(self, ended: int, running: int) -> bool:
        """Whether it was time to look; `ended` is a running total, `running` the most that may run now."""
        now = time.monotonic()
        if now - self._looks[-1][0] < _LOOK_SECONDS:
            return False
        # Those that ran already when a span began may all end at once, however long they took; what ended besides was
        # begun in it.  So this is never more than the slots can do, and comes near it over long spans.
        latest = max((ended - before - ran) / (now - then) for then, before, ran in self._looks)
        # Grow at once, shrink slowly: a single slow look must not empty the pipeline.  What was before a long
        # sleep says nothing of what comes after it: the first job then is to be started, not kept in reserve.
        kept = 0.0 if now - self._looks[-1][0] > _MEMORY_SECONDS else 0.8
        self.rate = max(latest, self.rate * kept + max(latest, 0.0) * (1 - kept))
        self._looks.append((now, ended, running))
        while now - self._looks[0][0] > _MEMORY_SECONDS:
            self._looks.popleft()
        return True

    def rest(self) -> None:
        """From now on it is measured anew."""
        self.rate = 0.0
        self._looks = deque([self._looks[-1]])
