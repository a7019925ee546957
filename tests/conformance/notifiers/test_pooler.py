"""Through a pooler that hands its connections from transaction to transaction, and through one that keeps sessions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from datetime import timedelta
from urllib.parse import urlsplit

import psycopg
import pytest

from holdfast import App, Context, WorkerConfig
from tools.pgbouncer import Pgbouncer

FAR = WorkerConfig(concurrency=5, poll=timedelta(minutes=5))
SOON = 15.0
SIZE = 4


@pytest.fixture
def own_pooler(direct_url: str) -> Iterator[Pgbouncer]:
    """Whose connections to the server nobody else has used."""
    with Pgbouncer(urlsplit(direct_url).port or 0, pool_size=SIZE) as pooler:
        yield pooler


@pytest.fixture
def session_pooler(direct_url: str) -> Iterator[Pgbouncer]:
    with Pgbouncer(urlsplit(direct_url).port or 0, pool_mode="session", pool_size=30) as pooler:
        yield pooler


@asynccontextmanager
async def working(app: App) -> AsyncIterator[float]:
    """A worker, and the slowest of some jobs that it did not expect."""

    async def add(a: int, b: int) -> int:
        return a + b

    job = app.job()(add)
    slowest = 0.0
    async with app.worker(config=FAR), app.async_client() as client:
        await client.wait(await client.enqueue(job.call(0, 0)), SOON)
        await asyncio.sleep(0.5)
        for number in range(4):
            began = time.monotonic()
            assert await client.wait(await client.enqueue(job.call(number, 1)), SOON) == number + 1
            slowest = max(slowest, time.monotonic() - began)
        yield slowest
    await app.aclose()


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "do not arrive" in record.getMessage()]


async def test_a_worker_looks_more_often(
    own_pooler: Pgbouncer, direct_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its poll is five minutes away, nothing is heard, and still no job waits for more than some seconds."""
    # A worker elsewhere signals nothing directly.
    app, other = App(own_pooler.url(direct_url)), App(own_pooler.url(direct_url))

    async def add(a: int, b: int) -> int:
        return a + b

    app.job()(add)
    job = other.job()(add)
    async with app.worker(config=FAR), other.async_client() as client:
        for number in range(3):
            assert await client.wait(await client.enqueue(job.call(number, 1)), SOON) == number + 1
            await asyncio.sleep(0.3)
        async with asyncio.timeout(SOON):
            while not complaints(caplog):  # noqa: ASYNC110 - what is watched has no event
                await asyncio.sleep(0.05)
    await app.aclose()
    await other.aclose()
    said = complaints(caplog)
    assert 1 <= len(said) <= 2  # of each app
    assert "listen_url" in said[0]


async def test_a_cancellation_is_told(own_pooler: Pgbouncer, direct_url: str) -> None:
    """Within seconds, though leases are renewed every twenty, and nothing is heard."""
    app = App(own_pooler.url(direct_url))
    started, stopped = asyncio.Event(), asyncio.Event()

    async def hold(ctx: Context) -> None:
        started.set()
        while ctx.cancelled is None:  # noqa: ASYNC110 - what is watched has no event
            await asyncio.sleep(0.01)
        stopped.set()

    job = app.job()(hold)
    async with app.worker(config=FAR), app.async_client() as client:
        chain = await client.enqueue(job.call())
        async with asyncio.timeout(SOON):
            await started.wait()
        await asyncio.sleep(1)
        began = time.monotonic()
        await client.cancel(chain)
        async with asyncio.timeout(SOON):
            await stopped.wait()
        assert time.monotonic() - began < 8
    await app.aclose()


async def test_with_a_direct_way_to_listen(
    own_pooler: Pgbouncer, direct_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = App(own_pooler.url(direct_url), listen_url=direct_url)
    async with working(app):
        pass
    assert complaints(caplog) == []


async def test_a_pooler_that_keeps_sessions(
    session_pooler: Pgbouncer, direct_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its probe is heard, so it listens."""
    async with working(App(session_pooler.url(direct_url))):
        with psycopg.connect(direct_url) as connection:
            text = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%_work%'"
            assert len(connection.execute(text.encode()).fetchall()) == 1
    assert complaints(caplog) == []


async def test_said_to_be_pooled(own_pooler: Pgbouncer, direct_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Then nobody tries to listen, and it is said why."""
    async with working(App(own_pooler.url(direct_url), pooled=True)):
        pass
    assert "pooled=True" in complaints(caplog)[0]


async def test_listening_to_another_database_is_noticed(
    direct_url: str, postgres_url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing of what is sent arrives, whoever listens is deaf and looks for himself."""
    from holdfast.notify import postgres_listener

    monkeypatch.setattr(postgres_listener, "_PROBE_SECONDS", 1.0)
    caplog.set_level(logging.INFO)
    app = App(direct_url, listen_url=postgres_url)
    async with app.worker(config=FAR):
        async with asyncio.timeout(SOON):
            while not complaints(caplog):  # noqa: ASYNC110 - what is watched has no event
                await asyncio.sleep(0.05)
    await app.aclose()


async def test_nothing_of_ours_stays_with_the_server(own_pooler: Pgbouncer, direct_url: str) -> None:
    """No setting, prepared statement or channel that others listen to is left in the pooler's connections."""
    async with working(App(own_pooler.url(direct_url))):
        pass
    with ExitStack() as stack:
        seen = set()
        for _ in range(SIZE):
            connection = stack.enter_context(psycopg.connect(own_pooler.url(direct_url), prepare_threshold=None))
            row = connection.execute(
                "SELECT pg_backend_pid(), current_setting('enable_seqscan'), current_setting('jit'), "
                "current_setting('synchronous_commit'), (SELECT count(*) FROM pg_prepared_statements), "
                "ARRAY(SELECT c FROM pg_listening_channels() AS c WHERE c NOT LIKE '%\\_chain\\_%')"
            ).fetchone()
            assert row is not None
            seen.add(row[0])
            assert row[1] == "on"
            assert row[3:] == ("on", 0, [])
        assert len(seen) == SIZE
