"""The loop around a maintenance service."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta

import pytest

from holdfast.worker.maintenance.service import ServiceLoop


class Walker:
    """Three pages, then a long pause."""

    name = "walker"
    interval = timedelta(seconds=0.01)
    timeout = timedelta(seconds=5)
    is_amid = True

    def __init__(self, fails_at: int = 0) -> None:
        self.rounds = 0
        self.done = asyncio.Event()
        self._fails_at = fails_at

    async def run_once(self) -> Mapping[str, int]:
        self.rounds += 1
        if self.rounds == self._fails_at:
            raise ValueError("a row that nobody should have written")
        if self.rounds == 1:
            self.interval = timedelta(hours=1)  # whoever waits for it is not seen again
        if self.rounds == 3:
            self.is_amid = False
            self.done.set()
        return {}


async def run(service: Walker) -> None:
    task = asyncio.create_task(ServiceLoop(service).run())
    async with asyncio.timeout(20):
        await service.done.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_pages_do_not_wait_for_the_interval() -> None:
    """Until all have been looked at."""
    service = Walker()
    await run(service)
    assert service.rounds == 3


async def test_an_error_that_nobody_expected(caplog: pytest.LogCaptureFixture) -> None:
    """Is logged with its traceback, and the next round comes all the same."""
    service = Walker(fails_at=1)
    with caplog.at_level(logging.ERROR):
        await run(service)
    assert [record.exc_info is not None for record in caplog.records] == [True]
