"""Settings of a worker in a process of its user's."""

from __future__ import annotations

import asyncio
import socket

import pytest

from holdfast import Worker, WorkerConfig
from holdfast.errors import WorkerCannotWork
from holdfast.testing import temporary_app
from holdfast.worker.limits import Limit


async def test_keywords_and_config_go_together() -> None:
    """Keywords win; the worker ends by itself when it is idle, and the block goes on."""
    with temporary_app() as app:
        done = asyncio.Event()

        @app.job()
        async def ring() -> None:
            done.set()

        async with app.async_client() as client:
            await client.enqueue(ring.call())
        async with app.worker(config=WorkerConfig(concurrency=3, batch=7), concurrency=5, until_idle=True) as worker:
            await asyncio.wait_for(done.wait(), 10)
            assert (worker.concurrency, worker.config.batch) == (5, 7)
            await asyncio.wait_for(_end_of(worker), 10)
        assert worker.reached is Limit.IDLE


async def _end_of(worker: Worker) -> None:
    while worker.reached is None:  # noqa: ASYNC110 - what users see is a property
        await asyncio.sleep(0.01)


async def test_a_taken_port_is_raised_where_the_worker_is_wanted() -> None:
    """Before the block begins."""
    with temporary_app() as app, socket.create_server(("127.0.0.1", 0)) as other:
        worker = app.worker(health_port=other.getsockname()[1])
        with pytest.raises(WorkerCannotWork, match="cannot answer health questions"):
            await worker.__aenter__()


def test_run_worker_refuses_what_could_never_work() -> None:
    """An app without handlers."""
    with temporary_app() as app, pytest.raises(WorkerCannotWork, match="no handlers"):
        app.run_worker()
