"""Servers that carry hints, one of each per test that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.crew.fixtures import no_leaks
from tests.crew.leaks import nobody_is_connected
from tools.hint_servers import NatsServer, ValkeyServer
from tools.postgres_server import PostgresAddress

__all__ = ["no_leaks"]


@pytest.fixture
def valkey() -> Iterator[ValkeyServer]:
    with ValkeyServer() as server:
        yield server


@pytest.fixture
def nats() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@pytest.fixture
def direct_url(
    postgres_addresses: dict[int, PostgresAddress],
    migrated_template: Callable[[int], str],
    pooled_major: int,
    worker_id: str,
    request: pytest.FixtureRequest,
) -> Iterator[str]:
    """A migrated database of the test's own, on the PostgreSQL that stands behind the pooler."""
    address = postgres_addresses[pooled_major]
    name = f"hints_{worker_id}_{abs(hash(request.node.name)) % 10**8}"
    yield address.create_database(name, template=migrated_template(pooled_major))
    try:
        nobody_is_connected(address, name)
    finally:
        address.drop_database(name)
