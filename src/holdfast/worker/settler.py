"""Tells those who wait for chains that ended here while somebody had them locked, as soon as the lock is gone.

Children of one job that end at the same moment meet at its row: one of them tells it, the others have to come again.
Left to the sweep, a fan-in would take as long as its interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from holdfast.errors import HoldfastError
from holdfast.operations.lease import Settlement
from holdfast.operations.settle_chains import settle_stragglers
from holdfast.worker.backoff import Backoff
from holdfast.worker.patient_store import PatientStore

_log = logging.getLogger("holdfast.worker")

#: who has a row for longer than a statement may have it for minutes
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.5
#: a worker that leaves tries for so long; then the sweep of others finds them
_LAST_TRIES_SECONDS = 1.0


class Settler:
    """The chains, and the one task that empties them; `woken` is called with the queues that got work."""

    def __init__(self, store: PatientStore) -> None:
        self._store = store
        self._unsettled: set[str] = set()
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self.woken: Callable[[Iterable[str]], None] = lambda _: None

    def add(self, chain_ids: Iterable[str]) -> None:
        self._unsettled.update(chain_ids)
        if self._unsettled:
            self._empty.clear()
            self._wake.set()

    async def run(self) -> None:
        """Settle for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
            while self._unsettled:
                await backoff.wait()
                await self._try()
            self._empty.set()

    async def drained(self) -> None:
        """Return when everybody has been told, or soon."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_TRIES_SECONDS):
                await self._empty.wait()

    async def _try(self) -> None:
        # All at once, so that those who meet at one row need one turn together.
        tried = self._unsettled
        self._unsettled = set()
        settlement = Settlement(unsettled=set(tried))
        try:
            await self._store.run(lambda: settle_stragglers(settlement))
        except HoldfastError as error:
            _log.warning("%d chains have ended, and not all who wait for them know: %s", len(tried), error)
            settlement.unsettled = tried
        self._unsettled |= settlement.unsettled
        if settlement.woken:
            self.woken(settlement.woken)
