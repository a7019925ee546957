"""Databases for the contract tests: migrated ones, and copies of a large backlog that is built once per server."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from holdfast.stores.open import StoreConfig, open_store
from tests.contract.backlog import EACH, PostgresFill, SqliteFill
from tools.postgres_server import PostgresAddress

#: what the planner knows: nothing; all of it; or how it was before the backlog came, when everything was finished
STATISTICS = ("never", "analyzed", "outdated")


def migrated(url: str, **config: str) -> str:
    """Apply all migrations at `url`, and return it."""
    store = open_store(url, StoreConfig(**config)).sync()  # type: ignore[arg-type]  # names and types of text only
    try:
        store.migrate()
    finally:
        store.close()
    return url


@pytest.fixture
def migrated_postgres(worker_database_url: str) -> str:
    return migrated(worker_database_url)


@pytest.fixture
def migrated_sqlite(sqlite_path: Path) -> Iterator[sqlite3.Connection]:
    migrated(f"sqlite:///{sqlite_path}")
    with contextlib.closing(sqlite3.connect(sqlite_path, isolation_level=None)) as connection:
        yield connection


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """One directory for all processes of the run."""
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


@pytest.fixture
def statistics() -> str:
    """What the planner knows; a test may parametrize it with STATISTICS."""
    return "analyzed"


@pytest.fixture
def private_backlog(
    postgres_server: PostgresAddress, run_directory: Path, worker_id: str, statistics: str
) -> Iterator[str]:
    """A copy of the backlog for one test: even what is rolled back leaves dead rows for the next to walk over."""
    _build_once(run_directory / f"backlog-{postgres_server.port}", lambda: _build_postgres(postgres_server))
    name = f"backlog_{worker_id}"
    yield postgres_server.create_database(name, template=f"backlog_{statistics}")
    postgres_server.drop_database(name)


@pytest.fixture
def empty_postgres(postgres_server: PostgresAddress, worker_id: str) -> Iterator[str]:
    """Nothing in it, and nobody looks after the statistics."""
    name = f"empty_{worker_id}"
    url = migrated(postgres_server.create_database(name))
    with psycopg.connect(url, autocommit=True) as connection:
        _leave_alone(connection)
    yield url
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def sqlite_backlogs(run_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """This process's own copies of a small file and of a large one, never analyzed and analyzed."""
    own = tmp_path_factory.mktemp("sqlite")
    _build_once(run_directory / "backlog-sqlite", lambda: _build_sqlite(run_directory))
    return {name: Path(shutil.copy(run_directory / f"{name}.db", own)) for name in ("small", "never", "analyzed")}


def _build_once(mark: Path, build: Callable[[], None]) -> None:
    with mark.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not mark.exists():
            build()
            mark.touch()


def _build_postgres(server: PostgresAddress) -> None:
    """Two templates are filled side by side; the third is an analyzed copy."""
    fill = PostgresFill("holdfast.job")

    def execute(database: str, *statements: str) -> None:
        with psycopg.connect(server.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    for statistics in STATISTICS:
        server.drop_database(f"backlog_{statistics}")
    migrated(server.create_database("backlog_never"))
    with psycopg.connect(server.url("backlog_never"), autocommit=True) as connection:
        _leave_alone(connection)
    execute("backlog_never", *fill.people, fill.finished)
    server.create_database("backlog_outdated", template="backlog_never")
    execute("backlog_outdated", "VACUUM ANALYZE")
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda name: execute(name, *fill.unfinished), ("backlog_never", "backlog_outdated")))
    server.create_database("backlog_analyzed", template="backlog_never")
    execute("backlog_analyzed", "ANALYZE")


def _leave_alone(connection: psycopg.Connection) -> None:
    for table in ("job", "job_attempt", "prefetch", "setting", "worker"):
        connection.execute(f"ALTER TABLE holdfast.{table} SET (autovacuum_enabled = off)".encode())


def _build_sqlite(directory: Path) -> None:
    for name, each in (("small", 250), ("never", EACH)):
        path = directory / f"{name}.db"
        path.unlink(missing_ok=True)
        migrated(f"sqlite:///{path}", journal="delete")
        fill = SqliteFill("holdfast_job", each)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for pragma in ("journal_mode = off", "synchronous = off", "cache_size = -300000"):
                connection.execute(f"PRAGMA {pragma}")
            connection.execute("BEGIN")
            for statement in (*fill.people, fill.finished, *fill.unfinished):
                connection.execute(statement)
            connection.execute("COMMIT")
    analyzed = Path(shutil.copy(directory / "never.db", directory / "analyzed.db"))
    with contextlib.closing(sqlite3.connect(analyzed)) as connection:
        connection.execute("ANALYZE")
