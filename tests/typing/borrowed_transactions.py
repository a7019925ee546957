"""What a type checker says of tx=: lines with an ignore must be errors, the others must not.

`test_borrowed_transactions.py` runs mypy and basedpyright over this file; nobody imports it.
"""
# mypy: disable-error-code="import-untyped"
# asyncpg ships no types: to mypy it is Any, basedpyright reads its source.  What has a __getattr__, as Django's proxy
# and cursor do, mypy takes for anything; that the async client refuses them is left to the run.

from __future__ import annotations

import sqlite3
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import psycopg_pool
import sqlalchemy
from django.db import connection as django_connection
from django.db import connections as django_connections
from django.db import transaction as django_transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.base import DatabaseWrapper as PostgresWrapper
from django.db.backends.sqlite3.base import DatabaseWrapper as SqliteWrapper
from django.db.backends.utils import CursorWrapper
from django.utils.connection import ConnectionProxy
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from holdfast.client import AsyncClient, Client
from holdfast.model.call import Call
from holdfast.stores.borrowed import AsyncTransaction, SyncTransaction


def enqueue(tx: SyncTransaction | None) -> None:
    """The sync client's tx=."""


async def aenqueue(tx: AsyncTransaction | None) -> None:
    """The async client's tx=."""


async def clients_take(
    *,
    client: Client,
    async_client: AsyncClient,
    call: Call[str],
    session: orm.Session,
    later: sqlalchemy_asyncio.AsyncSession,
) -> None:
    client.enqueue(call, tx=session)
    client.enqueue_many([call], tx=session)
    client.enqueue(call, tx=later)  # type: ignore[arg-type]
    client.enqueue_many([call], tx=later)  # type: ignore[arg-type]
    await async_client.enqueue(call, tx=later)
    await async_client.enqueue_many([call], tx=later)
    await async_client.enqueue(call, tx=session)  # type: ignore[arg-type]
    await async_client.enqueue_many([call], tx=session)  # type: ignore[arg-type]


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


def sync_client_takes_djangos(
    *,
    postgres: PostgresWrapper,
    sqlite: SqliteWrapper,
    proxy: ConnectionProxy[BaseDatabaseWrapper],
    cursor: CursorWrapper,
) -> None:
    enqueue(django_connection)
    enqueue(django_connections["default"])
    enqueue(postgres)
    enqueue(sqlite)
    enqueue(proxy)
    enqueue(cursor)
    enqueue("default")
    with django_connection.cursor() as opened:
        enqueue(opened)


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
    enqueue(b"default")  # type: ignore[arg-type]
    enqueue(django_transaction.atomic())  # type: ignore[arg-type]
    enqueue(django_connections)  # type: ignore[arg-type]


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
    django_wrapper: PostgresWrapper,
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
    await aenqueue("default")  # type: ignore[arg-type]
    await aenqueue(django_connection)  # type: ignore[arg-type]
    await aenqueue(django_wrapper)  # type: ignore[arg-type]
