"""What becomes of the pool's connections when those who use them are cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast import App
from holdfast.operations.identify_database import identify_database
from tests.conformance.backdoors import PostgresBackdoor


@pytest.mark.parametrize("times", [1, 3])
async def test_who_is_cancelled_while_the_connection_goes_back_loses_none(
    postgres_database: tuple[str, PostgresBackdoor], times: int
) -> None:
    """A pool that is busy just then must forget neither the connection, open as it is, nor its place."""
    url, backdoor = postgres_database
    before = _connected(backdoor)
    store: Any = App(url, pool_size=1).store.asynchronous()
    await store.run(identify_database, read_only=True)
    for _ in range(times):
        task = await _held_up_on_its_way_back(store)
        task.cancel()
        store._pool._lock.release()
        with pytest.raises(asyncio.CancelledError):
            await task
    await asyncio.wait_for(store.run(identify_database, read_only=True), 5)
    await store.close()
    async with asyncio.timeout(10):
        while _connected(backdoor) > before:  # noqa: ASYNC110 - a session that ends gives no signal
            await asyncio.sleep(0.01)


async def _held_up_on_its_way_back(store: Any) -> asyncio.Task[Any]:
    """A verb that is done, and waits for the lock of the pool, which is left to the caller."""
    lock = store._pool._lock
    original = store._execute

    async def execute(connection: Any, statement: Any) -> Any:
        rows = await original(connection, statement)
        await lock.acquire()
        return rows

    store._execute = execute
    task = asyncio.create_task(store.run(identify_database, read_only=True))
    async with asyncio.timeout(10):
        while not lock._waiters:  # noqa: ASYNC110 - a lock that is waited for gives no signal
            await asyncio.sleep(0)
    store._execute = original
    return task


def _connected(backdoor: PostgresBackdoor) -> int:
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    ((count,),) = backdoor.execute(query, {})
    return int(count)
