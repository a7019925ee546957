"""Handlers that take a millisecond, and how often they run in a second with nothing around them.

As many at once as the worker beside them has slots, each asking for the next turn itself: what no queue can surpass.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Callable

_MILLISECOND = 0.001

#: from so many slots and so many seconds to calls per second
Bare = Callable[[int, float], float]


async def pause() -> None:
    """Waits, as for an answer from elsewhere."""
    await asyncio.sleep(_MILLISECOND)


def burn() -> None:
    """Computes for a millisecond of its thread's own time: by the clock on the wall, waiting for the GIL would do."""
    ends_at = time.thread_time() + _MILLISECOND
    while time.thread_time() < ends_at:
        pass


def waiting(slots: int, seconds: float) -> float:
    """`pause`, per second, in one event loop."""
    return asyncio.run(_waiting(slots, seconds))


def in_threads(slots: int, seconds: float) -> float:
    """`burn`, per second, in one process."""
    counts = [0] * slots
    ends_at = time.monotonic() + seconds

    def work(slot: int) -> None:
        while time.monotonic() < ends_at:
            burn()
            counts[slot] += 1

    threads = [threading.Thread(target=work, args=[slot]) for slot in range(slots)]
    return _per_second(counts, threads)


def in_processes(slots: int, seconds: float) -> float:
    """`burn`, per second, in a process each."""
    with multiprocessing.get_context("spawn").Pool(slots) as pool:
        pool.map(_burn_for, [0.1] * slots, chunksize=1)  # they are up
        began = time.monotonic()
        count = sum(pool.map(_burn_for, [seconds] * slots, chunksize=1))
        return count / (time.monotonic() - began)


async def _waiting(slots: int, seconds: float) -> float:
    count = 0
    began = time.monotonic()
    ends_at = began + seconds

    async def work() -> None:
        nonlocal count
        while time.monotonic() < ends_at:
            await pause()
            count += 1

    await asyncio.gather(*(work() for _ in range(slots)))
    return count / (time.monotonic() - began)


def _per_second(counts: list[int], threads: list[threading.Thread]) -> float:
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - began)


def _burn_for(seconds: float) -> int:
    count = 0
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        burn()
        count += 1
    return count
