"""The look for leaks finds one of every kind."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

import psycopg
import pytest

from tests.crew import leaks
from tests.crew.leaks import keep_open, nobody_is_connected, nothing_is_left, this_process_is_as_before
from tests.crew.process import spawn
from tools.postgres_server import PostgresAddress


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaks, "_PATIENCE", 0.1)


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Here they are left on purpose."""


def test_nothing() -> None:
    with nothing_is_left():
        thread = threading.Thread(target=lambda: asyncio.run(asyncio.sleep(0)))
        thread.start()
        thread.join()
        subprocess.run(["true"], check=True)


def test_thread() -> None:
    end = threading.Event()
    with pytest.raises(AssertionError, match=r"threads .*holdfast-leases"), nothing_is_left():
        threading.Thread(target=end.wait, name="holdfast-leases").start()
    end.set()


def test_task() -> None:
    async def forgetful() -> None:
        _task.append(asyncio.create_task(asyncio.sleep(60), name="holdfast-reaper"))

    _task: list[asyncio.Task[None]] = []
    with pytest.raises(AssertionError, match=r"tasks .*holdfast-reaper"), nothing_is_left():
        asyncio.run(forgetful())


def test_process() -> None:
    with pytest.raises(AssertionError, match=r"processes .*sleep 60"), nothing_is_left():
        child = subprocess.Popen(["sleep", "60"])
    child.kill()
    child.wait()


def test_child() -> None:
    """Ten times, because one that is just being started has no command line yet."""
    for _ in range(10):
        with pytest.raises(AssertionError, match=r"processes .*sleep 60"), this_process_is_as_before():
            child = subprocess.Popen(["sleep", "60"])
        with this_process_is_as_before():
            child.kill()
            child.wait()


def test_what_every_test_is_asked(postgres_url: str, tmp_path: Path) -> None:
    """Without a look at all processes of the machine: a connection, a file of SQLite; not one that is kept."""
    with pytest.raises(AssertionError, match=r"connection to .*127"), this_process_is_as_before():
        connection = psycopg.connect(postgres_url)
    connection.close()
    with pytest.raises(AssertionError, match=r"left\.db"), this_process_is_as_before():
        file = sqlite3.connect(tmp_path / "left.db")
    file.close()
    with this_process_is_as_before():
        asyncio.run(asyncio.sleep(0))
        connection = psycopg.connect(postgres_url)
        keep_open(connection.fileno())
    connection.close()


def test_forked_process(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Workers of the crew are not our children but those of the server that forks them."""
    with pytest.raises(AssertionError, match=r"processes .*forked"), nothing_is_left():
        child = spawn(time.sleep, 60, log=tmp_path_factory.mktemp("log") / "log")
    child.kill()


def test_connection(postgres_server: PostgresAddress, postgres_url: str) -> None:
    name = postgres_url.rpartition("/")[2]
    nobody_is_connected(postgres_server, name)
    with psycopg.connect(postgres_url, application_name="forgotten"):
        with pytest.raises(AssertionError, match="forgotten"):
            nobody_is_connected(postgres_server, name)
        nobody_is_connected(postgres_server, name, allowed=1)
