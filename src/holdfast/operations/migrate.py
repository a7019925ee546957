"""Bring the schema up to this code's version, or say why that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import NotMigrated, SchemaTooNew
from holdfast.operations.statement import Operation, Statement

_LOCK_KEY = 0x686F6C6466617374  # "holdfast"


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema; `oldest_code` is the first release that can work with it."""

    version: int
    name: str
    oldest_code: str


def read_migrations() -> Operation[list[Migration]]:
    """What the database has."""
    found = yield Statement("find_migrations")
    if not found[0][0]:
        return []
    rows = yield Statement("read_migrations")
    return [Migration(version, name, oldest_code) for version, name, oldest_code in rows]


def migrate(known: Sequence[Migration]) -> Operation[list[Migration]]:
    """Apply what is missing, one process at a time; returns what was applied."""
    yield Statement("lock_migrations", {"key": _LOCK_KEY})
    applied = yield from read_migrations()
    newest = max((migration.version for migration in applied), default=0)
    missing = [migration for migration in known if migration.version > newest]
    for migration in missing:
        yield Statement(f"migrations/{migration.version:04d}_{migration.name}")
        yield Statement(
            "record_migration",
            {"version": migration.version, "name": migration.name, "oldest_code": migration.oldest_code},
        )
    return missing


def check_schema(known: Sequence[Migration], code_version: str) -> Operation[None]:
    """Raise unless this code can work with the schema as it is."""
    applied = yield from read_migrations()
    found = applied[-1].version if applied else 0
    needed = known[-1].version
    if found < needed:
        raise NotMigrated(found, needed)
    newest = applied[-1]
    if found > needed and _release(newest.oldest_code) > _release(code_version):
        raise SchemaTooNew(found, newest.oldest_code, code_version)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
