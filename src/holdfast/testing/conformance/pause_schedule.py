"""pause_schedule, resume_schedule: ticks pass, and come again."""

from __future__ import annotations

from datetime import timedelta

from holdfast.errors import ScheduleNotFound
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, refused
from holdfast.testing.conformance.scheduling import (
    DAY,
    HOUR,
    create,
    fire_all,
    pause,
    resume,
    schedule,
    ticks,
)

CASES = Cases("pause_schedule")


@CASES
async def ticks_pass(h: Harness) -> None:
    """Those of the pause are not caught up, whatever the policy: somebody wanted them to pass."""
    await create(h, catch_up="all", max_age=DAY)
    h.clock.advance(HOUR)
    await fire_all(h)
    paused = await pause(h, reason="the mail server is down")
    assert (paused.paused_at, paused.paused_by, paused.pause_reason) == (h.now, "ada", "the mail server is down")
    h.clock.advance(3 * HOUR)
    assert await fire_all(h) == 0
    resumed = await resume(h)
    assert (resumed.paused_at, resumed.paused_by, resumed.pause_reason) == (None, None, None)
    assert resumed.next_at == h.now + HOUR
    assert await fire_all(h) == 0
    h.clock.advance(HOUR)
    assert await fire_all(h) == 1
    assert [tick.hour for tick in await ticks(h)] == [1, 5]


@CASES
async def paused_twice(h: Harness) -> None:
    """The first pause says since when, the second why."""
    await create(h)
    began = (await pause(h, reason="first")).paused_at
    h.clock.advance(HOUR)
    again = await pause(h, reason="second")
    assert (again.paused_at, again.pause_reason) == (began, "second")


@CASES
async def resumed_without_a_pause(h: Harness) -> None:
    """Nothing happens: what is due stays due."""
    await create(h, catch_up="all", max_age=DAY)
    h.clock.advance(2 * HOUR)
    before = await schedule(h)
    assert await resume(h) == before
    assert await fire_all(h) == 2


@CASES
async def resumed_on_a_clock_put_back(h: Harness) -> None:
    """A tick that has come does not come again."""
    await create(h)
    h.clock.advance(2 * HOUR)
    await fire_all(h)
    await pause(h)
    h.clock.now -= timedelta(minutes=90)
    assert (await resume(h)).next_at == h.now + timedelta(minutes=150)


@CASES
async def no_such_schedule(h: Harness) -> None:
    """Is an error that names it, and nothing is on record."""
    error = await refused(ScheduleNotFound, pause(h, "nobody's"))
    assert error.name == "nobody's"
    await refused(ScheduleNotFound, resume(h, "nobody's"))
    assert h.count("audit") == 0
