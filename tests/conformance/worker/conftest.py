"""Handlers of both kinds on both databases, each body written once.

A body is an async function that takes a `Hand`. For a handler in a thread the same body runs on a `SyncContext`, whose
methods answer at once, so that it never has to be suspended.
"""

from __future__ import annotations

import asyncio
import inspect
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiosqlite
import psycopg
import pytest

from holdfast import App, Context, Job, JobHandle, SyncContext, WorkerConfig
from holdfast.testing import FakeClock
from tests.conformance.backdoors import PostgresBackdoor, SqliteBackdoor
from tests.crew.fixtures import EVERY_POSTGRES, no_leaks
from tests.crew.leaks import nobody_is_connected
from tools.postgres_server import INSTALL_HINT, PostgresAddress

__all__ = ["no_leaks"]

BRISK = WorkerConfig(
    concurrency=4,
    heartbeat=timedelta(seconds=0.2),
    dead_after=timedelta(seconds=30),
    poll=timedelta(seconds=0.2),
    stop_deadline=timedelta(seconds=5),
)

Body = Callable[..., Coroutine[Any, Any, Any]]


async def settled(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer


class Hand:
    """A context, awaited whichever kind it is; `seen` collects what bodies want to tell the test."""

    def __init__(self, ground: Ground, ctx: Any) -> None:
        self.ground = ground
        self.ctx = ctx

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ctx, name)
        if not callable(found) or name == "log":
            return found

        async def called(*args: Any, **kwargs: Any) -> Any:
            return await settled(found(*args, **kwargs))

        return called

    async def pause(self, seconds: float = 0.01) -> None:
        if self.ground.kind == "async":
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)  # noqa: ASYNC251 - a thread of its own

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """One of the context's own."""
        if self.ground.kind == "async":
            async with self.ctx.transaction() as tx:
                yield Tx(tx, tx)
        else:
            with self.ctx.transaction() as tx:
                yield Tx(tx, tx)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Tx]:
        """One that an application would have; rolled back and closed in the end."""
        opened = await self.ground.connect()
        try:
            yield Tx(opened, opened)
        finally:
            await settled(opened.close())


@dataclass
class Tx:
    """A connection in its transaction, awaited whichever kind it is; `tx` is what is passed to Holdfast."""

    tx: Any
    connection: Any

    async def write(self, number: int) -> None:
        await settled(self.connection.execute(f"INSERT INTO orders (id) VALUES ({number})"))

    async def commit(self) -> None:
        await settled(self.connection.commit())

    async def try_to_commit(self) -> None:
        """Psycopg takes the commit of a transaction that has failed for a rollback; sqlite3 refuses it."""
        with suppress(sqlite3.DatabaseError):
            await self.commit()

    async def rollback(self) -> None:
        await settled(self.connection.rollback())


