"""Coming, going, and what happens to one does not happen to the others."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from holdfast.testing.conformance_notifiers.case import Cases
from holdfast.testing.conformance_notifiers.stand import PATIENCE, Stand, asleep, cancelled, woken

CASES = Cases("subscriptions")


class _Broken:
    """Raises whatever it is told."""

    queues = frozenset({"default"})

    def _fail(self, *_: object) -> None:
        raise RuntimeError("broken on purpose")

    hear_work = hear_lease = hear_chain = hear_anything = _fail


@CASES()
async def errors_of_one_do_not_hurt_others(stand: Stand) -> None:
    """A subscriber that raises is passed by, and what it raised is logged."""
    here, there = stand.join(), stand.join()
    board: Any = here.board  # type: ignore[attr-defined]  # every notifier of ours has one
    log = logging.getLogger("holdfast.notify")
    quiet, log.disabled = log.disabled, True
    broken = _Broken()
    board.subscribe(broken)
    waker = here.open_waker(["default"])
    try:
        waiting = await asleep(waker)
        for _ in range(3):
            await stand.tell_work(there, {"default": 2})
        assert await woken([waiting], PATIENCE) == 1
    finally:
        board.unsubscribe(broken)
        log.disabled = quiet
        await waker.close()


@CASES()
async def closing_and_coming_back(stand: Stand) -> None:
    """Close and close again; whoever waits after that is subscribed anew."""
    here, there = stand.join(), stand.join()
    waker = here.open_waker(["default"])
    await waker.close()
    for _ in range(2):
        waker.start()
        waker.start()
        waiting = await asleep(waker)
        await stand.tell_work(there, ["default"])
        assert await woken([waiting], PATIENCE) == 1
        await waker.close()
        await waker.close()
    here.close()
    here.close()


@CASES()
async def one_subscription_per_process(stand: Stand) -> None:
    """However many of a process listen; none when nobody does."""
    here = stand.join()
    wakers = [here.open_waker([queue]) for queue in ("a", "b", "c")]
    listener = here.open_chain_listener()
    tasks = [await asleep(waker) for waker in wakers]
    await listener.wait(0.01)
    assert await stand.subscriptions() <= 1
    await cancelled(tasks)
    for waker in wakers:
        await waker.close()
    await listener.close()
    here.close()
    async with asyncio.timeout(PATIENCE):
        while await stand.subscriptions():  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.02)


@CASES()
async def one_who_leaves_does_not_take_the_others_along(stand: Stand) -> None:
    """Those who stay are told as before."""
    here, there = stand.join(), stand.join()
    staying, leaving = here.open_waker(["default"]), here.open_waker(["default"])
    await cancelled([await asleep(leaving)])
    waiting = await asleep(staying)
    await leaving.close()
    await stand.tell_work(there, ["default"])
    assert await woken([waiting], PATIENCE) == 1
    await staying.close()
