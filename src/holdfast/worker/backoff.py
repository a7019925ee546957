"""Growing, jittered pauses between tries."""

from __future__ import annotations

import asyncio
import random


class Backoff:
    """Doubles from `first` to `longest`."""

    def __init__(self, first: float = 0.1, longest: float = 2.0) -> None:
        self._first = first
        self.longest = longest
        self.seconds = first

    async def wait(self) -> None:
        await asyncio.sleep(self.seconds * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
        self.seconds = min(self.seconds * 2, self.longest)

    def reset(self) -> None:
        self.seconds = self._first
