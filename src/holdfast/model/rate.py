"""A token bucket: how many starts a worker may make now."""

from __future__ import annotations

import math


class TokenBucket:
    """Tokens come at `rate` per second and are kept up to `burst`; one is spent for each start.

    It begins empty, and so does whatever is added to its size.  A claim takes its tokens beforehand, and its jobs start
    some time after it was sent: until then they are `reserved`, and take up room as if they lay in the bucket.  So what
    may start at any moment is no more than `burst`, and what may start later has come in later.  Nothing comes in while
    it is frozen: a share has changed at some moment between asking and being told, and counting from the later one
    keeps the promise for both.
    Times are seconds by the monotonic clock.
    """

    __slots__ = ("_at", "_is_frozen", "_taken", "_tokens", "burst", "rate", "reserved")

    def __init__(self, now: float) -> None:
        self.rate = 0.0
        self.burst = 0
        self._tokens = 0.0
        self._taken = 0
        #: how many jobs have tokens and have not started, as far as was told
        self.reserved = 0
        self._at = now
        self._is_frozen = False

    def level(self, now: float) -> float:
        """How many tokens there are; what is taken is not among them."""
        self._fill(now)
        return self._tokens

    def freeze(self, now: float) -> None:
        """From now on nothing comes in."""
        self._fill(now)
        self._is_frozen = True

    def thaw(self, now: float) -> None:
        """From now on tokens come again, and none for the time between."""
        self._at, self._is_frozen = now, False

    def take(self, count: int, now: float) -> None:
        """Before a claim of so many; there must be as many."""
        self._fill(now)
        if count > self._tokens:
            raise ValueError(f"{count} tokens were taken where there are {self._tokens:g}")
        self._tokens -= count
        self._taken = count
        self.reserved += count

    def settle(self, claimed: int, now: float) -> None:
        """After it: so many will start, the tokens of the others come back."""
        self._fill(now)
        unused = max(0, self._taken - claimed)
        self.reserved -= unused
        self._tokens = min(self.burst, self._tokens + unused)
        self._taken = 0

    def started(self, waiting: int, now: float) -> None:
        """All but `waiting` have; not to be said while a claim is under way."""
        self._fill(now)
        self.reserved = min(self.reserved, waiting)

    def put_back(self, count: int, now: float) -> None:
        """So many of what is reserved will not start: their tokens are there again."""
        self._fill(now)
        count = min(count, self.reserved)
        self.reserved -= count
        self._tokens = min(self._room, self._tokens + count)

    def resize(self, rate: float, burst: int, now: float) -> None:
        """Another share: what is too much is gone, what is new comes with time."""
        self._fill(now)
        self.rate, self.burst = rate, burst
        self._tokens = min(self._tokens, self._room)

    def seconds_until_one(self, now: float) -> float:
        """How long until a start is possible; infinite if none ever is."""
        self._fill(now)
        if self._tokens >= 1:
            return 0.0
        return (1 - self._tokens) / self.rate if self.rate > 0 and self.burst > 0 else math.inf

    @property
    def _room(self) -> int:
        return max(0, self.burst - self.reserved)

    def _fill(self, now: float) -> None:
        if now > self._at and not self._is_frozen:
            self._tokens = min(self._room, self._tokens + (now - self._at) * self.rate)
            self._at = now
