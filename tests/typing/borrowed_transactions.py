"""What a type checker says of tx=: lines with an ignore must be errors, the others must not.

`test_borrowed_transactions.py` runs mypy and basedpyright over this file; nobody imports it.
"""
# mypy: disable-error-code="import-untyped"
# asyncpg ships no types: to mypy it is Any, basedpyright reads its source.

from __future__ import annotations

import sqlite3
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import psycopg_pool
import sqlalchemy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from holdfast.stores.borrowed import AsyncTransaction, SyncTransaction


def enqueue(tx: SyncTransaction | None) -> None:
    """The sync client's tx=."""


async def aenqueue(tx: AsyncTransaction | None) -> None:
    """The async client's tx=."""


class OwnSession(orm.Session):
    """A user's subclass."""


def sync_client_takes(
    *,
    connection: psycopg.Connection[Any],
    dict_connection: psycopg.Connection[dict[str, Any]],
    cursor: psycopg.Cursor[Any],
    server_cursor: psycopg.ServerCursor[Any],
    client_cursor: psycopg.ClientCursor[Any],
    sqlite: sqlite3.Connection,
    sqlite_cursor: sqlite3.Cursor,
    core: sqlalchemy.Connection,
    session: orm.Session,
    own_session: OwnSession,
    scoped: orm.scoped_session[orm.Session],
) -> None:
    enqueue(None)
    enqueue(connection)
    enqueue(dict_connection)
    enqueue(cursor)
    enqueue(server_cursor)
    enqueue(client_cursor)
    enqueue(sqlite)
    enqueue(sqlite_cursor)
    enqueue(core)
    enqueue(session)
    enqueue(own_session)
    enqueue(scoped)


async def asyncpg_is_taken(connection: asyncpg.Connection, pool: asyncpg.Pool) -> None:
    await aenqueue(connection)
    async with pool.acquire() as proxy:
        await aenqueue(proxy)


async def async_client_takes(
    *,
    connection: psycopg.AsyncConnection[Any],
    cursor: psycopg.AsyncCursor[Any],
    server_cursor: psycopg.AsyncServerCursor[Any],
    sqlite: aiosqlite.Connection,
    core: sqlalchemy_asyncio.AsyncConnection,
    session: sqlalchemy_asyncio.AsyncSession,
    scoped: sqlalchemy_asyncio.async_scoped_session[sqlalchemy_asyncio.AsyncSession],
) -> None:
    await aenqueue(None)
    await aenqueue(connection)
    await aenqueue(cursor)
    await aenqueue(server_cursor)
    await aenqueue(sqlite)
    await aenqueue(core)
    await aenqueue(session)
    await aenqueue(scoped)


def sync_client_refuses(
    *,
    connection: psycopg.AsyncConnection[Any],
    cursor: psycopg.AsyncCursor[Any],
    sqlite: aiosqlite.Connection,
    core: sqlalchemy_asyncio.AsyncConnection,
    session: sqlalchemy_asyncio.AsyncSession,
    scoped: sqlalchemy_asyncio.async_scoped_session[sqlalchemy_asyncio.AsyncSession],
    engine: sqlalchemy.Engine,
    pool: psycopg_pool.ConnectionPool,
    transaction: orm.SessionTransaction,
) -> None:
    enqueue(connection)  # type: ignore[arg-type]
    enqueue(cursor)  # type: ignore[arg-type]
    enqueue(sqlite)  # type: ignore[arg-type]
    enqueue(core)  # type: ignore[arg-type]
    enqueue(session)  # type: ignore[arg-type]
    enqueue(scoped)  # type: ignore[arg-type]
    enqueue(engine)  # type: ignore[arg-type]
    enqueue(pool)  # type: ignore[arg-type]
    enqueue(transaction)  # type: ignore[arg-type]
    enqueue("postgresql://localhost/shop")  # type: ignore[arg-type]


async def async_client_refuses(
    *,
    connection: psycopg.Connection[Any],
    cursor: psycopg.Cursor[Any],
    sqlite: sqlite3.Connection,
    sqlite_cursor: sqlite3.Cursor,
    core: sqlalchemy.Connection,
    session: orm.Session,
    scoped: orm.scoped_session[orm.Session],
    engine: sqlalchemy_asyncio.AsyncEngine,
    pool: psycopg_pool.AsyncConnectionPool,
) -> None:
    await aenqueue(connection)  # type: ignore[arg-type]
    await aenqueue(cursor)  # type: ignore[arg-type]
    await aenqueue(sqlite)  # type: ignore[arg-type]
    await aenqueue(sqlite_cursor)  # type: ignore[arg-type]
    await aenqueue(core)  # type: ignore[arg-type]
    await aenqueue(session)  # type: ignore[arg-type]
    await aenqueue(scoped)  # type: ignore[arg-type]
    await aenqueue(engine)  # type: ignore[arg-type]
    await aenqueue(pool)  # type: ignore[arg-type]
    await aenqueue("postgresql://localhost/shop")  # type: ignore[arg-type]
