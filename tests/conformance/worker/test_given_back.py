"""What a worker holds without knowing it goes back, and whoever has room for it is told: nobody waits for a poll."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast import Worker
from tests.conformance.worker.conftest import BRISK, Ground, Hand

#: far longer than a test is patient
PATIENT = replace(BRISK, poll=timedelta(seconds=120), queues=["theirs"])


@pytest.fixture
def kind() -> str:
    return "async"


async def _put_orphan(ground: Ground, holder: Worker) -> None:
    """A job of the queue that the other one serves, as a claim leaves it whose answer was lost."""

    async def work(_: Hand) -> None:
        ground.seen.append("ran")

    await ground.client.enqueue(ground.job(work, queue="theirs").call(), delay=3600, notify=False)
    ground.sql(
        "UPDATE {job} SET status = 'running', attempt = 1, lease_generation = 1, leased_by = :worker,"
        " ready_at = created_at, leased_until = scheduled_at",
        worker=holder.id,
    )


async def _asleep(ground: Ground, worker: Worker) -> None:
    """Until it has looked, and waits for a hint or its poll."""
    await asyncio.sleep(0.5)  # whoever begins to listen looks once more
    assert worker._engine is not None
    fetcher = worker._engine._fetcher
    await ground.until(lambda: fetcher.is_asleep and not fetcher._wants_look)


async def test_an_unanswered_claim(live_ground: Ground) -> None:
    """Found by the audit of a worker that goes on."""
    ground = live_ground
    async with (
        ground.app.worker(config=replace(BRISK, queues=["ours"], renew=timedelta(seconds=0.5))) as holder,
        ground.app.worker(config=PATIENT) as idle,
    ):
        await _asleep(ground, idle)
        await _put_orphan(ground, holder)
        await ground.until(lambda: ground.seen)


async def test_a_worker_that_leaves(live_ground: Ground) -> None:
    """Given back by its last act."""
    ground = live_ground
    async with ground.app.worker(config=PATIENT) as idle:
        async with ground.app.worker(config=replace(BRISK, queues=["ours"], renew=timedelta(seconds=20))) as holder:
            await _asleep(ground, idle)
            await _put_orphan(ground, holder)
        await ground.until(lambda: ground.seen)
