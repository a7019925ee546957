"""Unblocks what a crash left blocked, between the end of a chain and the news of it, and what waits for itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial

from holdfast.errors import DatabaseUnavailable
from holdfast.operations.cycles import Wait, break_cycle, find_cycles
from holdfast.operations.sweep_blockers import sweep_blockers
from holdfast.operations.take_turn import find_starved, keep_free
from holdfast.telemetry import Listeners
from holdfast.telemetry.verbs import broken_cycle
from holdfast.worker.maintenance.service import VerbRunner

#: so many steps of a walk along those who wait for each other, and so many cycles broken, are enough for one page
_WALK = 10_000
_CYCLES = 10
#: jobs that others share all the time are kept free from them, for so long that a worker claims them
_STARVED = 20
_PAUSE = timedelta(seconds=1)
_PATIENCE = timedelta(seconds=4)


class Unblocker:
    """Walks the waiting jobs, one page at a time; `woken` is called with the queues that got work by it.

    - `has_claimers`: whether workers claim meanwhile, so that a job which they find locked all the time is kept free.
    """

    name = "unblocker"
    interval = timedelta(seconds=10)
    timeout = timedelta(seconds=30)

    def __init__(
        self,
        store: VerbRunner,
        woken: Callable[[Iterable[str]], None],
        listeners: Listeners | None = None,
        *,
        has_claimers: bool = False,
    ) -> None:
        self._store = store
        self._woken = woken
        self._listeners = listeners or Listeners()
        self._has_claimers = has_claimers
        self._after: tuple[str, int] | None = None

    @property
    def is_amid(self) -> bool:
        """Whether there are pages to come before all have been looked at."""
        return self._after is not None

    async def run_once(self) -> Mapping[str, int]:
        after = self._after
        swept = await self._store.run(lambda: sweep_blockers(after))
        self._after = swept.next_after
        if swept.woken:
            self._woken(swept.woken)
        cycles = await self._break_cycles(swept.waits)
        return {"settled": swept.settled, "cycles": cycles, "starved": await self._relieve(swept.awaited)}

    async def _relieve(self, awaited: Collection[str]) -> int:
        """Jobs that no claim finds unlocked, because others are put behind their chains all the time."""
        if not awaited or not self._has_claimers:
            return 0
        starved = (await self._store.run(lambda: find_starved(awaited)))[:_STARVED]
        if starved:
            with suppress(DatabaseUnavailable):  # not this time
                await self._store.run(lambda: keep_free(starved, _PATIENCE, _PAUSE))
        return len(starved)

    async def _break_cycles(self, waits: Sequence[Wait]) -> int:
        """Two who put chains behind each other at the same moment, over others, see nothing of each other."""
        if not waits:
            return 0
        # Reading may take a while, and must not hold up SQLite's writer.
        cycles = await self._store.run(lambda: find_cycles(waits, _WALK), read_only=True)
        count = 0
        for cycle in cycles[:_CYCLES]:
            broken = await self._store.run(partial(break_cycle, cycle))
            count += broken.job_id is not None
            if broken.job is not None and self._listeners.heard:
                self._listeners.tell([broken_cycle(broken.job, broken.error)])
            if broken.woken:
                self._woken(broken.woken)
        return count
