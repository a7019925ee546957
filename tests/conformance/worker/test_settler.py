"""Who waits for a chain, and is locked when it ends, is told when the lock is gone; no sweep is needed for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import psycopg
import pytest

from holdfast.worker.maintenance.unblocker import Unblocker
from tests.conformance.worker.conftest import BRISK, Ground, Hand
from tests.crew.fixtures import EVERY_POSTGRES

pytestmark = pytest.mark.parametrize("place", EVERY_POSTGRES, indirect=True)  # SQLite has one writer at a time


@pytest.fixture
def kind() -> str:
    return "async"


@pytest.fixture(autouse=True)
def no_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Unblocker, "interval", timedelta(hours=1))


@asynccontextmanager
async def ended_before_a_locked_one(ground: Ground) -> AsyncIterator[tuple[str, psycopg.Connection]]:
    """A worker has ended a chain; the job behind it is locked by the connection."""

    async def work(_: Hand) -> None: ...

    working = ground.job(work)
    first = await ground.client.enqueue(working.call())
    last = await ground.client.enqueue(working.call(), blockers=[first], queue="later")
    with psycopg.connect(ground.url) as connection:
        connection.execute("SELECT FROM holdfast.job WHERE id = %s FOR NO KEY UPDATE", [last.id])
        async with ground.app.worker(queues=["default"], config=BRISK):
            await ground.until_status(first.id, "completed")
            yield last.id, connection


async def test_a_locked_dependant_is_told_when_the_lock_is_gone(live_ground: Ground) -> None:
    async with ended_before_a_locked_one(live_ground) as (waiting, connection):
        await asyncio.sleep(0.3)  # some tries are in vain
        connection.commit()
        await live_ground.until_status(waiting, "pending")


async def test_a_worker_that_leaves_tells_what_it_can(live_ground: Ground) -> None:
    async with ended_before_a_locked_one(live_ground) as (waiting, connection):
        asyncio.get_running_loop().call_later(0.2, connection.commit)
    assert (await live_ground.get(waiting)).status == "pending"


async def test_many_children_that_end_together(live_ground: Ground) -> None:
    """Each finds the others at its parent's row."""
    ground = live_ground
    children = 60

    async def child(_: Hand, number: int) -> int:
        return number

    small = ground.job(child)

    async def parent(hand: Hand) -> int:
        return sum(await hand.gather(await hand.enqueue_many("all", [small.call(number=n) for n in range(children)])))

    job_id = await ground.put(ground.job(parent))
    async with (
        ground.app.worker(queues=["default"], config=BRISK),
        ground.app.worker(queues=["default"], config=BRISK),
        ground.app.worker(queues=["default"], config=BRISK),
    ):
        await ground.until_status(job_id, "completed")
    assert (await ground.get(job_id)).output == sum(range(children))
