"""What the slots tell the fetcher."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Demand:
    """A bell, and a doubt."""

    def __init__(self) -> None:
        self._bell = asyncio.Event()
        #: rung as well, for one who needs a slot or a permit and sleeps where it hears other things too
        self.second_bell: Callable[[], None] | None = None
        #: the worker may hold jobs that it does not know of
        self.is_unsure = False

    def room(self) -> None:
        """A slot was freed, or the buffer ran low."""
        self._bell.set()
        if self.second_bell is not None:
            self.second_bell()

    def written(self) -> None:
        """Some outcomes are in the database: if there were too many, more may be claimed."""
        self._bell.set()

    def doubt(self) -> None:
        """Somebody should compare what we hold with what the database says we hold."""
        self.is_unsure = True
        self._bell.set()

    async def wait(self, timeout: float) -> None:
        """Until the bell rings, or `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._bell.wait()
        except TimeoutError:
            pass
        self._bell.clear()
