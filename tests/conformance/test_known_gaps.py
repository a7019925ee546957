"""Claims that do not hold yet: each turns red when its gap is closed, and then becomes a case."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import WorkerConfig
from holdfast.operations.reap_jobs import reap_jobs
from holdfast.testing import temporary_app
from holdfast.testing.conformance import Harness
from holdfast.testing.conformance.harness import DEAD_AFTER, LEASE, Face
from tests.conformance.backdoors import PostgresBackdoor, SqliteBackdoor


async def _dead_workers_jobs_are_found_behind_expired_ones(h: Harness) -> None:
    await h.register("a-living-one")
    await h.put(600)
    await h.claim(worker="a-living-one")
    h.clock.advance(LEASE + timedelta(seconds=1))
    await h.register("a-living-one")
    lost = await h.put_one()
    await h.claim(worker="z-dead-one")
    await h.run(lambda: reap_jobs("reaper", DEAD_AFTER, lambda found: [job for job in found if job.is_owner_dead]))
    assert (await h.job(lost)).status == "pending"


_gap = pytest.mark.xfail(
    strict=True,
    reason="find_reapable takes any 500: leases of a living worker that ran out, and that the reaper leaves for now, "
    "can fill the batch, and the jobs of a dead worker behind them in the index are not seen",
)


@_gap
async def test_sqlite_reaper_looks_behind_expired_leases(sqlite_file: Path) -> None:
    """However many leases of the living ran out, the jobs of the dead are found."""
    async with Harness(f"sqlite:///{sqlite_file}", "async", SqliteBackdoor(str(sqlite_file))) as harness:
        await _dead_workers_jobs_are_found_behind_expired_ones(harness)


@_gap
async def test_postgres_reaper_looks_behind_expired_leases(postgres_database: tuple[str, PostgresBackdoor]) -> None:
    """As on SQLite."""
    face: Face = "async"
    async with Harness(postgres_database[0], face, postgres_database[1]) as harness:
        await _dead_workers_jobs_are_found_behind_expired_ones(harness)


@pytest.mark.xfail(strict=True, reason="a cancelled Worker.run() gives the jobs back while their handlers run on")
async def test_cancelled_worker_ends_its_handlers() -> None:
    """A worker whose task is cancelled (a TaskGroup that fails, a server that stops) leaves no handler behind."""
    with temporary_app() as app:
        started, ended = asyncio.Event(), asyncio.Event()
        handlers: list[asyncio.Task[object] | None] = []

        @app.job()
        async def endless() -> None:
            handlers.append(asyncio.current_task())
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with app.async_client() as client:
            await client.enqueue(endless.call())
        running = asyncio.create_task(app.make_worker(WorkerConfig()).run())
        await started.wait()
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        has_ended = ended.is_set()
        for handler in handlers:
            assert handler is not None
            handler.cancel()
        await asyncio.wait_for(ended.wait(), 5)
        assert has_ended
