"""G12: A schedule's tick enqueues exactly once, whoever is alive; missed ticks follow the catch-up policy."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from holdfast.model.ids import new_ids
from holdfast.stores import open_store
from holdfast.stores.open import StoreConfig
from holdfast.worker.maintenance.scheduler import Scheduler
from tests.crew.database import Database
from tests.crew.process import STEADY
from tests.crew.scheduled import scheduled_app, schedulers_on, ticks_of
from tests.crew.stepping_clock import stepping_server
from tests.crew.waiting import wait_for

SECOND = timedelta(seconds=1)
KILLS = 3
#: what is between the deaths of two leaders: a term, an election, and some ticks
TICKS_BETWEEN = 4


def gapless(ticks: Sequence[datetime]) -> bool:
    """Each second once, in order."""
    return list(ticks) == [ticks[0] + number * SECOND for number in range(len(ticks))]


def wait_for_more(database: Database, count: int) -> None:
    """Until so many more ticks have enqueued."""
    before = len(ticks_of(database))
    wait_for(lambda: len(ticks_of(database)) >= before + count, f"{count} more ticks", patience=60)


@pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
def test_killed_leaders(database: Database, tmp_path: Path) -> None:
    """The leader is killed, by SIGKILL, again and again: every second has enqueued one job, and none is missing."""
    with scheduled_app(database.url).client() as client:
        client.schedules.sync()
    with schedulers_on(database, tmp_path, STEADY) as schedulers:
        for _ in range(3):
            schedulers.start()
        for _ in range(KILLS):
            wait_for_more(database, TICKS_BETWEEN)
            leader = wait_for(schedulers.leader, "somebody leads")
            assert leader is not None
            leader.kill()
            schedulers.start()
        wait_for_more(database, TICKS_BETWEEN)
    ticks = ticks_of(database)
    assert len(ticks) == len(set(ticks))
    assert gapless(ticks), ticks


@pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
def test_nobody_is_alive_for_a_while(database: Database, tmp_path: Path) -> None:
    """All workers are gone, in good order and otherwise; the first that comes makes up for what was missed."""
    with scheduled_app(database.url).client() as client:
        client.schedules.sync()
    with schedulers_on(database, tmp_path, STEADY) as schedulers:
        schedulers.start()
        wait_for_more(database, 2)
        schedulers.processes[0].stop()
        schedulers.start()
        wait_for_more(database, 2)
        schedulers.processes[1].kill()
        schedulers.start()
        wait_for_more(database, 6)
    assert gapless(ticks_of(database))


async def two_schedulers(database: Database, seconds: float) -> int:
    """They run side by side for a while, as if each led; how many jobs there are by them."""
    stores = [open_store(database.url, StoreConfig(pool_size=2 + number)).asynchronous() for number in range(2)]
    schedulers = [Scheduler(store, new_ids, timedelta(seconds=0.2), lambda _: None) for store in stores]
    before = len(ticks_of(database))
    async with asyncio.timeout(60):
        ends_at = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends_at:
            await asyncio.gather(*(scheduler.run_once() for scheduler in schedulers))
    for store in stores:
        await store.close()
    return len(ticks_of(database)) - before


def test_a_server_whose_clock_steps() -> None:
    """Two schedulers at a time, on a clock put days forward and hours back: no tick enqueues twice.

    What was passed over is made up for as the policy says; what lies behind the latest tick does not come again.
    """
    with stepping_server() as stepping:
        database = Database(stepping.server.create_database("stepping"))
        with scheduled_app(database.url, catch_up="one").client() as client:
            client.migrate()
            client.schedules.sync()

        def run(step: timedelta) -> int:
            stepping.step(step)
            return asyncio.run(two_schedulers(database, seconds=2.5))

        assert run(timedelta()) >= 1
        ahead = timedelta(days=3)
        assert 1 <= run(ahead) < 60  # one for three days, then each second
        assert run(ahead - timedelta(hours=1)) == 0
        assert run(timedelta()) == 0
        assert run(-timedelta(hours=1)) == 0
        assert run(ahead) >= 1
        assert 1 <= run(ahead + timedelta(hours=1)) < 60
        ticks = ticks_of(database)
        assert len(ticks) == len(set(ticks))
        assert ticks == sorted(ticks)
        assert sum(later - earlier > timedelta(minutes=30) for earlier, later in pairwise(ticks)) == 2
