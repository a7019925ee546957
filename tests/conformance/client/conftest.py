"""A client of each face on each database, and a user's transaction beside it."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiosqlite
import psycopg
import pytest

from holdfast import App
from tests.conformance.backdoors import PostgresBackdoor
from tests.crew.fixtures import EVERY_POSTGRES


async def settled(answer: Any) -> Any:
    """The result, whichever face gave it."""
    return await answer if inspect.isawaitable(answer) else answer


@dataclass
class Place:
    """Where a test happens: an app, a client of one face, and what opens a user's connection of that face."""

    app: App
    face: str
    url: str
    client: Any

    async def connect(self, *, autocommit: bool = False) -> Any:
        """A connection as an application would open it, with a table of its own."""
        path = self.url.removeprefix("sqlite:///")
        mode: dict[str, Any] = {"isolation_level": None} if autocommit else {}
        if self.app.store.dialect == "postgres":
            if self.face == "sync":
                return psycopg.connect(self.url, autocommit=autocommit)
            return await psycopg.AsyncConnection.connect(self.url, autocommit=autocommit)
        return sqlite3.connect(path, **mode) if self.face == "sync" else await aiosqlite.connect(path, **mode)

    async def jobs(self) -> list[Any]:
        page = await settled(self.client.list_jobs(newest_first=False))
        return list(page.items)


@pytest.fixture(params=["sync", "async"])
def face(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def _place(app: App, face: str, url: str) -> AsyncIterator[Place]:
    client: Any = app.client() if face == "sync" else app.async_client()
    yield Place(app, face, url, client)
    await settled(client.close())
    app.close()


@pytest.fixture(params=["sqlite", *EVERY_POSTGRES])
async def place(
    request: pytest.FixtureRequest,
    face: str,
    sqlite_file: Path,
    shared_databases: Callable[[int], tuple[str, PostgresBackdoor]],
) -> AsyncIterator[Place]:
    """Every database."""
    if request.param == "sqlite":
        url = f"sqlite:///{sqlite_file}"
    else:
        url, _ = shared_databases(int(request.param.removeprefix("pg")))
    async for place in _place(App(url, notify=False), face, url):
        yield place


@pytest.fixture
async def sqlite_place(face: str, sqlite_file: Path) -> AsyncIterator[Place]:
    url = f"sqlite:///{sqlite_file}"
    async for place in _place(App(url), face, url):
        yield place


@pytest.fixture
async def postgres_place(face: str, postgres_database: tuple[str, PostgresBackdoor]) -> AsyncIterator[Place]:
    url, backdoor = postgres_database
    backdoor.execute("CREATE TABLE IF NOT EXISTS public.orders (id integer)", {})
    backdoor.execute("DELETE FROM public.orders", {})
    async for place in _place(App(url, notify=False), face, url):
        yield place
