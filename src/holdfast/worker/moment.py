"""How long ago something was, for a process that may have slept."""

from __future__ import annotations

import time


class Moment:
    """By two clocks: the monotonic one stands still while the machine sleeps, the other may be set back."""

    __slots__ = ("_monotonic", "_wall")

    def __init__(self) -> None:
        self._monotonic = time.monotonic()
        self._wall = time.time()

    @property
    def age(self) -> float:
        """In seconds; of the two clocks, what the one that went further says."""
        return max(time.monotonic() - self._monotonic, time.time() - self._wall)
