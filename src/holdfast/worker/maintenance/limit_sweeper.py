"""Puts jobs back that wait for limits of their concurrency keys, and have room: a limit was raised."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial

from holdfast.operations.sweep_limits import Room, SweptLimits, find_limited, forget_limits, free_limits
from holdfast.worker.maintenance.service import VerbRunner

#: how many jobs are put back by one statement, about
_PORTION = 2000


class LimitSweeper:
    """Walks the concurrency keys of which jobs wait, one page at a time; `woken` is told of queues that got work.

    Where a page has room for some it goes on at once: after a limit was raised that is so on all of them.
    """

    name = "limit sweeper"
    interval = timedelta(seconds=5)
    timeout = timedelta(seconds=30)

    def __init__(self, store: VerbRunner, woken: Callable[[Iterable[str]], None]) -> None:
        self._store = store
        self._woken = woken
        self._after: tuple[str, str] | None = None

    @property
    def is_amid(self) -> bool:
        """Whether there are pages to come before all have been looked at."""
        return self._after is not None

    async def run_once(self) -> Mapping[str, int]:
        freed = 0
        while (swept := await self._look()).rooms:
            woken: set[str] = set()
            for rooms in _portions(swept.rooms):
                woken |= await self._store.run(partial(free_limits, rooms))
            self._woken(woken)
            freed += sum(room.places for room in swept.rooms)
            if woken and any(room.is_cut for room in swept.rooms):
                continue  # the same page again: there may be room for more of a key
            self._after = swept.next_after
            if self._after is None:
                break
        else:
            self._after = swept.next_after
        if self._after is None:
            await self._store.run(forget_limits)
        return {"freed": freed}

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
