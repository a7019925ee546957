"""What waits for the limits of its concurrency key and has room comes, however much that is."""

from __future__ import annotations

from datetime import timedelta

from holdfast import Drained
from holdfast.model.scan_position import ScanPosition
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.stores import AsyncStore
from holdfast.worker.maintenance.limit_sweeper import LimitSweeper
from tests.conformance.worker.conftest import Ground, Hand


async def aside(ground: Ground, store: AsyncStore, count: int, key_concurrency: int | None = None) -> None:
    """One job runs elsewhere, so many wait for it, and then the limit is gone, or another."""

    async def work(hand: Hand) -> None: ...

    handle = ground.job(work, concurrency_key="k")
    await ground.client.enqueue_many([handle.call() for _ in range(count + 1)])
    await ground.client.queues.limit("default", key_concurrency=1)
    position = ScanPosition()
    position.look_back(await store.run(lambda: find_lanes(["default"]), read_only=True), 0, 0)
    claim = await store.run(lambda: claim_jobs("elsewhere", position.lanes, count + 1, timedelta(minutes=1)))
    assert (len(claim), claim.aside) == (1, count)
    await ground.client.queues.limit("default", key_concurrency=key_concurrency)


async def test_all_of_a_key_come_at_once(ground: Ground) -> None:
    """One round brings them, portion by portion."""
    woken: set[str] = set()
    store = ground.app.store.asynchronous()
    try:
        await aside(ground, store, 2100)
        await LimitSweeper(store, woken.update).run_once()
        position = ScanPosition()
        position.look_back(await store.run(lambda: find_lanes(["default"]), read_only=True), 0, 0)
        claim = await store.run(lambda: claim_jobs("elsewhere", position.lanes, 3000, timedelta(minutes=1)))
    finally:
        await store.close()
    assert len(claim) == 2100
    assert woken == {"default"}


async def test_jobs_that_nobody_takes_hide_none_for_long(ground: Ground) -> None:
    """As many rounds as it takes to double up to them, and not one for each."""
    store = ground.app.store.asynchronous()
    try:
        await aside(ground, store, 30, key_concurrency=2)
        sweeper = LimitSweeper(store, lambda _: None)
        freed = [(await sweeper.run_once())["freed"] for _ in range(5)]
        left = await sweeper.run_once()
    finally:
        await store.close()
    assert freed == [1, 2, 4, 8, 16]
    assert left == {"freed": 0}


async def test_where_one_is_taken_it_begins_anew(ground: Ground) -> None:
    """A key that gets on, if not at its limit, is not flooded."""
    store = ground.app.store.asynchronous()
    try:
        await aside(ground, store, 30, key_concurrency=3)
        sweeper = LimitSweeper(store, lambda _: None)
        freed = [(await sweeper.run_once())["freed"] for _ in range(2)]
        position = ScanPosition()
        position.look_back(await store.run(lambda: find_lanes(["default"]), read_only=True), 0, 0)
        claim = await store.run(lambda: claim_jobs("elsewhere", position.lanes, 1, timedelta(minutes=1)))
        freed += [(await sweeper.run_once())["freed"] for _ in range(2)]
    finally:
        await store.close()
    assert len(claim) == 1
    assert freed == [2, 4, 1, 2]


async def test_a_drain_runs_them(ground: Ground) -> None:
    """It leaves nothing that a worker would run."""
    store = ground.app.store.asynchronous()
    try:
        await aside(ground, store, 3)
        assert await ground.app.adrain(waits_for_dead=False) == Drained(completed=3)
    finally:
        await store.close()
