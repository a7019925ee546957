"""A hint of n jobs wakes about n of those who wait."""

from __future__ import annotations

import asyncio

from holdfast.notify.counting import MOST_TOKENS
from holdfast.testing.conformance_notifiers.case import Cases
from holdfast.testing.conformance_notifiers.stand import PATIENCE, QUIET, Stand, asleep, cancelled, woken

CASES = Cases("counting")

_PROCESSES = 6


@CASES(lambda stand: stand.is_counting)
async def as_many_wake_as_there_are_jobs(stand: Stand) -> None:
    """One job wakes one of six idle processes, three more wake three more, and plenty wake all.

    About so many: on a slow machine somebody may look for reasons of his own.
    """
    there = stand.join()
    wakers = [stand.join().open_waker(["default"]) for _ in range(_PROCESSES)]
    tasks = [await asleep(waker, 3 * PATIENCE) for waker in wakers]
    await stand.tell_work(there, {"default": 1})
    assert await _woken(tasks, 1) in (1, 2)
    await stand.tell_work(there, {"default": 3})
    assert await _woken(tasks, 4) in (4, 5)
    await stand.tell_work(there, {"default": 50})
    assert await woken(tasks, PATIENCE) == _PROCESSES
    for waker in wakers:
        await waker.close()


async def _woken(tasks: list[asyncio.Task[float]], expected: int) -> int:
    """Once so many are woken, how many there are a while later."""
    async with asyncio.timeout(PATIENCE):
        while await woken(tasks, 0.05) < expected:
            pass
    return await woken(tasks, QUIET)


@CASES(lambda stand: not stand.is_counting and stand.is_shared)
async def everybody_wakes(stand: Stand) -> None:
    """Where nobody counts, each of six idle processes is woken."""
    there = stand.join()
    wakers = [stand.join().open_waker(["default"]) for _ in range(_PROCESSES)]
    tasks = [await asleep(waker, 3 * PATIENCE) for waker in wakers]
    await stand.tell_work(there, {"default": 1})
    assert await woken(tasks, PATIENCE) == _PROCESSES
    for waker in wakers:
        await waker.close()


@CASES()
async def inside_one_process_it_is_counted_everywhere(stand: Stand) -> None:
    """Two of four idle workers of the process that enqueues two jobs wake at once."""
    here = stand.join()
    wakers = [here.open_waker(["default"]) for _ in range(4)]
    tasks = [await asleep(waker, 3 * PATIENCE) for waker in wakers]
    here.hint({"default": 2})
    assert await woken(tasks) == 2
    await cancelled(tasks)
    for waker in wakers:
        await waker.close()


@CASES(lambda stand: stand.is_counting)
async def who_is_busy_leaves_it_to_others(stand: Stand) -> None:
    """A process that does not wait does not swallow the hint for one that does."""
    there = stand.join()
    busy, idle = stand.join().open_waker(["default"]), stand.join().open_waker(["default"])
    await cancelled([await asleep(busy)])
    for _ in range(5):
        waiting = await asleep(idle)
        await stand.tell_work(there, {"default": 1})
        assert await woken([waiting], PATIENCE / 2) == 1
    await busy.close()
    await idle.close()


@CASES(lambda stand: stand.is_counting)
async def who_leaves_does_not_take_its_own_hint_along(stand: Stand) -> None:
    """A process that waited a moment ago says that it gives work back, and ends: somebody else has the hint."""
    idle = stand.join().open_waker(["default"])
    for _ in range(4):
        here = stand.join()
        leaving = here.open_waker(["default"])
        waited = await asleep(leaving)
        waiting = await asleep(idle)
        await cancelled([waited])
        await stand.tell_work(here, {"default": 1})
        await leaving.close()
        await asyncio.to_thread(here.close)
        assert await woken([waiting], PATIENCE / 2) == 1
    await idle.close()


@CASES(lambda stand: stand.is_counting)
async def hints_that_nobody_takes_are_bounded(stand: Stand) -> None:
    """However much was told while nobody waited, whoever comes then is not woken without end."""
    there = stand.join()
    for _ in range(50):
        await stand.tell_work(there, {"default": 10_000})
    await asyncio.sleep(QUIET)
    waker = stand.join().open_waker(["default"])
    wakes = 0
    async with asyncio.timeout(2 * PATIENCE):
        while wakes <= 2 * MOST_TOKENS:
            waiting = asyncio.create_task(waker.wait(1.0))
            began = asyncio.get_running_loop().time()
            await waiting
            if asyncio.get_running_loop().time() - began > 0.9:
                break
            wakes += 1
    assert wakes <= MOST_TOKENS + 2
    await waker.close()
