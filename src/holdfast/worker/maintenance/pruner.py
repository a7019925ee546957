"""Removes what has had its time: finished chains, what lies in the archive for too long, the record of old deeds."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from holdfast.errors import RowReferenced
from holdfast.model.operating import PruneCounts
from holdfast.model.retention import Retention
from holdfast.operations.forget_audit import forget_audit
from holdfast.operations.prune_chains import Place, Step, Walk, read_retention
from holdfast.worker.maintenance.service import VerbRunner

_log = logging.getLogger("holdfast.maintenance")

#: between two walks; between the parts of a long one; and where chains go within seconds of their end
_PAUSE = timedelta(seconds=10)
_SHORT_PAUSE = timedelta(seconds=1)
_SOON = timedelta(minutes=1)
#: the part of a walk that is done in one round
_ROUND_SECONDS = 20.0
#: after so long a walk begins at the beginning: what others needed or had locked may go now
_LOOK_BACK_SECONDS = 3600.0
#: whoever waits for a chain that goes at once has so long to see how it ended
_GRACE = timedelta(seconds=2)
#: entries of the record that go at once
_ENTRIES = 500
#: others have as much time as a batch took, and no more than this
_LONGEST_TURN = 1.0


class Pruner:
    """Goes on where it was, so that what stays is not looked at again and again; gives way after every batch.

    A second walk goes from the beginning now and then, in the time that the first one leaves: what others needed, had
    locked or refer to may be much, and must not keep anything waiting that has had its time.
    """

    name = "pruner"
    timeout = timedelta(seconds=60)

    def __init__(self, store: VerbRunner) -> None:
        self.interval = _SHORT_PAUSE
        self._store = store
        self._retention: Retention | None = None
        self._places: dict[timedelta, Place | None] = {}
        self._places_behind: dict[timedelta, Place | None] = {}
        #: walks that have not come to their end; they know how far they are, page by page and within one
        self._onward: Walk | None = None
        self._looking_back: Walk | None = None
        self._looked_back = 0.0

    async def run_once(self) -> Mapping[str, int]:
        retention = await self._store.run(read_retention, read_only=True)
        if retention != self._retention:
            # Other times than before: what was passed by is looked at again.
            self._retention, self._places, self._places_behind = retention, {}, {}
            self._onward = self._looking_back = None
        is_first = not self._places
        onward = self._onward or Walk(retention, self._places, at_least=_GRACE, closes=is_first)
        if is_first:
            self._looked_back = time.monotonic()
        until = time.monotonic() + _ROUND_SECONDS
        counts = PruneCounts()
        # A walk that fails is not gone on with: the next one begins at its last page.
        self._onward = None
        self._onward = await self._walk(onward, until, counts)
        if self._onward is None and time.monotonic() - self._looked_back > _LOOK_BACK_SECONDS:
            back = self._looking_back or Walk(retention, self._places_behind, at_least=_GRACE)
            self._looking_back = None
            self._looking_back = await self._walk(back, until, counts)
            if self._looking_back is None:
                self._looked_back, self._places_behind = time.monotonic(), {}
        is_amid = self._onward is not None or self._looking_back is not None
        is_soon = any(span < _SOON for span in retention.spans())
        self.interval = _SHORT_PAUSE if is_amid or is_soon else _PAUSE
        # What is only looked at, and stays, is no news.
        done = {name: getattr(counts, name) for name in ("removed", "archived", "referenced", "closed")}
        return {**done, "entries": await self._forget(retention.keep_audit, until)}

    async def _forget(self, keep: timedelta | None, until: float) -> int:
        """How many entries of the record went; once at least, however long the rest took."""
        total = 0
        while keep is not None:
            began = time.monotonic()
            forgotten = await self._store.run(partial(forget_audit, keep, _ENTRIES))
            total += forgotten
            if forgotten < _ENTRIES or time.monotonic() > until:
                break
            await _give_way(began)
        return total

    async def _walk(self, walk: Walk, until: float, counts: PruneCounts) -> Walk | None:
        """Some of it; what is to be gone on with, if it has not come to its end."""
        walk.count_anew(counts)
        before = counts.referenced
        try:
            while (step := walk.next_step()) is not None:
                await self._take(walk, step)
                if time.monotonic() > until:
                    return walk
            return None
        finally:
            if walk.referenced is not None:
                _log.warning(
                    "%d chains should go, and stay because rows of the application refer to their jobs; one is %s",
                    counts.referenced - before,
                    walk.referenced,
                )

    async def _take(self, walk: Walk, step: Step) -> None:
        began = time.monotonic()
        try:
            walk.receive(await self._store.run(step.verb, read_only=step.is_read_only))
        except RowReferenced as error:
            walk.receive(error)
        if step.is_heavy:
            await _give_way(began)


async def _give_way(began: float) -> None:
    await asyncio.sleep(min(time.monotonic() - began, _LONGEST_TURN))
