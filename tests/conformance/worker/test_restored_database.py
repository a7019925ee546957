"""A worker in a restored backup, or in a copy, starts paused and says so."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from holdfast import App, WorkerConfig
from holdfast.errors import DatabaseRestored
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.leaks import nobody_is_connected
from tools.postgres_server import INSTALL_HINT, PostgresAddress

_PATIENCE = 20.0
_CONFIG = WorkerConfig(poll=timedelta(seconds=0.1))

Restore = Callable[[], str]


@pytest.fixture(params=["sqlite", *EVERY_POSTGRES])
def original(
    request: pytest.FixtureRequest,
    postgres_addresses: dict[int, PostgresAddress],
    migrated_template: Callable[[int], str],
    sqlite_path: Path,
    worker_id: str,
) -> Iterator[tuple[str, Restore]]:
    """A database, and what makes another one of its content."""
    if request.param == "sqlite":
        copy = sqlite_path.with_name("restored.db")

        def copied() -> str:
            shutil.copy(sqlite_path, copy)
            return f"sqlite:///{copy}"

        yield f"sqlite:///{sqlite_path}", copied
        return
    major = int(request.param.removeprefix("pg"))
    if major not in postgres_addresses:
        pytest.fail(f"PostgreSQL {major} is missing; {INSTALL_HINT}", pytrace=False)
    address = postgres_addresses[major]
    names = [f"restored_{worker_id}_{number}" for number in range(2)]

    def loaded() -> str:
        nobody_is_connected(address, names[0])
        return address.create_database(names[1], template=names[0])

    yield address.create_database(names[0], template=migrated_template(major)), loaded
    for name in names:
        address.drop_database(name)


@contextmanager
def _app(url: str, seen: list[int]) -> Iterator[App]:
    app = App(url)

    @app.job()
    async def note(number: int) -> None:
        seen.append(number)

    with closing(app):
        yield app


async def _worked_in(url: str) -> None:
    """A worker has run a job there, and another job waits."""
    seen: list[int] = []
    with _app(url, seen) as app:
        async with app.async_client() as client:
            await client.enqueue(app.call("note", number=1))
            async with app.worker(config=_CONFIG), asyncio.timeout(_PATIENCE):
                while not seen:  # noqa: ASYNC110 - what a handler does gives no signal
                    await asyncio.sleep(0.01)
            await client.enqueue(app.call("note", number=2))


async def test_paused_until_it_is_accepted(original: tuple[str, Restore], caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is claimed, registered or fired; the log says why; accepted, it starts by itself."""
    url, restore = original
    await _worked_in(url)
    seen: list[int] = []
    caplog.set_level(logging.INFO, logger="holdfast.worker")
    with _app(restore(), seen) as app:
        async with app.async_client() as client, AsyncExitStack() as stack:
            entering = asyncio.create_task(stack.enter_async_context(app.worker(config=_CONFIG)))
            async with asyncio.timeout(_PATIENCE):
                while "the worker is paused" not in caplog.text:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)
            assert (seen, await client.workers.list(), entering.done()) == ([], [], False)
            assert "holdfast workers accept" in caplog.text
            await client.workers.accept(actor="kim")
            async with asyncio.timeout(_PATIENCE):
                await entering
                while seen != [2]:  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.01)


async def test_until_idle_is_refused(original: tuple[str, Restore]) -> None:
    """A script that waits for the end gets an error instead."""
    url, restore = original
    await _worked_in(url)
    with _app(restore(), []) as app, pytest.raises(DatabaseRestored, match="holdfast workers accept"):
        async with asyncio.timeout(_PATIENCE), app.worker(config=WorkerConfig(until_idle=True)):
            pass


async def test_the_same_database_again(original: tuple[str, Restore]) -> None:
    """Workers come and go, and none is paused."""
    url, _ = original
    await _worked_in(url)
    await _worked_in(url)


@pytest.mark.parametrize("is_heard", [True, False], ids=["heard", "silent"])
@pytest.mark.parametrize("original", EVERY_POSTGRES, indirect=True)
async def test_a_fail_over(original: tuple[str, Restore], caplog: pytest.LogCaptureFixture, is_heard: bool) -> None:
    """It changes the timeline alone; workers that lived through it tell it from a cluster that was wound back."""
    url, _ = original
    await _worked_in(url)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE holdfast.origin SET place = regexp_replace(place, '/[0-9]+/', '/0/')")
        if is_heard:
            connection.execute(
                "INSERT INTO holdfast.worker (id, version, queues, started_at, last_seen_at, heard_since) "
                "VALUES ('before', '1', '[]', now(), now(), now())"
            )
    seen: list[int] = []
    with _app(url, seen) as app:
        async with AsyncExitStack() as stack:
            entering = asyncio.create_task(stack.enter_async_context(app.worker(config=_CONFIG)))
            async with asyncio.timeout(_PATIENCE):
                while not (seen or "the worker is paused" in caplog.text):  # noqa: ASYNC110 - as above
                    await asyncio.sleep(0.01)
            assert (seen == [2]) == is_heard
            if not is_heard:
                entering.cancel()
                await asyncio.wait([entering])
