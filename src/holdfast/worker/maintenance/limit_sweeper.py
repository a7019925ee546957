"""Puts jobs back that wait for limits of their concurrency keys, and have room: a limit was raised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import msgspec

from holdfast.operations.sweep_limits import Room, SweptLimits, find_limited, forget_limits, free_limits
from holdfast.worker.maintenance.service import VerbRunner

#: how many jobs are put back by one statement, about
_PORTION = 2000
#: of one key: what free_limits puts back at most
_MOST_OF_KEY = 1000


class _Put(NamedTuple):
    """What a round found of a key, and what it put back."""

    places: int
    jobs: int


class LimitSweeper:
    """Walks the concurrency keys of which jobs wait, one page at a time; `woken` is told of queues that got work.

    Where a page has room for some it goes on at once: after a limit was raised that is so on all of them.

    A key with just as much room as a round ago has got jobs back that nobody takes (those with a flag that has become
    forbidden, say), and behind them may wait some that would run: it gets twice as many each round. The claim judges
    the limit, so these may be too many; that costs writes, and it looks the same when all workers are busy elsewhere,
    so all such keys share one portion.
    """

    name = "limit sweeper"
    interval = timedelta(seconds=5)
    timeout = timedelta(seconds=30)

    def __init__(self, store: VerbRunner, woken: Callable[[Iterable[str]], None]) -> None:
        self._store = store
        self._woken = woken
        self._after: tuple[str, str] | None = None
        # Of the last round and of this one. No more keys than jobs in a portion: there would be nothing to share.
        self._last: dict[tuple[str, str], _Put] = {}
        self._now: dict[tuple[str, str], _Put] = {}

    @property
    def is_amid(self) -> bool:
        """Whether there are pages to come before all have been looked at."""
        return self._after is not None

    async def run_once(self) -> Mapping[str, int]:
        freed = 0
        while (swept := await self._look()).rooms:
            woken: set[str] = set()
            widened = [self._widened(room) for room in swept.rooms]
            for rooms in _portions(widened):
                woken |= await self._store.run(partial(free_limits, rooms))
            self._woken(woken)
            freed += sum(room.places for room in widened)
            if woken and any(room.is_cut for room in swept.rooms):
                continue  # the same page again: there may be room for more of a key
            self._after = swept.next_after
            if self._after is None:
                break
        else:
            self._after = swept.next_after
        if self._after is None:
            self._last, self._now = self._now, {}
            await self._store.run(forget_limits)
        return {"freed": freed}

    def _widened(self, room: Room) -> Room:
        key = (room.queue, room.concurrency_key)
        if key in self._now:
            return room  # once in a round
        jobs = room.places
        last = self._last.get(key)
        if last is not None and last.places == room.places:
            jobs = max(jobs, min(2 * last.jobs, _PORTION // len(self._last), _MOST_OF_KEY))
        if len(self._now) < _PORTION:
            self._now[key] = _Put(room.places, jobs)
        return msgspec.structs.replace(room, places=jobs)

    async def _look(self) -> SweptLimits:
        after = self._after
        return await self._store.run(lambda: find_limited(after), read_only=True)


def _portions(rooms: Iterable[Room]) -> Iterator[list[Room]]:
    portion: list[Room] = []
    for room in rooms:
        portion.append(room)
        if sum(each.places for each in portion) >= _PORTION:
            yield portion
            portion = []
    if portion:
        yield portion
