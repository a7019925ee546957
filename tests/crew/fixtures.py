"""A crew on each database, for the conftest files of the folders that use one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crew.database import Database
from tests.crew.leaks import nobody_is_connected, nothing_is_left
from tests.crew.process import Crew, crew_on
from tools.postgres_server import INSTALL_HINT, PostgresAddress, PostgresServer, available

_names = itertools.count(1)

#: 18 must be here, others where the machine has them
EVERY_POSTGRES = [f"pg{major}" for major in sorted({18, *available()})]


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """No thread, task or process outlives a test; for connections see `database`."""
    with nothing_is_left():
        yield


@pytest.fixture(params=["sqlite", *EVERY_POSTGRES])
def database(
    request: pytest.FixtureRequest,
    postgres_addresses: dict[int, PostgresAddress],
    migrated_template: Callable[[int], str],
    sqlite_path: Path,
    worker_id: str,
) -> Iterator[Database]:
    """An empty database of the test's own, once per kind; `indirect` names the kinds a test can afford."""
    if request.param == "sqlite":
        yield Database(f"sqlite:///{sqlite_path}")
        return
    major = int(request.param.removeprefix("pg"))
    address = postgres_addresses.get(major)
    if address is None:
        pytest.fail(f"{request.param} is missing; {INSTALL_HINT}", pytrace=False)
    name = f"crew_{worker_id}_{next(_names)}"
    yield Database(address.create_database(name, template=migrated_template(major)))
    try:
        nobody_is_connected(address, name)
    finally:
        address.drop_database(name)


@pytest.fixture
def crew(database: Database, tmp_path: Path) -> Iterator[Crew]:
    with crew_on(database.url, tmp_path) as crew:
        with crew.jobs.app.client() as client:
            client.list_jobs()  # creates the schema
        yield crew


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that the test may stop, crash or starve."""
    servers = available()
    if 18 not in servers:
        pytest.fail(f"PostgreSQL 18 is missing; {INSTALL_HINT}", pytrace=False)
    with PostgresServer(servers[18]) as server:
        yield server
