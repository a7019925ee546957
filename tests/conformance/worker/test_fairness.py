"""Tenants take turns: what a worker starts of whom, in a queue that is fair by tenant."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import JobHandle
from holdfast.model.clock import iso
from tests.conformance.worker.conftest import BRISK, Ground, Hand

#: what may start between the enqueue of somebody's few jobs and their start, however much others have waiting: what two
#: workers have at hand, four whole claims of each, and as much again where a look at the tenants is slow
A_FEW_CLAIMS = 8_000


@pytest.fixture
def kind() -> str:
    return "async"


def note(ground: Ground, pause: float = 0.0) -> JobHandle[..., None]:
    """A job that tells whose it is: the number of its tenant."""

    async def work(hand: Hand, tenant: int) -> None:
        ground.seen.append(tenant)
        if pause:
            await hand.pause(pause)

    return ground.job(work)


async def put(ground: Ground, job: JobHandle[..., None], tenant: int, count: int = 1, **options: Any) -> None:
    calls = [job.call(tenant=tenant).options(tenant=f"tenant {tenant}", **options) for _ in range(count)]
    await ground.client.enqueue_many(calls)


def fill(ground: Ground, count: int, tenant: str = "1", first: int = 1) -> None:
    """Jobs that have waited for an hour; `tenant` is an expression of n, the number of the job."""
    is_postgres = ground.app.store.dialect == "postgres"
    key = "CAST(lpad(to_hex(n), 32, '0') AS uuid)" if is_postgres else "printf('%032x', n)"
    kind = "json" if is_postgres else "text"
    moment = datetime.now(UTC) - timedelta(hours=1)
    ground.sql(
        f"""WITH RECURSIVE number (n) AS (
                SELECT {first} UNION ALL SELECT n + 1 FROM number WHERE n < {first + count - 1}
            )
            INSERT INTO {{job}} (id, chain_id, type_name, chain_type_name, queue, input, tenant, is_fair, created_at,
                                 scheduled_at, ready_at)
            SELECT {key}, {key}, 'work', 'work', 'default', CAST('{{{{"tenant": ' || {tenant} || '}}}}' AS {kind}),
                   'tenant ' || {tenant}, 1 = 1, :moment, :moment, :moment
            FROM number""",
        moment=moment if is_postgres else iso(moment),
    )


def started(ground: Ground, tenant: int) -> int:
    return ground.seen.count(tenant)


async def test_ten_jobs_do_not_wait_for_a_hundred_thousand(live_ground: Ground) -> None:
    """A tenant that comes later has its few jobs done after a few claims, not after the backlog."""
    ground = live_ground
    job = note(ground)
    await ground.client.queues.limit("default", fair_by="tenant")
    fill(ground, 100_000)
    async with ground.app.worker(config=replace(BRISK, concurrency=16)):
        await ground.until(lambda: len(ground.seen) >= 500)
        for _ in range(3):
            await put(ground, job, 2, 10)
            before = len(ground.seen)
            done = started(ground, 2) + 10
            await ground.until(lambda done=done: started(ground, 2) >= done)
            assert len(ground.seen) - before < A_FEW_CLAIMS
        assert started(ground, 1) < 50_000


async def test_nobody_starves_among_many(live_ground: Ground) -> None:
    """A thousand tenants beside one that has most: the round reaches whoever comes, and gives no one much more."""
    ground = live_ground
    job = note(ground)
    await ground.client.queues.limit("default", fair_by="tenant")
    fill(ground, 50_000)
    fill(ground, 50_000, "(2 + n % 1000)", first=50_001)
    async with ground.app.worker(config=replace(BRISK, concurrency=16)):
        await ground.until(lambda: len(ground.seen) >= 500)
        await put(ground, job, 5000, 10)
        before = len(ground.seen)
        await ground.until(lambda: started(ground, 5000) >= 1, 60)
        assert len(ground.seen) - before < 40_000  # of a hundred thousand: once round
        await ground.until(lambda: len(set(ground.seen)) == 1_002, 60)
        assert started(ground, 1) < 500


async def test_jobs_without_a_tenant_are_one_more(live_ground: Ground) -> None:
    """They get their turn beside two tenants, and no more."""
    ground = live_ground
    job = note(ground)
    await put(ground, job, 3, 1_500)
    await ground.client.queues.limit("default", fair_by="tenant")
    await put(ground, job, 1, 1_500)
    await put(ground, job, 2, 1_500)
    async with ground.app.worker(config=replace(BRISK, batch=50)):
        await ground.until(lambda: len(ground.seen) >= 2_000)
        counts = Counter(ground.seen[:2_000])
        await ground.until(lambda: len(ground.seen) == 4_500)
    assert min(counts.values()) > 400, counts


async def test_nor_do_runs_of_a_partition_key_get_more(live_ground: Ground) -> None:
    """Without a tenant they are one among three, though they could be claimed many at a time."""
    ground = live_ground

    # Without a context the next of a run starts at once.
    @ground.app.job()
    async def job(tenant: int) -> None:
        ground.seen.append(tenant)
        await asyncio.sleep(0.004)

    keyed = [job.call(tenant=0).options(partition_key=f"key {number % 10}") for number in range(400)]
    await ground.client.enqueue_many(keyed)
    await ground.client.queues.limit("default", fair_by="tenant")
    for tenant in (1, 2):
        await put(ground, job, tenant, 400)
    async with ground.app.worker(config=replace(BRISK, concurrency=2)):
        await ground.until(lambda: len(ground.seen) >= 400)
    counts = Counter(ground.seen[:400])
    assert counts[0] < 180, counts


async def test_one_slot_goes_round(live_ground: Ground) -> None:
    """Also where a claim brings a single job."""
    ground = live_ground
    job = note(ground, pause=0.02)
    await ground.client.queues.limit("default", fair_by="tenant")
    for tenant in (1, 2, 3):
        await put(ground, job, tenant, 20)
    async with ground.app.worker(config=replace(BRISK, concurrency=1)):
        await ground.until(lambda: len(ground.seen) >= 30)
    counts = Counter(ground.seen[:30])
    assert max(counts.values()) - min(counts.values()) <= 6, counts  # in their own order: 20, 10 and 0


async def test_it_is_switched_on_and_off_at_run_time(live_ground: Ground) -> None:
    """Whatever was enqueued when, all of it is done."""
    ground = live_ground
    job = note(ground)
    async with ground.app.worker(config=BRISK):
        for turn in range(6):
            await ground.client.queues.limit("default", fair_by="tenant" if turn % 2 else None)
            await put(ground, job, turn, 100)
            await put(ground, job, turn + 10, 100, delay=0.05)
        await ground.until(lambda: len(ground.seen) == 1_200)
    assert set(Counter(ground.seen).values()) == {100}


async def test_two_workers_share_the_turns(live_ground: Ground) -> None:
    """Each job is started once, and who comes late waits no longer than with one."""
    ground = live_ground
    job = note(ground)
    await ground.client.queues.limit("default", fair_by="tenant")
    fill(ground, 20_000)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(ground.app.worker(config=BRISK))
        await ground.until(lambda: len(ground.seen) >= 500)
        await put(ground, job, 2, 10)
        before = len(ground.seen)
        await ground.until(lambda: started(ground, 2) == 10)
        assert len(ground.seen) - before < A_FEW_CLAIMS
        await ground.until(lambda: len(ground.seen) == 20_010, 60)
        await asyncio.sleep(0.2)
    assert len(ground.seen) == 20_010


async def test_turns_keep_to_limits(live_ground: Ground) -> None:
    """A queue may have both."""
    ground = live_ground
    running: list[int] = []
    peaks: list[int] = []

    async def work(hand: Hand, tenant: int) -> None:
        ground.seen.append(tenant)
        running.append(tenant)
        peaks.append(len(running))
        await hand.pause(0.01)
        running.pop()

    job = ground.job(work)
    await ground.client.queues.limit("default", concurrency=2, fair_by="tenant")
    await put(ground, job, 1, 500)
    async with ground.app.worker(config=BRISK):
        await ground.until(lambda: len(ground.seen) >= 20)
        await put(ground, job, 2, 5)
        before = len(ground.seen)
        await ground.until(lambda: started(ground, 2) == 5)
        assert len(ground.seen) - before < 200
    assert max(peaks) == 2


async def test_an_idle_worker_sleeps_until_the_next_one_is_due(live_ground: Ground) -> None:
    """Whosever it is, among more tenants than are looked at in one go."""
    ground = live_ground
    job = note(ground)
    await ground.client.queues.limit("default", fair_by="tenant")
    for tenant in range(60):
        await put(ground, job, tenant, delay=600)
    async with ground.app.worker(config=replace(BRISK, poll=timedelta(seconds=60))):
        begun = time.monotonic()
        await put(ground, job, 70, delay=1)
        await ground.until(lambda: ground.seen == [70])
        assert time.monotonic() - begun >= 1
