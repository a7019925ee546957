"""What is left of a worker whose task is cancelled."""

from __future__ import annotations

import asyncio
import contextlib

from holdfast import WorkerConfig
from holdfast.testing import temporary_app


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
