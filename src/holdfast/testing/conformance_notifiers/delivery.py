"""Hints arrive, quickly, and at those whom they concern."""

from __future__ import annotations

import asyncio
import time

from holdfast.model.ids import new_id
from holdfast.testing.conformance_notifiers.case import Cases
from holdfast.testing.conformance_notifiers.stand import PATIENCE, QUIET, Stand, asleep, cancelled, waited, woken

CASES = Cases("delivery")

#: of the fastest of some tries, so that a busy machine does not count
_MILLISECONDS = 0.05
_TRIES = 10


@CASES()
async def work_wakes_within_milliseconds(stand: Stand) -> None:
    """An idle worker is woken by work that another process tells of, long before its poll."""
    here, there = stand.join(), stand.join()
    waker = here.open_waker(["default"])
    delays = []
    for _ in range(_TRIES):
        waiting = await asleep(waker)
        began = time.monotonic()
        await stand.tell_work(there, ["default"])
        await waiting
        delays.append(time.monotonic() - began)
    await waker.close()
    assert max(delays) < PATIENCE / 2, delays
    assert min(delays) < _MILLISECONDS, delays


@CASES(lambda stand: stand.names_subjects)
async def other_queues_are_ignored(stand: Stand) -> None:
    """Work of a queue that a worker does not serve does not wake it; that of each of its own does."""
    here, there = stand.join(), stand.join()
    waker = here.open_waker(["default", "mail: out.*>"])
    waiting = await asleep(waker)
    await stand.tell_work(there, ["other"])
    assert await woken([waiting]) == 0
    await stand.tell_work(there, ["mail: out.*>"])
    assert await woken([waiting], PATIENCE) == 1
    await waker.close()


@CASES(lambda stand: "chain" in stand.kinds)
async def the_end_of_a_chain_wakes_a_waiter(stand: Stand) -> None:
    """And he learns which one it was, or that it may have been any."""
    here, there = stand.join(), stand.join()
    listener = here.open_chain_listener()
    await listener.wait(QUIET)
    await listener.wait(QUIET)
    listener.news()
    chain_id = new_id()
    waiting = asyncio.create_task(listener.wait(PATIENCE))
    await asyncio.sleep(QUIET / 4)
    began = time.monotonic()
    await stand.tell_chain(there, here, chain_id)
    await waiting
    assert time.monotonic() - began < PATIENCE / 2
    news = listener.news()
    assert news == {chain_id} if stand.names_subjects else news is None
    assert listener.news() == set()
    await listener.close()


@CASES(lambda stand: "lease" in stand.kinds)
async def a_lost_lease_reaches_its_holder(stand: Stand) -> None:
    """The worker whose job was touched has news, once; a neighbour has none where the hint says whose it was."""
    here, there = stand.join(), stand.join()
    waker, neighbour = here.open_waker(["default"]), there.open_waker(["default"])
    await cancelled([await asleep(waker), await asleep(neighbour)])
    for each, name in ((waker, "w1"), (neighbour, "w2")):
        each.has_lease_news(name)
    await stand.tell_lease(there, here, "w1")
    async with asyncio.timeout(PATIENCE):
        while not waker.has_lease_news("w1"):  # noqa: ASYNC110 - as the worker does, from a thread
            await asyncio.sleep(0.01)
    assert not waker.has_lease_news("w1")
    if stand.names_subjects:
        assert not neighbour.has_lease_news("w2")
    await waker.close()
    await neighbour.close()


@CASES()
async def fifty_hints_come_as_they_are_sent(stand: Stand) -> None:
    """Each of fifty wakes whoever waits by then."""
    here, there = stand.join(), stand.join()
    waker = here.open_waker(["default"])
    await cancelled([await asleep(waker)])
    for number in range(50):
        waiting = asyncio.create_task(waited(waker, PATIENCE))
        await asyncio.sleep(0)
        await stand.tell_work(there, ["default"])
        assert await woken([waiting], PATIENCE / 2) == 1, number
    await waker.close()


@CASES(lambda stand: "chain" in stand.kinds)
async def fifty_ends_are_all_told(stand: Stand) -> None:
    """None of fifty chains that end at once is forgotten."""
    here, there = stand.join(), stand.join()
    listener = here.open_chain_listener()
    await listener.wait(QUIET)
    await listener.wait(QUIET)
    listener.news()
    ended = {new_id() for _ in range(50)}
    for chain_id in ended:
        await stand.tell_chain(there, here, chain_id)
    told: set[str] = set()
    async with asyncio.timeout(PATIENCE):
        while told < ended:
            await listener.wait(PATIENCE)
            news = listener.news()
            told |= ended if news is None else news
    assert told == ended
    await listener.close()


@CASES()
async def a_hint_before_the_wait_is_not_lost(stand: Stand) -> None:
    """Work that came between the last look and the wait ends the wait at once."""
    here, there = stand.join(), stand.join()
    waker = here.open_waker(["default"])
    await cancelled([await asleep(waker)])
    # Longer than anybody stays a member of anything without waiting.
    await asyncio.sleep(1.5)
    await stand.tell_work(there, ["default"])
    await asyncio.sleep(QUIET)
    began = time.monotonic()
    await waker.wait(PATIENCE)
    assert time.monotonic() - began < PATIENCE / 2
    await waker.close()


@CASES()
async def a_poke_ends_a_wait(stand: Stand) -> None:
    """The present one, and the next one if there is none."""
    waker = stand.join().open_waker(["default"])
    waiting = await asleep(waker)
    waker.poke()
    assert await woken([waiting], PATIENCE / 2) == 1
    waker.poke()
    assert await waited(waker, PATIENCE) < PATIENCE / 2
    await waker.close()
