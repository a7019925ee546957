"""Bring the schema up to this code's version, or say why that cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import NotMigrated, SchemaTooNew
from holdfast.operations.statement import ATOMICALLY, Operation, Statement

_LOCK_KEY = 0x686F6C6466617374  # "holdfast"
_STAMP_WORDS = 3


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered step of the schema; `oldest_code` is the first release that can work with it."""

    version: int
    name: str
    oldest_code: str


@dataclass(frozen=True, slots=True)
class Functions:
    """The functions of the database: the scripts that make them, and what tells them from others.

    They follow the statements of the code, so they are made anew whenever these have changed, without a number.
    """

    scripts: Sequence[str]
    code_version: str
    digest: str

    @property
    def stamp(self) -> str:
        return f"Holdfast {self.code_version} {self.digest}"

    def replaces(self, stamp: str | None) -> bool:
        """Whether these are to be made where those of `stamp` are: not if they come from newer code."""
        if stamp is None or stamp == self.stamp:
            return stamp is None
        found = stamp.split()
        return len(found) != _STAMP_WORDS or _release(found[1]) <= _release(self.code_version)


def read_migrations() -> Operation[list[Migration]]:
    """What the database has."""
    found = yield Statement("find_migrations")
    if not found[0][0]:
        return []
    rows = yield Statement("read_migrations")
    return [Migration(version, name, oldest_code) for version, name, oldest_code in rows]


def find_functions() -> Operation[str | None]:
    """The stamp of the functions that the database has."""
    rows = yield Statement("find_functions")
    return rows[0][0]  # type: ignore[no-any-return]  # text or null


def migrate(known: Sequence[Migration], functions: Functions | None = None) -> Operation[list[Migration]]:
    """Apply what is missing, one process at a time; returns what was applied.

    The functions are made anew if they are not those of this code; newer ones, and those of a newer schema, stay.
    """
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
    if functions is not None and newest <= known[-1].version:
        found = yield from find_functions()
        if functions.replaces(found):
            for script in functions.scripts:
                yield Statement(script)
            yield Statement("stamp_functions", {"stamp": functions.stamp})
    return missing


def create_roles() -> Operation[None]:
    """Create the roles that are missing, and say what they may do."""
    yield ATOMICALLY
    yield Statement("roles/create")
    yield Statement("roles/grant")


def check_schema(known: Sequence[Migration], code_version: str) -> Operation[None]:
    """Raise unless this code can work with the schema as it is."""
    applied = yield from read_migrations()
    found = applied[-1].version if applied else 0
    needed = known[-1].version
    if found < needed:
        raise NotMigrated(found, needed)
    # A later step may allow more than one before it, which is there all the same.
    oldest_code = max((step.oldest_code for step in applied if step.version > needed), key=_release, default="0")
    if _release(oldest_code) > _release(code_version):
        raise SchemaTooNew(found, oldest_code, code_version)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
