"""What becomes of the pool's connections when those who use them are cancelled, and which one is used next."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdfast import App
from holdfast.errors import DatabaseUnavailable
from holdfast.operations.identify_database import identify_database
from tests.conformance.backdoors import PostgresBackdoor
from tests.crew.proxy import proxy_to

Database = tuple[str, PostgresBackdoor]


@pytest.mark.parametrize("times", [1, 3])
async def test_who_is_cancelled_just_when_it_gets_a_connection_loses_none(
    postgres_database: Database, times: int
) -> None:
    """It is given one and does not live to see it: another one gets it."""
    async with _store(postgres_database) as store:
        for _ in range(times):
            async with store._connection():
                task = asyncio.create_task(_ask(store))
                await _until_somebody_waits(store)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await asyncio.wait_for(_ask(store), 5)


async def test_who_is_cancelled_while_it_waits_does_not_take_a_turn(postgres_database: Database) -> None:
    """What comes back goes to those who still wait."""
    async with _store(postgres_database) as store:
        async with store._connection():
            tasks = [asyncio.create_task(_ask(store)) for _ in range(2)]
            await _until_somebody_waits(store)
            tasks[0].cancel()
            await asyncio.wait(tasks[:1])
        await asyncio.wait_for(tasks[1], 5)


async def test_who_is_cancelled_amid_a_transaction_leaves_a_place_for_another(postgres_database: Database) -> None:
    """Its connection is closed, and with it whatever it had begun."""
    async with _store(postgres_database) as store:
        begun = asyncio.Event()

        async def begin_and_wait() -> None:
            async with store._connection() as connection:
                await connection.execute(b"BEGIN")
                begun.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(begin_and_wait())
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(_ask(store), 5)


async def test_the_oldest_connection_that_is_free_is_used(postgres_database: Database) -> None:
    """Its plans are made, and those that only a rush has needed can be closed."""
    async with _store(postgres_database, size=2) as store:
        async with store._connection() as first, store._connection() as second:
            assert first is not second
        for _ in range(3):
            async with store._connection() as again:
                assert again is first
                async with store._connection() as other:
                    assert other is second


async def test_connections_that_were_cut_are_not_handed_out_again(postgres_database: Database) -> None:
    """One verb fails; the others that lie ready are looked at before anybody meets them."""
    _, backdoor = postgres_database
    async with _store(postgres_database, size=2) as store:
        async with store._connection() as first, store._connection() as second:
            pids = [connection.info.backend_pid for connection in (first, second)]
        for pid in pids:
            backdoor.execute("SELECT pg_terminate_backend(:pid, 5000)", {"pid": pid})
        with pytest.raises(DatabaseUnavailable):
            await _ask(store)
        await asyncio.gather(_ask(store), _ask(store))


async def test_a_connection_that_does_not_answer_keeps_nobody_from_the_others(postgres_database: Database) -> None:
    """They are looked at all at once: one that hangs half open is given up by the system, minutes later."""
    url, backdoor = postgres_database
    port = urlsplit(url).port
    assert port is not None
    with proxy_to(port) as proxy:
        async with _store((proxy.url(url), backdoor), size=2) as store:
            await _ask(store)
            pool = store._pool
            first = await pool.take()
            proxy.stall()
            second = await pool.take()
            pool.give_back(first)
            pool.give_back(second)
            checking = asyncio.create_task(pool.check())
            await asyncio.wait_for(_ask(store), 5)
            proxy.cut()
            await checking
            assert first.closed


async def test_who_waits_when_the_pool_is_closed_is_told(postgres_database: Database) -> None:
    """And what is in use then is closed when it comes back."""
    async with _store(postgres_database) as store:
        async with store._connection() as connection:
            task = asyncio.create_task(_ask(store))
            await _until_somebody_waits(store)
            await store.close()
            with pytest.raises(DatabaseUnavailable):
                await task
        assert connection.closed


@asynccontextmanager
async def _store(database: Database, size: int = 1) -> AsyncIterator[Any]:
    """A store that leaves no connection behind."""
    url, backdoor = database
    before = _connected(backdoor)
    store: Any = App(url, pool_size=size).store.asynchronous()
    yield store
    await store.close()
    async with asyncio.timeout(10):
        while _connected(backdoor) > before:  # noqa: ASYNC110 - a session that ends gives no signal
            await asyncio.sleep(0.01)


async def _ask(store: Any) -> None:
    await store.run(identify_database, read_only=True)


async def _until_somebody_waits(store: Any) -> None:
    async with asyncio.timeout(10):
        while not store._pool._waiting:  # noqa: ASYNC110 - who waits gives no signal
            await asyncio.sleep(0)


def _connected(backdoor: PostgresBackdoor) -> int:
    query = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    ((count,),) = backdoor.execute(query, {})
    return int(count)
