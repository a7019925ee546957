"""A server that goes away costs hints, never more."""

from __future__ import annotations

import logging
import time

from holdfast.notify.board import DEAF_SECONDS
from holdfast.testing.conformance_notifiers.case import Cases
from holdfast.testing.conformance_notifiers.stand import PATIENCE, RestartableStand, Stand, asleep, woken

CASES = Cases("outages")


@CASES(lambda stand: isinstance(stand, RestartableStand))
async def hints_without_a_server(stand: Stand) -> None:
    """Sending does not fail or wait, waiting gets short, and when the server is back hints arrive again."""
    assert isinstance(stand, RestartableStand)
    here, there = stand.join(), stand.join()
    waker = here.open_waker(["default"])
    waiting = await asleep(waker)
    log = logging.getLogger("holdfast.notify")
    quiet, log.disabled = log.disabled, True
    await stand.take_away()
    try:
        began = time.monotonic()
        for _ in range(100):
            there.hint({"default": 5})
        assert time.monotonic() - began < 1
        assert await woken([waiting], PATIENCE) >= 0
        # It has to be noticed first.
        deadline = time.monotonic() + PATIENCE
        while not here.board.is_deaf:  # type: ignore[attr-defined]  # every notifier of ours has a board
            assert time.monotonic() < deadline
            await waker.wait(0.05)
        began = time.monotonic()
        await waker.wait(PATIENCE)
        await waker.wait(PATIENCE)
        assert time.monotonic() - began < 4 * DEAF_SECONDS
    finally:
        await stand.bring_back()
        log.disabled = quiet
    deadline = time.monotonic() + 2 * PATIENCE
    while here.board.is_deaf:  # type: ignore[attr-defined]  # as above
        assert time.monotonic() < deadline
        await waker.wait(0.2)
    waiting = await asleep(waker)
    # The sender may still be about to come back.
    while await woken([waiting], 0.5) == 0:
        assert time.monotonic() < deadline
        await stand.tell_work(there, ["default"])
    await waker.close()
