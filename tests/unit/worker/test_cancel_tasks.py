"""Ending tasks, also those that miss a cancellation."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast.worker import cancel_tasks as module
from holdfast.worker.cancel_tasks import cancel_tasks


async def test_all_have_ended() -> None:
    tasks = [asyncio.create_task(asyncio.sleep(60)) for _ in range(3)]
    await asyncio.sleep(0)
    await cancel_tasks(tasks)
    assert all(task.cancelled() for task in tasks)


@pytest.mark.parametrize("is_asked", [False, True])
async def test_a_cancellation_that_got_lost_is_repeated(monkeypatch: pytest.MonkeyPatch, is_asked: bool) -> None:
    """As it gets lost when a driver's answer comes at the same moment; not before there was time to tidy up."""
    monkeypatch.setattr(module, "_ASK_AGAIN_SECONDS", 0.3)
    missed = asyncio.Event()

    async def serve() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            missed.set()
        await asyncio.sleep(60)

    task = asyncio.create_task(serve())
    await asyncio.sleep(0)
    began = time.monotonic()
    if is_asked:
        task.cancel()
    await cancel_tasks([task], is_asked=is_asked)
    assert missed.is_set()
    assert task.cancelled()
    assert time.monotonic() - began >= 0.25


async def test_patience_ends() -> None:
    """Somebody who never listens is left alone."""
    stop = asyncio.Event()

    async def deaf() -> None:
        while not stop.is_set():
            try:
                await stop.wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    await cancel_tasks([task], 0.1)
    assert not task.done()
    stop.set()
    await task


async def test_nothing_to_end() -> None:
    await cancel_tasks([])