@dataclass
class Ground:
    """An app on one database, for handlers of one kind."""

    app: App
    kind: str
    url: str
    clock: FakeClock | None
    backdoor: Any
    client: Any
    seen: list[Any] = field(default_factory=list)

    def job(self, body: Body, **options: Any) -> JobHandle[..., Any]:
        """Register a body under its own name; its parameters after the hand are the job's."""
        parameters = list(inspect.signature(body).parameters.values())[1:]
        result = body.__annotations__.get("return", Any)

        if self.kind == "async":

            async def handler(ctx: Context, **arguments: Any) -> Any:
                return await body(Hand(self, ctx), **arguments)
        else:

            def handler(ctx: SyncContext, **arguments: Any) -> Any:  # type: ignore[misc]  # the other kind
                return _run(body(Hand(self, ctx), **arguments))

        context = Context if self.kind == "async" else SyncContext
        first = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=context)
        named = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
        handler.__signature__ = inspect.Signature([first, *named])  # type: ignore[attr-defined]  # inspect.signature() reads it
        handler.__annotations__ = {"ctx": context, "return": result} | {one.name: int for one in named}
        handle: JobHandle[..., Any] = self.app.job(name=body.__name__, **options)(handler)
        return handle

    async def put(self, handle: JobHandle[..., Any], **arguments: Any) -> str:
        """Enqueue; the id."""
        chain = await self.client.enqueue(handle.call(**arguments))
        return str(chain.id)

    async def get(self, job_id: str) -> Job:
        found: Job = await self.client.get_job(job_id)
        return found

    async def connect(self) -> Any:
        path = self.url.removeprefix("sqlite:///")
        if self.app.store.dialect == "postgres":
            if self.kind == "async":
                return await psycopg.AsyncConnection.connect(self.url)
            return psycopg.connect(self.url)
        return await aiosqlite.connect(path) if self.kind == "async" else sqlite3.connect(path)

    def sql(self, text: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Plain SQL; `{job}` and the like stand for the tables."""
        names = (
            "job",
            "job_blocker",
            "job_step",
            "job_signal",
            "job_log",
            "processed",
            "worker",
            "prefetch",
            "audit",
            "queue_share",
            "retired",
        )
        prefix = "holdfast." if self.app.store.dialect == "postgres" else "holdfast_"
        return list(self.backdoor.execute(text.format_map({name: prefix + name for name in names}), parameters))

    def orders(self) -> list[int]:
        return sorted(number for (number,) in self.backdoor.execute("SELECT id FROM orders", {}))

    async def until(self, probe: Callable[[], Awaitable[Any]] | Callable[[], Any], patience: float = 20) -> Any:
        async with asyncio.timeout(patience):
            while not (answer := await settled(probe())):  # noqa: ASYNC110 - what is waited for gives no signal
                await asyncio.sleep(0.01)
            return answer

    async def until_status(self, job_id: str, status: str) -> Job:
        async def is_so() -> Job | None:
            job = await self.get(job_id)
            return job if job.status == status else None

        found: Job = await self.until(is_so)
        return found


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """To its end, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise RuntimeError("a body in a thread must not wait for an event loop")


@pytest.fixture(params=["async", "thread"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def migrated_databases(
    postgres_addresses: dict[int, PostgresAddress], worker_id: str
) -> Iterator[Callable[[int], tuple[str, PostgresBackdoor]]]:
    """A migrated database of this test worker per server, made when first asked for."""
    made: dict[int, tuple[str, PostgresBackdoor]] = {}
    name = f"handlers_{worker_id}"

    def give(major: int) -> tuple[str, PostgresBackdoor]:
        if major not in made:
            if major not in postgres_addresses:
                pytest.fail(f"PostgreSQL {major} is missing; {INSTALL_HINT}", pytrace=False)
            url = postgres_addresses[major].create_database(name)
            with App(url).client() as client:
                client.migrate()
            made[major] = url, PostgresBackdoor(url)
            made[major][1].execute("CREATE TABLE public.orders (id integer)", {})
        return made[major]

    yield give
    for major, (_, backdoor) in made.items():
        backdoor.close()
        postgres_addresses[major].drop_database(name)


@pytest.fixture(params=["sqlite", *EVERY_POSTGRES])
def place(
    request: pytest.FixtureRequest,
    sqlite_file: Path,
    migrated_databases: Callable[[int], tuple[str, PostgresBackdoor]],
    postgres_addresses: dict[int, PostgresAddress],
) -> Iterator[tuple[str, Any]]:
    """URL and backdoor of a migrated database without rows, with a table of the application's own."""
    if request.param == "sqlite":
        file = SqliteBackdoor(str(sqlite_file))
        file.execute("CREATE TABLE orders (id integer)", {})
        yield f"sqlite:///{sqlite_file}", file
        return
    major = int(request.param.removeprefix("pg"))
    url, backdoor = migrated_databases(major)
    tables = (
        *("job", "job_attempt", "job_blocker", "job_step", "job_signal", "job_log", "processed", "worker", "prefetch"),
        *("retired", "leader", "origin", "stats", "throughput", "queue", "queue_share", "limited_key", "schedule"),
        *("job_type", "job_archive", "service", "setting", "deduplication"),
    )
    names = [*(f"holdfast.{table}" for table in tables), "public.orders"]
    backdoor.execute("; ".join(f"DELETE FROM {name}" for name in names), {})
    yield url, backdoor
    nobody_is_connected(postgres_addresses[major], url.rpartition("/")[2], allowed=1)  # the backdoor


async def _ground(place: tuple[str, Any], kind: str, clock: FakeClock | None, **options: Any) -> AsyncIterator[Ground]:
    url, backdoor = place
    app = App(url, clock=clock, **options)
    client = app.async_client()
    yield Ground(app, kind, url, clock, backdoor, client)
    await client.close()
    app.close()


@pytest.fixture
async def ground(place: tuple[str, PostgresBackdoor | SqliteBackdoor], kind: str) -> AsyncIterator[Ground]:
    """With a clock that stands still."""
    async for made in _ground(place, kind, FakeClock(), notify=False):
        yield made


@pytest.fixture
async def live_ground(place: tuple[str, PostgresBackdoor | SqliteBackdoor], kind: str) -> AsyncIterator[Ground]:
    """With the database's clock and with notifications."""
    async for made in _ground(place, kind, None):
        yield made
