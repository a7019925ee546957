"""Every kind of connection that Holdfast borrows, opened by its own library and driven through one small interface."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

import aiosqlite
import asyncpg  # type: ignore[import-untyped]  # it ships no types
import psycopg
import psycopg_pool
import sqlalchemy
from django.db import connection as django_connection
from sqlalchemy import orm
from sqlalchemy.ext import asyncio as sqlalchemy_asyncio

from holdfast.operations.statement import Verb
from tests.conformance.borrowed.django_site import AtomicBlocks, django_database
from tests.conformance.borrowed.shop import Shop

T = TypeVar("T")


async def here(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


@dataclass
class Opened:
    """A connection or session of the application, in its library's default mode; `call` runs what is not awaited."""

    shop: Shop
    tx: Any
    is_async: bool
    sql: Callable[[str], Awaitable[Any]]
    commit: Callable[[], Awaitable[Any]]
    rollback: Callable[[], Awaitable[Any]]
    call: Callable[..., Awaitable[Any]] = here

    async def enqueue(self, job_id: str | None = None) -> str:
        if self.is_async:
            return await self.shop.aenqueue(self.tx, job_id)
        job: str = await self.call(self.shop.enqueue, self.tx, job_id)
        return job

    async def run(self, verb: Verb[T]) -> T:
        """A verb on the application's connection."""
        if self.is_async:
            return await self.shop.arun(self.tx, verb)
        result: T = await self.call(self.shop.run, self.tx, verb)
        return result

    async def spoil(self) -> None:
        """The job that the transaction was tied to is lost."""
        await (self.shop.aspoil(self.tx) if self.is_async else self.call(self.shop.spoil, self.tx))

    async def write(self, body: str) -> None:
        await self.sql(f"INSERT INTO note (body) VALUES ('{body}')")


Opener = Callable[[Shop, str | None], AbstractAsyncContextManager[Opened]]


@dataclass(frozen=True)
class Kind:
    name: str
    dialect: str
    open: Opener


