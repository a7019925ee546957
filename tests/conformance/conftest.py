"""Databases for the cases: prepared once per test worker, copied or emptied for each case."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.app import App
from tests.conformance.backdoors import PostgresBackdoor
from tests.conftest import REQUIRED_MAJOR
from tools.pgbouncer import INSTALL_HINT as PGBOUNCER_HINT
from tools.pgbouncer import Pgbouncer, find_pgbouncer
from tools.postgres_server import INSTALL_HINT, PostgresAddress

pytest.register_assert_rewrite("holdfast.testing.conformance")

_TABLES = (
    *("job", "job_type", "job_attempt", "job_blocker", "job_step", "job_signal", "job_log", "worker", "prefetch"),
    *("retired", "deduplication", "processed", "audit", "setting", "waiter", "job_archive", "service"),
    *("leader", "origin", "stats", "throughput", "queue", "queue_share", "limited_key", "schedule"),
)
_numbers = itertools.count(1)


#: grounds of the storage contract on which one face is enough: the other one runs the same text on its neighbour
_ONE_FACE = {"test_temporary_app": "async", "test_pooled_postgres": "sync"}
_ONE_FACE_ON_OLDER = {"test_postgres": "async"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Both faces on a file and on the newest PostgreSQL; elsewhere one: ten times a thousand cases take long."""
    left_out = [item for item in items if isinstance(item, pytest.Function) and _is_said_elsewhere(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _is_said_elsewhere(item: pytest.Function) -> bool:
    if item.path.name != "test_stores.py":
        return False
    parameters: dict[str, Any] = item.callspec.params if hasattr(item, "callspec") else {}
    name = item.originalname
    wanted = _ONE_FACE.get(name)
    if parameters.get("postgres_server", REQUIRED_MAJOR) < REQUIRED_MAJOR:
        wanted = _ONE_FACE_ON_OLDER.get(name)
    return wanted is not None and parameters.get("face") != wanted


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file to copy."""
    path = tmp_path_factory.mktemp("template") / "template.db"
    with App(f"sqlite:///{path}").client() as client:
        client.migrate()
    return path


@pytest.fixture
def sqlite_file(migrated_file: Path, sqlite_path: Path) -> Path:
    """A migrated SQLite file of the test's own."""
    return Path(shutil.copy(migrated_file, sqlite_path))


@pytest.fixture(scope="session")
def shared_databases(
    postgres_addresses: dict[int, PostgresAddress], worker_id: str
) -> Iterator[Callable[[int], tuple[str, PostgresBackdoor]]]:
    """By major, a migrated database of this test worker without rows, made when first asked for."""
    name = f"conformance_{worker_id}"
    made: dict[int, tuple[str, PostgresBackdoor]] = {}

    def give(major: int) -> tuple[str, PostgresBackdoor]:
        if major not in made:
            if major not in postgres_addresses:
                pytest.fail(f"PostgreSQL {major} is missing; {INSTALL_HINT}", pytrace=False)
            url = postgres_addresses[major].create_database(name)
            with App(url).client() as client:
                client.migrate()
            made[major] = url, PostgresBackdoor(url)
        _empty(made[major][1])
        return made[major]

    yield give
    for major, (_, backdoor) in made.items():
        backdoor.close()
        postgres_addresses[major].drop_database(name)


@pytest.fixture
def postgres_database(
    postgres_server: PostgresAddress, shared_databases: Callable[[int], tuple[str, PostgresBackdoor]]
) -> tuple[str, PostgresBackdoor]:
    """A migrated database without rows, once per PostgreSQL that is installed."""
    return shared_databases(postgres_server.major)


def _empty(backdoor: PostgresBackdoor) -> None:
    # Faster than TRUNCATE for the few rows that a case leaves.
    backdoor.execute("; ".join(f"DELETE FROM holdfast.{table}" for table in _TABLES), {})
    backdoor.execute("DELETE FROM holdfast.migration WHERE version > 9000", {})


@pytest.fixture(scope="session")
def pooled_major() -> int:
    """One is enough: what differs is the pooler."""
    return 18


@pytest.fixture(scope="session")
def pooler(postgres_addresses: dict[int, PostgresAddress], pooled_major: int) -> Iterator[Pgbouncer]:
    """A pgbouncer in transaction mode, of this test worker."""
    if find_pgbouncer() is None:
        pytest.fail(f"pgbouncer is missing; {PGBOUNCER_HINT}", pytrace=False)
    with Pgbouncer(postgres_addresses[pooled_major].port) as pooler:
        yield pooler


@pytest.fixture(scope="session")
def shared_pooled_database(
    postgres_addresses: dict[int, PostgresAddress], pooled_major: int, worker_id: str
) -> Iterator[tuple[str, PostgresBackdoor]]:
    """A migrated database of this test worker; its URL leads to the server itself."""
    name = f"pooled_{worker_id}"
    url = postgres_addresses[pooled_major].create_database(name)
    with App(url).client() as client:
        client.migrate()
    backdoor = PostgresBackdoor(url)
    yield url, backdoor
    backdoor.close()
    postgres_addresses[pooled_major].drop_database(name)


@pytest.fixture
def pooled_database(
    shared_pooled_database: tuple[str, PostgresBackdoor], pooler: Pgbouncer
) -> tuple[str, PostgresBackdoor]:
    """A migrated database without rows, through the pooler; the backdoor is direct."""
    url, backdoor = shared_pooled_database
    _empty(backdoor)
    return pooler.url(url), backdoor


@pytest.fixture
def empty_pooled_database(
    postgres_addresses: dict[int, PostgresAddress], pooler: Pgbouncer, pooled_major: int, worker_id: str
) -> Iterator[tuple[str, PostgresBackdoor]]:
    """A database without our tables, through the pooler."""
    name = f"empty_pooled_{worker_id}_{next(_numbers)}"
    url = postgres_addresses[pooled_major].create_database(name)
    backdoor = PostgresBackdoor(url)
    yield pooler.url(url), backdoor
    backdoor.close()
    postgres_addresses[pooled_major].drop_database(name)


@pytest.fixture
def empty_postgres_database(postgres_server: PostgresAddress, worker_id: str) -> Iterator[tuple[str, PostgresBackdoor]]:
    """A database without our tables."""
    name = f"empty_{worker_id}_{next(_numbers)}"
    url = postgres_server.create_database(name)
    backdoor = PostgresBackdoor(url)
    yield url, backdoor
    backdoor.close()
    postgres_server.drop_database(name)
