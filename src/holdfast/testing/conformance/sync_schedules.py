"""sync_schedules: what the code has is what comes, once nobody's code has it otherwise."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from holdfast.operations.sync_schedules import sync_schedules
from holdfast.operations.worker_life import forget_workers, retire_worker
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, Harness, lease_of
from holdfast.testing.conformance.scheduling import (
    APP,
    DAY,
    HOUR,
    create,
    definition,
    fire_all,
    pause,
    schedule,
    start_worker,
    sync,
    ticks,
)

CASES = Cases("sync_schedules")

_OLD = definition("report", "0 * * * *")
_NEW = definition("report", "30 * * * *")


@CASES
async def created(h: Harness) -> None:
    """With its next tick, and the second time there is nothing to do."""
    assert (await sync(h, _OLD)).created == ["report"]
    record = await schedule(h)
    assert (record.origin, record.definition, record.next_at) == ("code", _OLD.digest, h.now + HOUR)
    assert (record.cron, record.timezone, record.catch_up, record.overlap) == ("0 * * * *", "UTC", "skip", "allow")
    h.clock.advance(timedelta(minutes=30))
    assert (await sync(h, _OLD)).unchanged == ["report"]
    assert await schedule(h) == record


@CASES
async def changed(h: Harness) -> None:
    """Another definition takes the place of the old one, from its next tick on."""
    await sync(h, _OLD)
    h.clock.advance(HOUR)
    await fire_all(h)
    assert (await sync(h, _NEW)).changed == ["report"]
    record = await schedule(h)
    assert (record.cron, record.next_at, record.last_tick_at) == (
        "30 * * * *", h.now + timedelta(minutes=30), h.now
    )  # fmt: skip
    assert h.count("schedule") == 1


@CASES
async def changed_but_for_its_times(h: Harness) -> None:
    """Where only the job or the policy is another one, what was missed before stays missed, and is caught up."""
    await sync(h, _OLD)
    h.clock.advance(3 * HOUR)
    again = definition("report", "0 * * * *", catch_up="all", job={"priority": 3})
    assert (await sync(h, again)).changed == ["report"]
    assert await fire_all(h) == 3


@CASES
async def changed_on_a_clock_put_back(h: Harness) -> None:
    """A tick that has come does not come again because the definition is another one."""
    await sync(h, definition("report", "0 * * * *", catch_up="all"))
    h.clock.advance(2 * HOUR)
    assert await fire_all(h) == 2
    await h.complete(*(lease_of(job) for job in await h.claim()))
    h.clock.now -= HOUR + timedelta(minutes=10)
    await sync(h, definition("report", "0 * * * *", timezone="Etc/UTC", catch_up="all"))
    h.clock.advance(2 * HOUR + timedelta(minutes=10))
    assert await fire_all(h) == 1
    assert [tick.hour for tick in await ticks(h)] == [1, 2, 3]


@CASES
async def retired(h: Harness) -> None:
    """One that is not in the code any more enqueues nothing; put back, it goes on with its next tick."""
    await sync(h, _OLD, definition("other"))
    h.clock.advance(HOUR)
    await fire_all(h)
    assert (await sync(h, definition("other"))).retired == ["report"]
    assert (await schedule(h)).retired_at == h.now
    h.clock.advance(2 * HOUR)
    await fire_all(h)
    assert (await sync(h, definition("other"))).retired == []
    assert (await sync(h, _OLD, definition("other"))).changed == ["report"]
    assert (await schedule(h)).retired_at is None
    assert await fire_all(h) == 0
    h.clock.advance(HOUR)
    assert await fire_all(h) == 2
    assert [tick.hour for tick in await ticks(h)] == [1, 4]


@CASES
async def a_pause_outlives_it(h: Harness) -> None:
    """Whoever paused a schedule did not mean a version of the code."""
    await sync(h, _OLD)
    await pause(h)
    await sync(h, _NEW)
    assert (await schedule(h)).paused_at == h.now


@CASES
async def old_workers_are_waited_for(h: Harness) -> None:
    """While a worker lives whose code has it otherwise, the row stays; when it is gone, it changes."""
    await start_worker(h, "old", _OLD)
    h.clock.advance(1)
    assert (await start_worker(h, "new", _NEW)).deferred == ["report"]
    assert (await sync(h, _NEW)).deferred == ["report"]
    assert (await schedule(h)).definition == _OLD.digest
    await h.run(lambda: retire_worker("old"))
    assert (await sync(h, _NEW, worker="new")).changed == ["report"]
    assert (await schedule(h)).definition == _NEW.digest


@CASES
async def dead_workers_are_not_waited_for(h: Harness) -> None:
    """A crash is noticed in time, and then its code has no say."""
    await start_worker(h, "old", _OLD)
    h.clock.advance(DEAD_AFTER * 2)
    assert (await start_worker(h, "new", _NEW)).deferred == ["report"]
    assert await h.run(lambda: forget_workers(DEAD_AFTER)) == ["old"]
    assert (await sync(h, _NEW, worker="new")).changed == ["report"]


@CASES
async def an_old_worker_that_restarts(h: Harness) -> None:
    """In the middle of a deploy it turns nothing back, before the change or after it."""
    await start_worker(h, "old 1", _OLD)
    await start_worker(h, "new", _NEW)
    h.clock.advance(1)
    assert (await start_worker(h, "old 2", _OLD)).unchanged == ["report"]
    await h.run(lambda: retire_worker("old 1"))
    await h.run(lambda: retire_worker("old 2"))
    assert (await sync(h, _NEW, worker="new")).changed == ["report"]
    h.clock.advance(1)
    assert (await start_worker(h, "old 3", _OLD)).deferred == ["report"]
    assert (await schedule(h)).definition == _NEW.digest


@CASES
async def not_retired_while_somebody_has_it(h: Harness) -> None:
    """An old worker's schedule comes for as long as such a worker lives."""
    await start_worker(h, "old", _OLD)
    h.clock.advance(1)
    assert (await start_worker(h, "new")).deferred == ["report"]
    assert (await schedule(h)).retired_at is None
    await h.run(lambda: retire_worker("old"))
    assert (await sync(h, worker="new")).retired == ["report"]


