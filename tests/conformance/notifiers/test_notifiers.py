"""What every notifier promises, over real servers."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing.conformance_notifiers import CASES, Case, Stand
from tests.conformance.notifiers.stands import LocalStand, NatsStand, PostgresStand, RedisStand, SqliteStand
from tools.hint_servers import NatsServer, ValkeyServer


def _cases(kind: type[Stand]) -> pytest.MarkDecorator:
    # What a case is for is said by the class: no server is needed to know it.
    bare = object.__new__(kind)
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.is_for(bare)])


async def _run(case: Case, stand: PostgresStand | SqliteStand | LocalStand | RedisStand | NatsStand) -> None:
    try:
        await case.run(stand)
    finally:
        stand.close()


@_cases(PostgresStand)
async def test_postgres(case: Case, postgres_url: str) -> None:
    """LISTEN and NOTIFY, on each PostgreSQL."""
    await _run(case, PostgresStand(postgres_url))


@_cases(SqliteStand)
async def test_sqlite(case: Case, sqlite_path: Path) -> None:
    """Watching the file."""
    await _run(case, SqliteStand(sqlite_path))


@_cases(LocalStand)
async def test_local(case: Case) -> None:
    """Inside one process."""
    await _run(case, LocalStand())


@_cases(RedisStand)
async def test_redis(case: Case, valkey: ValkeyServer) -> None:
    """A Valkey of the test's own."""
    await _run(case, RedisStand(valkey))


@_cases(NatsStand)
async def test_nats(case: Case, nats: NatsServer) -> None:
    """A NATS server of the test's own."""
    await _run(case, NatsStand(nats))


def test_names_are_unique_and_every_case_makes_a_claim() -> None:
    """A case is found by its name, and says what it claims."""
    assert len({case.name for case in CASES}) == len(CASES)
    assert [case.name for case in CASES if not case.claim.strip()] == []
