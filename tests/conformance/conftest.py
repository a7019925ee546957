"""Databases for the cases: prepared once per test worker, copied or emptied for each case."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.app import App
from tests.conformance.backdoors import PostgresBackdoor
from tools.postgres_server import PostgresAddress

pytest.register_assert_rewrite("holdfast.testing.conformance")

_TABLES = (
    *("job", "job_type", "job_attempt", "job_blocker", "job_step", "job_log", "worker", "prefetch"),
    *("deduplication", "processed", "audit", "setting", "waiter"),
)
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file to copy."""
    path = tmp_path_factory.mktemp("template") / "template.db"
    with App(f"sqlite:///{path}").client() as client:
        client.migrate()
    return path


@pytest.fixture
def sqlite_file(migrated_file: Path, tmp_path: Path) -> Path:
    """A migrated SQLite file of the test's own."""
    return Path(shutil.copy(migrated_file, tmp_path / "jobs.db"))


@pytest.fixture(scope="session")
def shared_database(postgres_server: PostgresAddress, worker_id: str) -> Iterator[tuple[str, PostgresBackdoor]]:
    """A migrated database of this test worker, never empty by itself: see `postgres_database`."""
    name = f"conformance_{worker_id}"
    url = postgres_server.create_database(name)
    with App(url).client() as client:
        client.migrate()
    backdoor = PostgresBackdoor(url)
    yield url, backdoor
    backdoor.close()
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_database(shared_database: tuple[str, PostgresBackdoor]) -> tuple[str, PostgresBackdoor]:
    """A migrated database without rows."""
    _, backdoor = shared_database
    # Faster than TRUNCATE for the few rows that a case leaves.
    backdoor.execute("; ".join(f"DELETE FROM holdfast.{table}" for table in _TABLES), {})
    backdoor.execute("DELETE FROM holdfast.migration WHERE version > 9000", {})
    return shared_database


@pytest.fixture
def empty_postgres_database(postgres_server: PostgresAddress, worker_id: str) -> Iterator[tuple[str, PostgresBackdoor]]:
    """A database without our tables."""
    name = f"empty_{worker_id}_{next(_numbers)}"
    url = postgres_server.create_database(name)
    backdoor = PostgresBackdoor(url)
    yield url, backdoor
    backdoor.close()
    postgres_server.drop_database(name)
