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


async def test_an_unanswered_claim(live_ground: Ground) -> None:
    """Found by the audit of a worker that goes on."""
    ground = live_ground
    async with (
        ground.app.worker(config=replace(BRISK, queues=["ours"], renew=timedelta(seconds=0.5))) as holder,
        ground.app.worker(config=PATIENT),
    ):
        await asyncio.sleep(0.5)  # the other one has looked, and sleeps
        await _put_orphan(ground, holder)
        await ground.until(lambda: ground.seen)


async def test_a_worker_that_leaves(live_ground: Ground) -> None:
    """Given back by its last act."""
    ground = live_ground
    async with ground.app.worker(config=PATIENT):
        async with ground.app.worker(config=replace(BRISK, queues=["ours"], renew=timedelta(seconds=20))) as holder:
            await asyncio.sleep(0.5)
            await _put_orphan(ground, holder)
        await ground.until(lambda: ground.seen)
