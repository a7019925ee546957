"""A worker that nobody heard for a while lets go of its jobs, and finds them again if nobody else took them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.conformance.worker.conftest import BRISK, Ground, Hand, settled

#: silent after half a second
NERVOUS = replace(BRISK, concurrency=1, heartbeat=timedelta(seconds=0.1), dead_after=timedelta(seconds=1))


@pytest.fixture
def kind() -> str:
    """The handler of a thread cannot be interrupted, so that what it returns is written in the end."""
    return "async"


@asynccontextmanager
async def _nobody_is_heard(ground: Ground) -> AsyncIterator[None]:
    """No heartbeat is written inside the block."""
    connection = await ground.connect()
    is_postgres = ground.app.store.dialect == "postgres"
    await settled(connection.execute("LOCK TABLE holdfast.worker IN SHARE MODE" if is_postgres else "BEGIN IMMEDIATE"))
    try:
        yield
    finally:
        await settled(connection.rollback())
        await settled(connection.close())


async def test_what_was_started_does_not_expire_while_its_worker_is_silent(live_ground: Ground) -> None:
    """Its time came while it ran: it is run again, not cancelled as if nobody had started it."""
    ground = live_ground
    began, interrupted = asyncio.Event(), asyncio.Event()

    async def work(hand: Hand) -> int:
        if hand.lease_generation == 1:
            began.set()
            try:
                await asyncio.sleep(60)
            finally:
                interrupted.set()
        return int(hand.lease_generation)

    chain = await ground.client.enqueue(ground.job(work).call(), expires=1)
    async with ground.app.worker(config=NERVOUS), asyncio.timeout(25):
        await began.wait()
        async with _nobody_is_heard(ground):
            await interrupted.wait()
            await asyncio.sleep(1)
        job = await ground.until_status(chain.id, "completed")
    assert (job.output, job.attempt, job.expires_at) == (2, 1, None)
