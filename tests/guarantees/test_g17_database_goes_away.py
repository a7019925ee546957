"""G17: Restarts, killed backends, half-open sockets, full disks and poolers are survived by a worker that goes on.

Half-open, cut and slow sockets: see also tests/chaos/test_bad_network.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from holdfast.testing.postgres_server import unprivileged_account
from tests.crew.accounts import Accounts, Load, load, settle
from tests.crew.database import Database
from tests.crew.process import STEADY, Crew, crew_on, spawn
from tests.crew.report import say
from tests.crew.small_disk import SmallDisk, small_disk
from tests.crew.waiting import wait_for
from tools.pgbouncer import Pgbouncer
from tools.postgres_server import PostgresServer

ON_POSTGRES = pytest.mark.parametrize("database", ["pg18"], indirect=True)
#: longer than a verb waits for SQLite's write lock, and than the worker stays sure that it is heard
LONG_LOCK_SECONDS = 10.0


@contextlib.contextmanager
def one_worker(crew: Crew, database: Database) -> Iterator[Load]:
    """Alone under load: nobody helps it, nobody starts it again, and when the trouble is over everything gets done."""
    worker = crew.start(STEADY)
    with load(crew, lambda number: crew.jobs.note.call(number=number, pause=(0, 0.01, 0.1)[number % 3])) as producer:
        crew.ledger.wait("finished", 50)
        yield producer
    accounts = settle(crew, database, producer.enqueued)
    say(f"{len(producer.enqueued)} jobs, {accounts}")
    assert accounts == Accounts(lost=0, doubled=0, stuck=0)
    assert {entry.pid for entry in crew.ledger.read()} == {worker.pid}
    assert worker.stop() == 0


def goes_on(crew: Crew) -> None:
    """Work is done that was not done before."""
    crew.ledger.wait("finished", len(crew.ledger.read("finished")) + 50)


@pytest.mark.parametrize("how", ["fast", "immediate"])
def test_server_restarts(own_server: PostgresServer, tmp_path: Path, how: str) -> None:
    """Down by SIGINT, or by SIGKILL of every server process; up again after a while."""
    database = Database(own_server.create_database("restarts"))
    with crew_on(database.url, tmp_path) as crew, one_worker(crew, database):
        (own_server.shut_down if how == "fast" else own_server.crash)()
        time.sleep(1.5)  # the outage itself
        own_server.start()
        goes_on(crew)


def test_every_backend_is_terminated_again_and_again(own_server: PostgresServer, tmp_path: Path) -> None:
    """All of them at once, twenty times, those of the producer too."""
    database = Database(own_server.create_database("terminated"))
    everybody = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    with crew_on(database.url, tmp_path) as crew, one_worker(crew, database):
        for _ in range(20):
            database.query(everybody)
            time.sleep(0.1)
        goes_on(crew)


@ON_POSTGRES
def test_pooler_restarts(database: Database, tmp_path: Path) -> None:
    """Everything goes through pgbouncer in transaction mode, with fewer connections than it has clients."""
    port = urlsplit(database.url).port
    assert port is not None
    with Pgbouncer(port, pool_size=2) as pooler, crew_on(pooler.url(database.url), tmp_path) as crew:
        with one_worker(crew, database):
            goes_on(crew)
            pooler.kill()
            time.sleep(1)  # the outage itself
            pooler.start()
            goes_on(crew)
        assert "prepared statement" not in crew.said


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_file_is_locked_by_another_process(crew: Crew, database: Database, tmp_path: Path) -> None:
    """Somebody keeps a write transaction open for ten seconds."""
    taken = tmp_path / "taken"
    with one_worker(crew, database):
        process = spawn(keep_locked, database.path, taken, LONG_LOCK_SECONDS, log=crew.log)
        wait_for(taken.exists, "the file is locked")
        seen = len(crew.ledger.read("finished"))
        assert process.join() == 0
        crew.ledger.wait("finished", seen + 50)


def keep_locked(path: str, taken: Path, seconds: float) -> None:
    """The other process."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        taken.touch()
        time.sleep(seconds)
        connection.execute("ROLLBACK")


def test_sqlite_on_a_full_disk(tmp_path: Path) -> None:
    """The file, its journal and nothing else are on a disk that is full for a while."""
    with disk_or_complaint(16) as disk:
        if disk is not None:
            survive_a_full_disk(f"sqlite:///{disk.path}/jobs.db", disk, tmp_path, "disk is full")


def test_postgres_on_a_full_disk(own_server: PostgresServer, tmp_path: Path) -> None:
    """The tables are on a disk that is full for a while."""
    with disk_or_complaint(64) as disk:
        if disk is not None:
            place = disk.path / "tables"
            place.mkdir()
            if (account := unprivileged_account()) is not None:
                shutil.chown(place, account.pw_uid, account.pw_gid)
            with psycopg.connect(own_server.url(), autocommit=True) as connection:
                connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'".encode())
                connection.execute("CREATE DATABASE storm TABLESPACE small")
            survive_a_full_disk(own_server.url("storm"), disk, tmp_path, "No space left on device")
            own_server.stop()


@contextlib.contextmanager
def disk_or_complaint(megabytes: int) -> Iterator[SmallDisk | None]:
    """Mounting takes root, or sudo without a password, which every machine for CI has."""
    with small_disk(megabytes) as disk:
        if disk is None:
            line = "NOT RUN: full disks, because this user may not mount one; run the tests as root, or with sudo"
            assert os.environ.get("CI") != "true", line
            say(line)
        yield disk


def survive_a_full_disk(url: str, disk: SmallDisk, directory: Path, complaint: str) -> None:
    database = Database(url)
    with crew_on(url, directory) as crew, one_worker(crew, database):
        until = time.monotonic() + 3

        def is_over() -> bool:
            disk.fill()
            return complaint in crew.said and time.monotonic() > until

        wait_for(is_over, f"the worker says {complaint!r}", pause=0.05)
        disk.make_room()
        goes_on(crew)
