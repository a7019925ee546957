"""What is not a connection, or not one for this app, is refused before anything is sent."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
import subprocess
import sys
from typing import Any

import aiosqlite
import asyncpg  # type: ignore[import-untyped]  # it ships no types
import psycopg
import psycopg_pool
import pytest
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

from holdfast.errors import WrongConnection
from tests.conformance.borrowed.shop import Shop


class Psycopg2Like:
    """psycopg2 is not installed here; only its name is looked at."""


Psycopg2Like.__module__ = "psycopg2.extensions"
Psycopg2Like.__name__ = Psycopg2Like.__qualname__ = "connection"


class ApswLike:
    """apsw is not installed here; only its name is looked at."""


ApswLike.__module__ = "apsw"
ApswLike.__name__ = ApswLike.__qualname__ = "Connection"

SQLITE_ENGINE = sqlalchemy.create_engine("sqlite://")
ASYNC_ENGINE = create_async_engine("sqlite+aiosqlite://")
NOT_CONNECTIONS: list[Any] = [
    pytest.param(object(), "", id="object"),
    pytest.param(None, "", id="None"),
    pytest.param(5, "", id="int"),
    pytest.param("postgresql://localhost/shop", "a URL or a name is not a connection", id="URL"),
    pytest.param(SQLITE_ENGINE, "an engine is not a connection; use `with engine.begin()", id="Engine"),
    pytest.param(ASYNC_ENGINE, "an engine is not a connection; use `async with engine.begin()", id="AsyncEngine"),
    pytest.param(orm.sessionmaker(SQLITE_ENGINE), "call it, and pass the session", id="sessionmaker"),
    pytest.param(async_sessionmaker(ASYNC_ENGINE), "call it, and pass the session", id="async_sessionmaker"),
    pytest.param(
        psycopg_pool.NullConnectionPool("", open=False), "a pool is not a connection", id="psycopg NullConnectionPool"
    ),
    pytest.param(psycopg_pool.ConnectionPool("", open=False), "a pool is not a connection", id="psycopg pool"),
    pytest.param(psycopg.Connection, "", id="a class"),
    pytest.param(ApswLike(), "two SQLite libraries on one file in one process", id="apsw"),
    pytest.param(Psycopg2Like(), "psycopg2 is not supported; connect with psycopg (version 3)", id="psycopg2"),
]


@pytest.mark.parametrize(("tx", "hint"), NOT_CONNECTIONS)
async def test_what_is_no_connection(sqlite_shop: Shop, tx: Any, hint: str) -> None:
    """The error names the class and what the client takes."""
    name = re.escape(f"{type(tx).__module__}.{type(tx).__qualname__}: {hint}")
    with pytest.raises(WrongConnection, match=rf"{name}.*a sync client takes .*sqlite3 Connection, Cursor; sqlalchemy"):
        sqlite_shop.enqueue(tx)
    with pytest.raises(WrongConnection, match=rf"{name}.*an async client takes aiosqlite Connection; sqlalchemy Async"):
        await sqlite_shop.aenqueue(tx)


async def test_transactions_and_pools_of_a_server(postgres_shop: Shop) -> None:
    """What libraries hand out besides connections, on the app of a server."""
    async with asyncpg.create_pool(postgres_shop.url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        for tx, hint in (
            (pool, "a pool is not a connection"),
            (pool.acquire(), "use `async with pool.acquire() as connection:`"),
            (connection.transaction(), "not its transaction"),
        ):
            with pytest.raises(WrongConnection, match=re.escape(hint)):
                await postgres_shop.aenqueue(tx)
    refused = pytest.raises(WrongConnection, match="not its transaction")
    with psycopg.connect(postgres_shop.url) as sync_connection, sync_connection.transaction() as block, refused:
        postgres_shop.enqueue(block)
    forgotten = asyncio.sleep(0)
    with pytest.raises(WrongConnection, match=r"it has not been awaited; .*takes psycopg AsyncConnection, AsyncCursor"):
        await postgres_shop.aenqueue(forgotten)
    await forgotten


async def test_sqlite_connections_on_the_app_of_a_server(postgres_shop: Shop) -> None:
    """The error names both databases."""
    refused = pytest.raises(WrongConnection, match="it leads to SQLite, but this app keeps its jobs in PostgreSQL")
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for tx in (connection, connection.cursor()):
            with refused:
                postgres_shop.enqueue(tx)
    async with aiosqlite.connect(":memory:") as async_connection:
        with refused:
            await postgres_shop.aenqueue(async_connection)


async def test_server_connections_on_the_app_of_a_file(postgres_url: str, sqlite_shop: Shop) -> None:
    """The error names both databases."""
    refused = pytest.raises(WrongConnection, match="it leads to PostgreSQL, but this app keeps its jobs in SQLite")
    with psycopg.connect(postgres_url) as connection:
        for tx in (connection, connection.cursor()):
            with refused:
                sqlite_shop.enqueue(tx)
    async_connection = await psycopg.AsyncConnection.connect(postgres_url)
    asyncpg_connection = await asyncpg.connect(postgres_url)
    for async_tx in (async_connection, asyncpg_connection):
        with refused:
            await sqlite_shop.aenqueue(async_tx)
        await async_tx.close()


def test_no_library_is_imported_to_recognise_one() -> None:
    """An application that uses one of them does not pay for the others."""
    code = (
        "import sys, holdfast.stores, holdfast.stores.sqlite;"
        "print(*{'psycopg', 'asyncpg', 'sqlalchemy', 'aiosqlite', 'pysqlite3', 'django'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
