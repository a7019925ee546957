"""When attempts run out of time, without a timer for each: most jobs end long before, and should not pay for it."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from holdfast.worker.attempt import Attempt

#: ended attempts that may be kept before they are swept out
_SLACK = 1_000


class Deadlines:
    """One line per length of timeout: whoever joins it later is due later, so only the first needs a timer."""

    def __init__(self, expire: Callable[[Attempt], None]) -> None:
        self._expire = expire
        self._loop = asyncio.get_running_loop()
        self._lines: dict[int, _Line] = {}

    def add(self, attempt: Attempt, timeout_ms: int, running: int, since: float | None = None) -> None:
        """Expire the attempt in so many milliseconds, unless it is over; `running` is how many are not.

        The time runs from now, or from `since`, of the monotonic clock; who joins later must not be counted from before
        those that have joined.
        """
        line = self._lines.get(timeout_ms)
        if line is None:
            line = self._lines[timeout_ms] = _Line()
        attempts = line.attempts
        while attempts and attempts[0][1].is_over:
            attempts.popleft()
        if len(attempts) > 2 * running + _SLACK:
            line.attempts = attempts = deque(entry for entry in attempts if not entry[1].is_over)
        passed = 0.0 if since is None else time.monotonic() - since
        attempts.append((self._loop.time() - passed + timeout_ms / 1000, attempt))
        if line.timer is None:
            line.timer = self._loop.call_at(attempts[0][0], self._fire, line)

    def close(self) -> None:
        """Nobody expires any more."""
        for line in self._lines.values():
            if line.timer is not None:
                line.timer.cancel()
        self._lines.clear()

    def _fire(self, line: _Line) -> None:
        attempts = line.attempts
        now = self._loop.time()
        while attempts and (attempts[0][1].is_over or attempts[0][0] <= now):
            _, attempt = attempts.popleft()
            if not attempt.is_over:
                self._expire(attempt)
        line.timer = self._loop.call_at(attempts[0][0], self._fire, line) if attempts else None


class _Line:
    __slots__ = ("attempts", "timer")

    def __init__(self) -> None:
        self.attempts: deque[tuple[float, Attempt]] = deque()
        self.timer: asyncio.TimerHandle | None = None
