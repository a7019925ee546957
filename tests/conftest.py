"""Real servers for the tests: one PostgreSQL per major version and test run, fresh databases for whoever asks."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from holdfast import App
from tools.postgres_server import INSTALL_HINT, PostgresAddress, PostgresServer, available

REQUIRED_MAJOR = 18

_installed = available()
# A required major that is missing stays a parameter, so that its tests fail with the way out instead of vanishing.
_majors = sorted({*_installed} | (set() if os.environ.get("HOLDFAST_PG_BIN") else {REQUIRED_MAJOR}))

_servers = pytest.StashKey[list[PostgresServer]]()
_addresses = pytest.StashKey[dict[int, PostgresAddress]]()
_database_numbers = itertools.count(1)


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
            servers = config.stash[_servers] = list(pool.map(PostgresServer, _installed.values()))
            list(pool.map(PostgresServer.start, servers))
        addresses = [server.address for server in servers]
    config.stash[_addresses] = {address.major: address for address in addresses}


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["postgres"] = [dataclasses.asdict(a) for a in node.config.stash[_addresses].values()]


def pytest_unconfigure(config: pytest.Config) -> None:
    for server in config.stash.get(_servers, []):
        server.stop()


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
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresAddress, worker_id: str) -> Iterator[str]:
    """An empty database of the test's own."""
    name = f"test_{worker_id}_{next(_database_numbers)}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"
