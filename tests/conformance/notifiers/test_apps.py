"""Apps whose hints travel through a notifier of the user's choice: workers, waits and cancellations hear in time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Cancellation, Context, WorkerConfig
from holdfast.errors import InvalidOption, MissingExtra
from tools.hint_servers import NatsServer, ValkeyServer

#: polls and renewals are out of the question: what happens in time, a hint has done
FAR = WorkerConfig(
    concurrency=5,
    poll=timedelta(minutes=5),
    heartbeat=timedelta(minutes=2),
    dead_after=timedelta(minutes=10),
    lease=timedelta(minutes=10),
    renew=timedelta(minutes=2),
)
SOON = 10.0


class Pair:
    """Two apps on one database, as in two processes."""

    def __init__(self, url: str, **options: Any) -> None:
        self.working, self.asking = App(url, **options), App(url, **options)
        self.started = asyncio.Event()
        self.stopped: list[Any] = []

        async def add(a: int, b: int) -> int:
            return a + b

        async def hold(ctx: Context) -> None:
            self.started.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.stopped.append(ctx.cancelled)
                raise

        for app in (self.working, self.asking):
            app.job()(add)
            app.job()(hold)

    async def close(self) -> None:
        await self.working.aclose()
        await self.asking.aclose()


@pytest.fixture(params=["redis", "nats", "local"])
async def pair(
    request: pytest.FixtureRequest, place: str, valkey: ValkeyServer, nats: NatsServer
) -> AsyncIterator[Pair]:
    url = {"redis": valkey.url, "nats": nats.url, "local": "local"}[request.param]
    pair = Pair(place, notifier=url)
    if request.param == "local":
        pair.asking = pair.working
    yield pair
    await pair.close()


@pytest.fixture(params=["postgres", "sqlite"])
def place(request: pytest.FixtureRequest, direct_url: str, sqlite_path: Path) -> str:
    return direct_url if request.param == "postgres" else f"sqlite:///{sqlite_path}"


async def test_an_idle_worker_hears_of_work(pair: Pair) -> None:
    """Again and again, long before it would look; and so does whoever waits for the end."""
    async with pair.working.worker(config=FAR), pair.asking.async_client() as client:
        for number in range(5):
            chain = await client.enqueue(pair.asking.call("add", number, 1))
            assert await client.wait(chain, SOON) == number + 1


async def test_who_waits_hears_of_the_end(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """With polls of waiters far away too."""
    from holdfast.client import attendance

    monkeypatch.setattr(attendance, "_SHORTEST_POLL", 3600.0)
    monkeypatch.setattr(attendance, "_LONGEST_POLL", 3600.0)
    async with pair.asking.async_client() as client, pair.working.async_client() as other:
        chain = await client.enqueue(pair.asking.call("add", 1, 2), delay=3600)
        waiting = asyncio.create_task(client.wait(chain, SOON))
        await asyncio.sleep(1)
        await other.complete_job(chain.id, 7)
        assert await waiting == 7


async def test_a_handler_hears_that_its_job_is_cancelled(pair: Pair) -> None:
    """Although no lease is renewed for minutes."""
    async with pair.working.worker(config=FAR), pair.asking.async_client() as client:
        chain = await client.enqueue(pair.asking.call("hold"))
        async with asyncio.timeout(SOON):
            await pair.started.wait()
        await client.cancel(chain)
        async with asyncio.timeout(SOON + 5):
            while not pair.stopped:  # noqa: ASYNC110 - what is watched has no event
                await asyncio.sleep(0.02)
    assert pair.stopped == [Cancellation.CANCELLED]


async def test_a_retry_is_told(pair: Pair) -> None:
    """What a person makes claimable again is work like any other."""
    async with pair.working.worker(config=FAR), pair.asking.async_client() as client:
        chain = await client.enqueue(pair.asking.call("add", 1, 2), delay=3600)
        await client.cancel(chain)
        await asyncio.sleep(0.5)
        await client.retry(chain)
        await client.reschedule(chain, delay=0)
        assert await client.wait(chain, SOON) == 3


async def test_silent_enqueues_wake_nobody(place: str) -> None:
    """notify=False of an enqueue or of a client; one that speaks then wakes the worker, which finds them all.

    A worker may look for reasons of its own, late on a slow machine; a hint would wake it every time.
    """
    pair = Pair(place, notifier="local")
    pair.asking = pair.working
    async with (
        pair.working.worker(config=FAR),
        pair.working.async_client() as client,
        pair.working.async_client(notify=False) as silent,
    ):
        for _ in range(5):
            loud = await client.enqueue(pair.working.call("add", 3, 3))
            assert await client.wait(loud, SOON) == 6
            await asyncio.sleep(1)
            quiet = [
                await client.enqueue(pair.working.call("add", 1, 1), notify=False),
                await silent.enqueue(pair.working.call("add", 2, 2)),
            ]
            await asyncio.sleep(1)
            attempts = [(await client.get_job(chain.id)).attempt for chain in quiet]
            if attempts == [0, 0]:
                break
        assert attempts == [0, 0]
        await client.enqueue(pair.working.call("add", 3, 3))
        assert [await client.wait(chain, SOON) for chain in quiet] == [2, 4]
    await pair.close()


@pytest.mark.parametrize("scheme", ["redis", "nats"])
def test_missing_extra(scheme: str, monkeypatch: pytest.MonkeyPatch, sqlite_path: Path) -> None:
    """The error says what to type."""
    monkeypatch.setitem(sys.modules, scheme, None)
    with pytest.raises(MissingExtra, match=rf"pip install 'holdfast\[{scheme}\]'"):
        App(f"sqlite:///{sqlite_path}", notifier=f"{scheme}://127.0.0.1:1")


@pytest.mark.parametrize("wrong", ["", "kafka://x", "redis", 7, "LOCAL", "redis://127.0.0.1:99999/0", "nats://x:port"])
def test_unknown_notifier(wrong: Any, sqlite_path: Path) -> None:
    """Refused when the app is made."""
    with pytest.raises(InvalidOption, match="notifier"):
        App(f"sqlite:///{sqlite_path}", notifier=wrong)


def test_a_password_is_not_repeated(sqlite_path: Path) -> None:
    """Errors end up in logs."""
    with pytest.raises(InvalidOption, match="notifier") as caught:
        App(f"sqlite:///{sqlite_path}", notifier="redis://user:secret@127.0.0.1:99999")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["redis", "nats"])
async def test_a_server_that_is_not_there(scheme: str, place: str, caplog: pytest.LogCaptureFixture) -> None:
    """Everything works by looking, every second; it is said once, with the reason."""
    pair = Pair(place, notifier=f"{scheme}://127.0.0.1:1")
    began = time.monotonic()
    async with pair.working.worker(config=FAR), pair.asking.async_client() as client:
        for number in range(3):
            chain = await client.enqueue(pair.asking.call("add", number, 0))
            assert await client.wait(chain, SOON) == number
    await pair.close()
    assert time.monotonic() - began < 3 * SOON
    said = [record for record in caplog.records if "does not answer" in record.getMessage()]
    assert 1 <= len(said) <= 2  # of each app
    assert "127.0.0.1" in said[0].getMessage()
