"""Real servers for the tests: one PostgreSQL per major version and test run, fresh databases for whoever asks."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast import App
from holdfast.testing.postgres_server import MEMORY
from tests.crew.leaks import nobody_is_connected, this_process_is_as_before
from tools.postgres_server import INSTALL_HINT, PostgresAddress, PostgresServer, available

REQUIRED_MAJOR = 18

#: the largest files are two for every process of the run, of 400,000 jobs each
_ROOM_WANTED_BYTES = 8 * 1024**3

#: tests that start processes or wait for something, many of them for seconds
_LONG = tuple(
    f"tests/{place}/"
    for place in ("chaos", "guarantees", "e2e", "stateful", "conformance/worker", "conformance/notifiers", "docs")
)
#: several tests at once may open fifty each
_SETTINGS = {"max_connections": "400"}

_installed = available()
# A required major that is missing stays a parameter, so that its tests fail with the way out instead of vanishing.
_majors = sorted({*_installed} | (set() if os.environ.get("HOLDFAST_PG_BIN") else {REQUIRED_MAJOR}))

_servers = pytest.StashKey[list[PostgresServer]]()
_addresses = pytest.StashKey[dict[int, PostgresAddress]]()
_database_numbers = itertools.count(1)


def pytest_configure(config: pytest.Config) -> None:
    """Files lie in memory where there is room for them: SQLite syncs them all the same, and nobody waits for a disk.

    A process that is killed leaves in memory what it would leave on a disk; only a power cut tells them apart.
    """
    if "TMPDIR" not in os.environ and _is_good_for_files(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None


def _is_good_for_files(directory: Path) -> bool:
    if not os.access(directory, os.W_OK | os.X_OK) or os.statvfs(directory).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(directory).free > _ROOM_WANTED_BYTES


def pytest_sessionstart(session: pytest.Session) -> None:
    """The process that owns the run starts the servers; an xdist worker is handed their addresses."""
    config = session.config
    handed = getattr(config, "workerinput", None)
    if handed is not None:
        addresses = [PostgresAddress(**fields) for fields in handed["postgres"]]
    elif config.option.collectonly:
        addresses = []
    else:
        # Side by side, because initdb is most of the half second each takes.
        with ThreadPoolExecutor() as pool:
            make = partial(PostgresServer, settings=_SETTINGS)
            servers = config.stash[_servers] = list(pool.map(make, _installed.values()))
            list(pool.map(PostgresServer.start, servers))
        addresses = [server.address for server in servers]
    config.stash[_addresses] = {address.major: address for address in addresses}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first: at the end of the run nobody waits for the last of them, and meanwhile others compute."""
    items.sort(key=lambda item: not item.nodeid.startswith(_LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["postgres"] = [dataclasses.asdict(a) for a in node.config.stash[_addresses].values()]


def pytest_unconfigure(config: pytest.Config) -> None:
    for server in config.stash.get(_servers, []):
        server.stop()


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """No thread, task, process, connection or open file of a database outlives a test.

    Folders whose tests start processes that start others look for those too.
    """
    with this_process_is_as_before():
        yield


@pytest.fixture(scope="session", params=_majors, ids=lambda major: f"pg{major}")
def postgres_server(request: pytest.FixtureRequest) -> PostgresAddress:
    """The run's server, once per available major; shared by all tests, so stop or crash a server of your own."""
    address = request.config.stash[_addresses].get(request.param)
    if address is None:
        pytest.fail(f"PostgreSQL {request.param} is missing; {INSTALL_HINT}", pytrace=False)
    return address


@pytest.fixture(scope="session")
def postgres_addresses(request: pytest.FixtureRequest) -> dict[int, PostgresAddress]:
    """The run's servers by major, for tests that choose theirs."""
    return request.config.stash[_addresses]


@pytest.fixture(scope="session")
def worker_database_url(postgres_server: PostgresAddress, worker_id: str) -> Iterator[str]:
    """One database per test worker, for tests that leave no trace or do not mind the others' traces."""
    name = f"worker_{worker_id}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture(scope="session")
def migrated_template(postgres_addresses: dict[int, PostgresAddress], worker_id: str) -> Iterator[Callable[[int], str]]:
    """By major, the name of a migrated database to be copied: a tenth of what migrating takes."""
    made: dict[int, str] = {}

    def template(major: int) -> str:
        if major not in made:
            made[major] = f"template_{worker_id}"
            with App(postgres_addresses[major].create_database(made[major])).client() as client:
                client.migrate()
        return made[major]

    yield template
    for major, name in made.items():
        postgres_addresses[major].drop_database(name)


@pytest.fixture
def migrated_postgres_url(
    postgres_server: PostgresAddress, migrated_template: Callable[[int], str], worker_id: str
) -> Iterator[str]:
    """A migrated database of the test's own."""
    name = f"test_{worker_id}_{next(_database_numbers)}"
    yield postgres_server.create_database(name, template=migrated_template(postgres_server.major))
    drop_unused(postgres_server, name)


@pytest.fixture
def postgres_url(postgres_server: PostgresAddress, worker_id: str) -> Iterator[str]:
    """An empty database of the test's own."""
    name = f"test_{worker_id}_{next(_database_numbers)}"
    yield postgres_server.create_database(name)
    drop_unused(postgres_server, name)


def drop_unused(server: PostgresAddress, name: str) -> None:
    """A connection that a test has left behind is an error."""
    try:
        nobody_is_connected(server, name)
    finally:
        server.drop_database(name)


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"
