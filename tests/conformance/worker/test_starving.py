"""Jobs behind which others are put all the time, so that their rows are never free by themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
import pytest

from holdfast import Chain
from holdfast.worker.maintenance.unblocker import Unblocker
from tests.conformance.worker.conftest import BRISK, Ground, Hand
from tests.crew.fixtures import EVERY_POSTGRES

_SHARERS = 4
_HOLD_SECONDS = 0.4


@pytest.fixture
def kind() -> str:
    return "async"


@contextmanager
def _shared_all_the_time(ground: Ground, enqueue: Callable[[psycopg.Connection], object]) -> Iterator[None]:
    """Transactions that overlap, each with a job behind the chain."""
    stop = threading.Event()

    def share(number: int) -> None:
        stop.wait(number * _HOLD_SECONDS / _SHARERS)
        while not stop.is_set():
            with psycopg.connect(ground.url) as connection:
                enqueue(connection)
                time.sleep(_HOLD_SECONDS)

    threads = [threading.Thread(target=share, args=(number,)) for number in range(_SHARERS)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("place", EVERY_POSTGRES, indirect=True)  # SQLite has one writer at a time
async def test_it_is_completed(live_ground: Ground) -> None:
    """Who comes to wait for the chain lets its completion go first."""
    ground = live_ground
    gate = threading.Event()

    async def work(hand: Hand) -> None:
        while not gate.is_set():
            await hand.pause()

    async def follow(_: Hand) -> None: ...

    common: Chain[object] = await ground.client.enqueue(ground.job(work).call())
    following = ground.job(follow)
    await ground.client.enqueue(following.call(), blockers=[common], queue="later")
    with ground.app.client() as client:

        def enqueue(connection: psycopg.Connection) -> None:
            client.enqueue(following.call(), blockers=[common], queue="later", tx=connection)

        async with ground.app.worker(queues=["default"], config=BRISK):
            await ground.until_status(common.id, "running")
            with _shared_all_the_time(ground, enqueue):
                await ground.until(lambda: ground.sql("SELECT count(*) FROM {job} WHERE queue = 'later'") > [(5,)])
                gate.set()
                began = time.monotonic()
                await ground.until_status(common.id, "completed")
                assert time.monotonic() - began < 10


@pytest.mark.parametrize("place", EVERY_POSTGRES, indirect=True)
async def test_it_is_started(live_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims pass by what is locked: whoever leads sees to it that it is free for a moment."""
    ground = live_ground
    monkeypatch.setattr(Unblocker, "interval", timedelta(seconds=1))

    async def work(_: Hand) -> None: ...

    async def follow(_: Hand) -> None: ...

    common: Chain[object] = await ground.client.enqueue(ground.job(work).call())
    following = ground.job(follow)
    await ground.client.enqueue(following.call(), blockers=[common], queue="later")
    with ground.app.client() as client:

        def enqueue(connection: psycopg.Connection) -> None:
            client.enqueue(following.call(), blockers=[common], queue="later", tx=connection)

        with _shared_all_the_time(ground, enqueue):
            await ground.until(lambda: ground.sql("SELECT count(*) FROM {job} WHERE queue = 'later'") > [(5,)])
            async with ground.app.worker(queues=["default"], config=BRISK):
                await ground.until_status(common.id, "completed")
