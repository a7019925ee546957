"""The storage contract over every store and both of its faces."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.testing import FakeClock, temporary_app
from holdfast.testing.conformance import CASES, Case, Harness
from holdfast.testing.conformance.harness import Face
from tests.conformance.backdoors import PostgresBackdoor, SqliteBackdoor

_ON_SQLITE = [case for case in CASES if "sqlite" in case.dialects]
_ON_POSTGRES = [case for case in CASES if "postgres" in case.dialects]

_faces = pytest.mark.parametrize("face", ["sync", "async"])


def _cases(cases: list[Case], *, on_empty: bool) -> pytest.MarkDecorator:
    chosen = [pytest.param(case, id=case.name) for case in cases if case.is_on_empty is on_empty]
    return pytest.mark.parametrize("case", chosen)


@_faces
@_cases(_ON_SQLITE, on_empty=False)
async def test_sqlite_file(case: Case, face: Face, sqlite_file: Path) -> None:
    """A file that exists and is migrated."""
    async with Harness(f"sqlite:///{sqlite_file}", face, SqliteBackdoor(str(sqlite_file))) as harness:
        await case.run(harness)


@_faces
@_cases(_ON_SQLITE, on_empty=True)
async def test_empty_sqlite_file(case: Case, face: Face, sqlite_path: Path) -> None:
    """A file that does not exist yet."""
    async with Harness(f"sqlite:///{sqlite_path}", face, SqliteBackdoor(str(sqlite_path))) as harness:
        await case.run(harness)


@_faces
@_cases(_ON_SQLITE, on_empty=False)
async def test_temporary_app(case: Case, face: Face) -> None:
    """The store of an app on a private temporary file."""
    clock = FakeClock()
    with temporary_app(clock=clock) as app:
        path = app.store.url.removeprefix("sqlite:///")
        harness = Harness(app.store.url, face, SqliteBackdoor(path), store=app.store, clock=clock)
        async with harness:
            await harness.ensure_ready()
            await case.run(harness)


@_faces
@_cases(_ON_POSTGRES, on_empty=False)
async def test_postgres(case: Case, face: Face, postgres_database: tuple[str, PostgresBackdoor]) -> None:
    """Each PostgreSQL that is installed."""
    async with Harness(postgres_database[0], face, postgres_database[1]) as harness:
        await case.run(harness)


@_faces
@_cases(_ON_POSTGRES, on_empty=True)
async def test_empty_postgres(case: Case, face: Face, empty_postgres_database: tuple[str, PostgresBackdoor]) -> None:
    """Each PostgreSQL, with a database that has none of our tables."""
    async with Harness(empty_postgres_database[0], face, empty_postgres_database[1]) as harness:
        await case.run(harness)


@_faces
@_cases(_ON_POSTGRES, on_empty=False)
async def test_pooled_postgres(case: Case, face: Face, pooled_database: tuple[str, PostgresBackdoor]) -> None:
    """PostgreSQL through a pooler that hands its connections from transaction to transaction."""
    async with Harness(pooled_database[0], face, pooled_database[1]) as harness:
        await case.run(harness)


@_faces
@_cases(_ON_POSTGRES, on_empty=True)
async def test_empty_pooled_postgres(
    case: Case, face: Face, empty_pooled_database: tuple[str, PostgresBackdoor]
) -> None:
    """The same, with a database that has none of our tables."""
    async with Harness(empty_pooled_database[0], face, empty_pooled_database[1]) as harness:
        await case.run(harness)


def test_names_are_unique_and_every_case_makes_a_claim() -> None:
    """A case is found by its name, and says what it claims."""
    assert len({case.name for case in CASES}) == len(CASES)
    assert [case.name for case in CASES if not case.claim.strip()] == []
