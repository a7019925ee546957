"""Every kind of connection an application may have, each with a transaction of its own and a table to write to."""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiosqlite
import asyncpg  # type: ignore[import-untyped]  # it ships no types
import psycopg
from django.db import connection as django_connection
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.conformance.borrowed.django_site import AtomicBlocks, django_database

INSERT = "INSERT INTO orders (number) VALUES (1)"


def here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@dataclass(frozen=True)
class UserTransaction:
    """What the application holds; `tx` is what it passes to Holdfast. Calls may return awaitables.

    `call` runs what is not awaited, where the application would run it.
    """

    tx: Any
    is_async: bool
    execute: Callable[[str], Any]
    commit: Callable[[], Any]
    rollback: Callable[[], Any]
    call: Callable[..., Any] = here


async def settled(value: Any) -> Any:
    """The value, awaited if need be: sync and async libraries read alike."""
    return await value if inspect.isawaitable(value) else value


Kind = Callable[[str], AbstractAsyncContextManager[UserTransaction]]


@asynccontextmanager
async def psycopg_sync(url: str) -> AsyncIterator[UserTransaction]:
    connection = psycopg.connect(url)
    try:
        yield UserTransaction(
            connection, False, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback
        )
    finally:
        connection.close()


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[UserTransaction]:
    connection = await psycopg.AsyncConnection.connect(url)
    try:
        yield UserTransaction(
            connection, True, lambda sql: connection.execute(sql.encode()), connection.commit, connection.rollback
        )
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[UserTransaction]:
    connection = await asyncpg.connect(url)
    transaction = connection.transaction()
    await transaction.start()
    try:
        yield UserTransaction(connection, True, connection.execute, transaction.commit, transaction.rollback)
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[UserTransaction]:
    # Not left by `async with`: a proxy whose connection was killed cannot be given back.
    pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
    proxy = await pool.acquire()
    transaction = proxy.transaction()
    await transaction.start()
    try:
        yield UserTransaction(proxy, True, proxy.execute, transaction.commit, transaction.rollback)
    finally:
        pool.terminate()


def sqlalchemy_connection(driver: str) -> Kind:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[UserTransaction]:
        engine = create_engine(_with_driver(url, driver))
        with engine.connect() as connection:
            yield UserTransaction(
                connection, False, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback
            )
        engine.dispose()

    return open_it


def sqlalchemy_session(driver: str) -> Kind:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[UserTransaction]:
        engine = create_engine(_with_driver(url, driver))
        with Session(engine) as session:
            yield UserTransaction(
                session, False, lambda sql: session.execute(text(sql)), session.commit, session.rollback
            )
        engine.dispose()

    return open_it


def sqlalchemy_scoped_session(driver: str) -> Kind:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[UserTransaction]:
        engine = create_engine(_with_driver(url, driver))
        session = scoped_session(sessionmaker(engine))
        yield UserTransaction(session, False, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
        session.remove()
        engine.dispose()

    return open_it


def sqlalchemy_async_connection(driver: str) -> Kind:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[UserTransaction]:
        engine = create_async_engine(_with_driver(url, driver))
        async with engine.connect() as connection:
            yield UserTransaction(
                connection, True, lambda sql: connection.execute(text(sql)), connection.commit, connection.rollback
            )
        await engine.dispose()

    return open_it


def sqlalchemy_async_session(driver: str) -> Kind:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[UserTransaction]:
        engine = create_async_engine(_with_driver(url, driver))
        async with AsyncSession(engine) as session:
            yield UserTransaction(
                session, True, lambda sql: session.execute(text(sql)), session.commit, session.rollback
            )
        await engine.dispose()

    return open_it


def sqlalchemy_async_scoped_session(driver: str) -> Kind:
    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[UserTransaction]:
        engine = create_async_engine(_with_driver(url, driver))
        session = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        yield UserTransaction(session, True, lambda sql: session.execute(text(sql)), session.commit, session.rollback)
        await session.remove()
        await engine.dispose()

    return open_it


def django(*, by_alias: bool) -> Kind:
    """In a thread of its own: Django refuses to work in one that has an event loop."""

    @asynccontextmanager
    async def open_it(url: str) -> AsyncIterator[UserTransaction]:
        blocks = AtomicBlocks()
        with ThreadPoolExecutor(1) as thread, ExitStack() as stack:

            def call(function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
                return asyncio.get_running_loop().run_in_executor(thread, function, *args)

            def execute(sql: str) -> None:
                with django_connection.cursor() as cursor:
                    cursor.execute(sql)

            await call(stack.enter_context, django_database(url))
            await call(blocks.begin)
            yield UserTransaction(
                "default" if by_alias else django_connection,
                False,
                lambda sql: call(execute, sql),
                lambda: call(blocks.commit),
                lambda: call(blocks.rollback),
                call,
            )
            await call(stack.close)

    return open_it


@asynccontextmanager
async def sqlite3_connection(url: str) -> AsyncIterator[UserTransaction]:
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    try:
        yield UserTransaction(connection, False, connection.execute, connection.commit, connection.rollback)
    finally:
        connection.close()


@asynccontextmanager
async def aiosqlite_connection(url: str) -> AsyncIterator[UserTransaction]:
    async with aiosqlite.connect(url.removeprefix("sqlite:///")) as connection:
        yield UserTransaction(connection, True, connection.execute, connection.commit, connection.rollback)


def _with_driver(url: str, driver: str) -> str:
    scheme, rest = url.split("://", 1)
    return f"{scheme}+{driver}://{rest}"


POSTGRES: dict[str, Kind] = {
    "psycopg": psycopg_sync,
    "psycopg async": psycopg_async,
    "asyncpg": asyncpg_connection,
    "asyncpg pool": asyncpg_pool,
    "sqlalchemy Connection": sqlalchemy_connection("psycopg"),
    "sqlalchemy Session": sqlalchemy_session("psycopg"),
    "sqlalchemy scoped_session": sqlalchemy_scoped_session("psycopg"),
    "sqlalchemy AsyncConnection, asyncpg": sqlalchemy_async_connection("asyncpg"),
    "sqlalchemy AsyncSession, asyncpg": sqlalchemy_async_session("asyncpg"),
    "sqlalchemy AsyncSession, psycopg": sqlalchemy_async_session("psycopg"),
    "sqlalchemy async_scoped_session": sqlalchemy_async_scoped_session("asyncpg"),
    "django connection": django(by_alias=False),
    "django alias": django(by_alias=True),
}

SQLITE: dict[str, Kind] = {
    "sqlite3": sqlite3_connection,
    "aiosqlite": aiosqlite_connection,
    "sqlalchemy Connection": sqlalchemy_connection("pysqlite"),
    "sqlalchemy Session": sqlalchemy_session("pysqlite"),
    "sqlalchemy AsyncConnection": sqlalchemy_async_connection("aiosqlite"),
    "sqlalchemy scoped_session": sqlalchemy_scoped_session("pysqlite"),
    "sqlalchemy AsyncSession": sqlalchemy_async_session("aiosqlite"),
    "sqlalchemy async_scoped_session": sqlalchemy_async_scoped_session("aiosqlite"),
    "django connection": django(by_alias=False),
    "django alias": django(by_alias=True),
}