@CASES
async def newer_code_is_not_retired_by_older(h: Harness) -> None:
    """A worker that started before there was such a schedule does not know better, also when it is alone."""
    await start_worker(h, "old")
    h.clock.advance(1)
    assert (await start_worker(h, "new", _NEW)).created == ["report"]
    await h.run(lambda: retire_worker("new"))
    synced = await sync(h, worker="old")
    assert (synced.retired, synced.deferred) == ([], [])
    assert (await schedule(h)).retired_at is None


@CASES
async def other_apps(h: Harness) -> None:
    """Each app has its own, under whatever names, and none retires another's."""
    await sync(h, _OLD)
    await start_worker(h, "theirs", _NEW, app="billing")
    assert h.count("schedule") == 2
    await start_worker(h, "theirs too", app="billing")
    assert (await schedule(h)).retired_at is None
    assert (await sync(h, _NEW)).changed == ["report"]


@CASES
async def created_at_run_time(h: Harness) -> None:
    """What a person has created is neither changed nor retired by the code, and a name that is taken stays so."""
    await create(h, "report", "5 * * * *")
    assert (await sync(h, _OLD)).taken == ["report"]
    assert (await schedule(h)).cron == "5 * * * *"
    assert await sync(h) == await sync(h, worker="nobody")
    assert (await schedule(h)).retired_at is None


@CASES
async def many_at_once(h: Harness) -> None:
    """Workers that start together make one row each, and none of them fails."""
    wanted = [definition(f"s{number}", "0 0 * * *") for number in range(10)]
    stores = h.neighbours(6)
    await asyncio.gather(*(store.run(lambda: sync_schedules(APP, wanted)) for store in stores))
    assert h.count("schedule") == 10
    h.clock.advance(DAY)
    assert await fire_all(h) == 10
