"""asyncpg connections as users really set them up."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]  # it ships no types
import pytest

from holdfast.errors import AbortedTransaction, NoTransaction, WrongConnection
from holdfast.model.clock import FakeClock
from tests.conformance.borrowed.shop import Shop


class OwnConnection(asyncpg.Connection):  # type: ignore[misc]  # it ships no types
    """A user's subclass."""


class OwnRecord(asyncpg.Record):  # type: ignore[misc]  # it ships no types
    """Rows as a user may want them."""

    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("the user's record is the user's")


@contextlib.asynccontextmanager
async def connected(shop: Shop, **options: Any) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(shop.url, **options)
    try:
        yield connection
    finally:
        await connection.close()


async def test_outside_a_transaction_is_refused(postgres_shop: Shop) -> None:
    """Asyncpg commits each statement by itself then; the error names the fix."""
    async with connected(postgres_shop) as connection:
        with pytest.raises(NoTransaction, match=r"`async with connection\.transaction\(\):`"):
            await postgres_shop.aenqueue(connection)
        async with connection.transaction():
            job = await postgres_shop.aenqueue(connection)
            assert not postgres_shop.has(job)
        assert postgres_shop.has(job)


async def test_a_transaction_begun_by_hand(postgres_shop: Shop) -> None:
    """Plain BEGIN is a transaction too."""
    async with connected(postgres_shop) as connection:
        await connection.execute("BEGIN")
        lost = await postgres_shop.aenqueue(connection)
        await connection.execute("ROLLBACK")
    assert not postgres_shop.has(lost)


async def test_a_nested_transaction_rolled_back(postgres_shop: Shop) -> None:
    """Asyncpg's own savepoints."""
    async with connected(postgres_shop) as connection, connection.transaction():
        outer = await postgres_shop.aenqueue(connection)
        inner_part = connection.transaction()
        await inner_part.start()
        inner = await postgres_shop.aenqueue(connection)
        await inner_part.rollback()
        async with connection.transaction():
            released = await postgres_shop.aenqueue(connection)
    assert [postgres_shop.has(job) for job in (outer, inner, released)] == [True, False, True]


async def test_codecs_records_and_subclasses_of_the_user_do_not_matter(postgres_shop: Shop) -> None:
    """Parameters and results are text, rows are plain."""
    async with connected(postgres_shop, connection_class=OwnConnection, record_class=OwnRecord) as connection:
        for name in ("json", "jsonb"):
            await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
        async with connection.transaction():
            job = await postgres_shop.aenqueue(connection)
            await postgres_shop.aenqueue(connection, job)
            assert list(postgres_shop.existing) == [job]
    assert postgres_shop.has(job)


async def test_without_a_statement_cache(postgres_shop: Shop) -> None:
    """As behind a transaction pooler."""
    async with connected(postgres_shop, statement_cache_size=0) as connection, connection.transaction():
        job = await postgres_shop.aenqueue(connection)
    assert postgres_shop.has(job)


async def test_a_replaced_clock_reaches_the_server_as_text(postgres_url: str) -> None:
    """Asyncpg would want a datetime for a timestamptz; tests with a fake clock send text."""
    shop = Shop(postgres_url, clock=FakeClock())
    async with connected(shop) as connection, connection.transaction():
        job = await shop.aenqueue(connection)
    assert shop.has(job)
    with shop.connection() as other:
        assert other.execute("SELECT extract(year FROM created_at) FROM holdfast.job").fetchone() == (2026,)
    await shop.close()


async def test_a_half_read_cursor_survives(postgres_shop: Shop) -> None:
    """The user's cursor goes on where it was."""
    async with connected(postgres_shop) as connection, connection.transaction():
        cursor = await connection.cursor("SELECT generate_series(1, 3)")
        assert [row[0] for row in await cursor.fetch(1)] == [1]
        await postgres_shop.aenqueue(connection)
        assert [row[0] for row in await cursor.fetch(5)] == [2, 3]


async def test_the_first_error_is_not_hidden(postgres_shop: Shop) -> None:
    """An aborted transaction is ours to name; the server's refusal is its cause."""
    async with connected(postgres_shop) as connection:
        transaction = connection.transaction()
        await transaction.start()
        with pytest.raises(asyncpg.DivisionByZeroError):
            await connection.execute("SELECT 1 / 0")
        with pytest.raises(AbortedTransaction) as caught:
            await postgres_shop.aenqueue(connection)
        assert isinstance(caught.value.__cause__, asyncpg.InFailedSQLTransactionError)
        await transaction.rollback()


async def test_closed_and_released_connections_are_refused(postgres_shop: Shop) -> None:
    """Before anything is sent."""
    async with connected(postgres_shop) as connection:
        pass
    with pytest.raises(WrongConnection, match="closed"):
        await postgres_shop.aenqueue(connection)
    async with asyncpg.create_pool(postgres_shop.url, min_size=1, max_size=1) as pool:
        async with pool.acquire() as proxy:
            pass
        with pytest.raises(WrongConnection, match="released"):
            await postgres_shop.aenqueue(proxy)


async def test_another_event_loop_is_refused(postgres_shop: Shop) -> None:
    """Asyncpg does not look, and can bring the process down."""
    async with connected(postgres_shop) as connection, connection.transaction():

        async def borrow_elsewhere() -> None:
            face = postgres_shop.store.asynchronous()
            try:
                await face.borrow(connection)
            finally:
                await face.close()

        with pytest.raises(WrongConnection, match="another event loop"):
            await asyncio.to_thread(asyncio.run, borrow_elsewhere())
        job = await postgres_shop.aenqueue(connection)
    assert postgres_shop.has(job)