def _awaitable(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def call(*args: Any) -> Any:
        return function(*args)

    return call


def _opened(shop: Shop, tx: Any, connection: Any) -> Opened:
    execute, commit, rollback = connection.execute, connection.commit, connection.rollback
    return Opened(shop, tx, False, _awaitable(execute), _awaitable(commit), _awaitable(rollback))


@contextlib.asynccontextmanager
async def _psycopg(shop: Shop, isolation: str | None, *, cursor: bool = False) -> AsyncIterator[Opened]:
    with psycopg.connect(shop.url) as connection:
        if isolation:
            connection.isolation_level = psycopg.IsolationLevel[isolation.replace(" ", "_")]
        tx = connection.cursor() if cursor else connection
        yield _opened(shop, tx, connection)


@contextlib.asynccontextmanager
async def _psycopg_async(shop: Shop, isolation: str | None, *, cursor: bool = False) -> AsyncIterator[Opened]:
    async with await psycopg.AsyncConnection.connect(shop.url) as connection:
        if isolation:
            await connection.set_isolation_level(psycopg.IsolationLevel[isolation.replace(" ", "_")])
        tx = connection.cursor() if cursor else connection
        yield Opened(shop, tx, True, connection.execute, connection.commit, connection.rollback)


@contextlib.asynccontextmanager
async def _psycopg_pool(shop: Shop, isolation: str | None) -> AsyncIterator[Opened]:
    with psycopg_pool.ConnectionPool(shop.url, min_size=1, max_size=1) as pool, pool.connection() as connection:
        if isolation:
            connection.isolation_level = psycopg.IsolationLevel[isolation.replace(" ", "_")]
        yield _opened(shop, connection, connection)


class _AsyncpgTransactions:
    """asyncpg has no commit of the connection, so one transaction follows the other."""

    def __init__(self, connection: Any, isolation: str | None) -> None:
        self._connection = connection
        self._isolation = isolation.lower().replace(" ", "_") if isolation else None
        self._transaction: Any = None

    async def begin(self) -> None:
        self._transaction = self._connection.transaction(isolation=self._isolation)
        await self._transaction.start()

    async def commit(self) -> None:
        await self._transaction.commit()
        await self.begin()

    async def rollback(self) -> None:
        await self._transaction.rollback()
        await self.begin()


@contextlib.asynccontextmanager
async def _asyncpg(shop: Shop, isolation: str | None) -> AsyncIterator[Opened]:
    connection = await asyncpg.connect(shop.url)
    try:
        transactions = _AsyncpgTransactions(connection, isolation)
        await transactions.begin()
        yield Opened(shop, connection, True, connection.execute, transactions.commit, transactions.rollback)
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def _asyncpg_pool(shop: Shop, isolation: str | None) -> AsyncIterator[Opened]:
    async with asyncpg.create_pool(shop.url, min_size=1, max_size=1) as pool, pool.acquire() as connection:
        transactions = _AsyncpgTransactions(connection, isolation)
        await transactions.begin()
        yield Opened(shop, connection, True, connection.execute, transactions.commit, transactions.rollback)


@contextlib.asynccontextmanager
async def _sqlite3(shop: Shop, isolation: str | None, *, cursor: bool = False) -> AsyncIterator[Opened]:
    with contextlib.closing(sqlite3.connect(shop.path)) as connection:
        tx = connection.cursor() if cursor else connection
        yield _opened(shop, tx, connection)


@contextlib.asynccontextmanager
async def _aiosqlite(shop: Shop, isolation: str | None) -> AsyncIterator[Opened]:
    async with aiosqlite.connect(shop.path) as connection:
        yield Opened(shop, connection, True, connection.execute, connection.commit, connection.rollback)


def engine_url(shop: Shop, driver: str) -> str:
    scheme, _, rest = shop.url.partition("://")
    return f"{scheme}+{driver}://{rest}"


def _options(isolation: str | None) -> dict[str, Any]:
    return {"isolation_level": isolation} if isolation else {}


def _sqlalchemy(driver: str, make: str) -> Opener:
    @contextlib.asynccontextmanager
    async def opened(shop: Shop, isolation: str | None) -> AsyncIterator[Opened]:
        engine = sqlalchemy.create_engine(engine_url(shop, driver), **_options(isolation))
        tx: Any
        if make == "Connection":
            tx = engine.connect()
        elif make == "Session":
            tx = orm.Session(engine)
        else:
            tx = orm.scoped_session(orm.sessionmaker(engine))

        async def sql(text: str) -> None:
            tx.execute(sqlalchemy.text(text))

        try:
            yield Opened(shop, tx, False, sql, _awaitable(tx.commit), _awaitable(tx.rollback))
        finally:
            tx.close()
            engine.dispose()

    return opened


def _sqlalchemy_async(driver: str, make: str) -> Opener:
    @contextlib.asynccontextmanager
    async def opened(shop: Shop, isolation: str | None) -> AsyncIterator[Opened]:
        engine = sqlalchemy_asyncio.create_async_engine(engine_url(shop, driver), **_options(isolation))
        tx: Any
        if make == "AsyncConnection":
            tx = await engine.connect()
        elif make == "AsyncSession":
            tx = sqlalchemy_asyncio.AsyncSession(engine)
        else:
            tx = sqlalchemy_asyncio.async_scoped_session(sqlalchemy_asyncio.async_sessionmaker(engine), lambda: 1)

        async def sql(text: str) -> None:
            await tx.execute(sqlalchemy.text(text))

        try:
            yield Opened(shop, tx, True, sql, tx.commit, tx.rollback)
        finally:
            await tx.close()
            await engine.dispose()

    return opened


def _django(make: str) -> Opener:
    """Everything in a thread of its own: Django refuses to work in one that has an event loop."""

    @contextlib.asynccontextmanager
    async def opened(shop: Shop, isolation: str | None) -> AsyncIterator[Opened]:
        options = {"isolation_level": psycopg.IsolationLevel[isolation.replace(" ", "_")]} if isolation else {}
        with ThreadPoolExecutor(1) as thread, contextlib.ExitStack() as stack:

            def call(function: Callable[..., Any], *args: Any) -> Awaitable[Any]:
                return asyncio.get_running_loop().run_in_executor(thread, function, *args)

            alias = "other" if make == "alias" else "default"
            blocks = AtomicBlocks(alias)
            wrapper = await call(stack.enter_context, django_database(shop.url, alias, OPTIONS=options))

            def execute(text: str) -> None:
                with wrapper.cursor() as cursor:
                    cursor.execute(text)

            await call(blocks.begin)
            tx = alias if make == "alias" else django_connection
            try:
                yield Opened(
                    shop,
                    tx,
                    False,
                    lambda text: call(execute, text),
                    lambda: call(blocks.commit),
                    lambda: call(blocks.rollback),
                    call,
                )
            finally:
                await call(blocks.end)
                await call(stack.close)

    return opened


KINDS = [
    Kind("psycopg Connection", "postgres", _psycopg),
    Kind("psycopg Cursor", "postgres", lambda shop, level: _psycopg(shop, level, cursor=True)),
    Kind("psycopg pool", "postgres", _psycopg_pool),
    Kind("psycopg AsyncConnection", "postgres", _psycopg_async),
    Kind("psycopg AsyncCursor", "postgres", lambda shop, level: _psycopg_async(shop, level, cursor=True)),
    Kind("asyncpg Connection", "postgres", _asyncpg),
    Kind("asyncpg PoolConnectionProxy", "postgres", _asyncpg_pool),
    Kind("sqlite3 Connection", "sqlite", _sqlite3),
    Kind("sqlite3 Cursor", "sqlite", lambda shop, level: _sqlite3(shop, level, cursor=True)),
    Kind("aiosqlite Connection", "sqlite", _aiosqlite),
    *(
        Kind(f"sqlalchemy {make} on {driver}", dialect, _sqlalchemy(driver, make))
        for dialect, driver in (("postgres", "psycopg"), ("sqlite", "pysqlite"))
        for make in ("Connection", "Session", "scoped_session")
    ),
    *(
        Kind(f"sqlalchemy {make} on {driver}", dialect, _sqlalchemy_async(driver, make))
        for dialect, driver in (("postgres", "psycopg"), ("postgres", "asyncpg"), ("sqlite", "aiosqlite"))
        for make in ("AsyncConnection", "AsyncSession", "async_scoped_session")
    ),
    *(
        Kind(f"django {make} on {dialect}", dialect, _django(make))
        for dialect in ("postgres", "sqlite")
        for make in ("connection", "alias")
    ),
]
