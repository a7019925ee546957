"""A hundred thousand jobs cancelled, retried and deleted by a filter, while a worker and a producer do their work."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from holdfast import App, AsyncClient, ControlResult, JobFilter, Progress, WorkerConfig
from tests.conftest import REQUIRED_MAJOR
from tests.crew.report import say

MANY = 100_000
#: nobody who enqueues and waits beside it may wait longer than this; a batch takes some hundredths of a second
LONGEST_WAIT = 5.0

_POSTGRES = f"""
INSERT INTO holdfast.job (id, chain_id, type_name, chain_type_name, queue, input, created_at, scheduled_at, ready_at)
SELECT id, id, 'idle', 'idle', 'heap', '{{}}', now(), now() + interval '1 day', now() + interval '1 day'
FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, {MANY})) AS number
"""
_SQLITE = f"""
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {MANY})
INSERT INTO holdfast_job (id, chain_id, type_name, chain_type_name, queue, input, created_at, scheduled_at, ready_at)
SELECT printf('00000000-0000-7000-8000-%012x', n), printf('00000000-0000-7000-8000-%012x', n), 'idle', 'idle', 'heap',
       '{{}}', '2026-01-01T00:00:00.000000Z', '2999-01-01T00:00:00.000000Z', '2999-01-01T00:00:00.000000Z'
FROM number
"""


@dataclass
class _Traffic:
    """What went on beside it."""

    waits: list[float] = field(default_factory=list)

    async def flow(self, app: App, client: AsyncClient) -> None:
        while True:
            began = time.monotonic()
            chain = await client.enqueue(app.call("echo", n=len(self.waits)))
            assert await client.wait(chain, timeout=60) == len(self.waits)
            self.waits.append(time.monotonic() - began)
            await asyncio.sleep(0.05)


def _app(url: str) -> App:
    app = App(url)

    # In front of what is retried by the thousands.
    @app.job(queue="live", priority=-10)
    async def echo(n: int) -> int:
        return n

    @app.job(queue="heap")
    async def idle() -> None: ...

    return app


@asynccontextmanager
async def _with_traffic(app: App, client: AsyncClient) -> AsyncIterator[_Traffic]:
    traffic = _Traffic()
    async with app.worker(config=WorkerConfig(queues=["live", "heap"], concurrency=10)):
        task = asyncio.create_task(traffic.flow(app, client))
        try:
            yield traffic
        finally:
            task.cancel()
            ended = (await asyncio.gather(task, return_exceptions=True))[0]
            assert isinstance(ended, asyncio.CancelledError), ended


async def _timed(what: str, work: Awaitable[list[ControlResult]], traffic: _Traffic) -> list[ControlResult]:
    began, seen = time.monotonic(), len(traffic.waits)
    results = await work
    beside = traffic.waits[seen:]
    longest = max(beside, default=0.0)
    took = time.monotonic() - began
    say(f"{what}: {len(results):,} in {took:.1f} s; {len(beside)} others beside it, the longest {longest:.2f} s")
    assert beside, "nothing else happened"
    assert longest < LONGEST_WAIT
    return results


async def _cancel_retry_delete(app: App) -> None:
    async with app.async_client() as client, _with_traffic(app, client) as traffic:
        shares: list[Progress] = []
        cancelled = await _timed(
            "cancel", client.cancel(JobFilter(queue="heap"), progress=shares.append, actor="ada"), traffic
        )
        assert len(cancelled) == len({result.id for result in cancelled}) == MANY
        assert {result.outcome for result in cancelled} == {"cancelled"}
        assert [step.share for step in shares] == sorted(step.share for step in shares)
        assert len(shares) >= MANY // 500
        retried = await _timed("retry", client.retry(JobFilter(queue="heap", status="cancelled")), traffic)
        assert {(result.outcome, len(retried)) for result in retried} == {("retried", MANY)}
        # Meanwhile the worker has begun with them.
        gone = [
            result
            for result in await _timed("delete", client.delete_chains(JobFilter(type_name="idle")), traffic)
            if result.is_done
        ]
        assert len(gone) == MANY
    app.close()


@pytest.mark.timeout(300)
async def test_sqlite(sqlite_file: Path) -> None:
    """One file, one process."""
    with closing(sqlite3.connect(sqlite_file)) as file, file:
        file.execute(_SQLITE)
    await _cancel_retry_delete(_app(f"sqlite:///{sqlite_file}"))
    with closing(sqlite3.connect(sqlite_file)) as file:
        assert file.execute("SELECT count(*) FROM holdfast_job WHERE queue = 'heap'").fetchone() == (0,)
        (entries,) = file.execute("SELECT count(*) FROM holdfast_audit WHERE actor = 'ada'").fetchone()
        assert entries == MANY


@pytest.mark.timeout(300)
@pytest.mark.parametrize("postgres_server", [REQUIRED_MAJOR], indirect=True, ids=[f"pg{REQUIRED_MAJOR}"])
async def test_postgres(postgres_url: str) -> None:
    """The newest PostgreSQL: it takes its time."""
    app = _app(postgres_url)
    with app.client() as client:
        client.migrate()
    with psycopg.connect(postgres_url) as connection:
        connection.execute(_POSTGRES.encode())
    await _cancel_retry_delete(app)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM holdfast.job WHERE queue = 'heap'").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM holdfast.audit WHERE actor = 'ada'").fetchone() == (MANY,)
