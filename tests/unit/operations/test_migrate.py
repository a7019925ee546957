"""Which schema this code works with."""

from __future__ import annotations

import pytest

from holdfast.errors import NotMigrated, SchemaTooNew
from holdfast.operations.drive import drive
from holdfast.operations.migrate import Functions, Migration, check_schema, migrate
from holdfast.operations.statement import Rows, Statement

_KNOWN = [Migration(1, "first", "0.1.0"), Migration(2, "second", "0.2.0")]


class _Database:
    """Answers as one with the given migrations would, and remembers what was run."""

    def __init__(self, *applied: tuple[int, str, str], stamp: str | None = None) -> None:
        self.applied = list(applied)
        self.stamp = stamp
        self.ran: list[str] = []

    def __call__(self, statement: Statement) -> Rows:
        self.ran.append(statement.name)
        if statement.name == "find_migrations":
            return [(bool(self.applied),)]
        if statement.name == "find_functions":
            return [(self.stamp,)]
        return self.applied if statement.name == "read_migrations" else []


def test_missing_ones_are_applied_in_order() -> None:
    """Under the lock, each recorded beside its own step."""
    database = _Database((1, "first", "0.1.0"))
    assert drive(migrate(_KNOWN), database) == [_KNOWN[1]]
    assert database.ran == [
        "lock_migrations", "find_migrations", "read_migrations", "migrations/0002_second", "record_migration",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("applied", "code", "error"),
    [
        ([], "0.2.0", NotMigrated),
        ([(1, "first", "0.1.0")], "0.2.0", NotMigrated),
        ([(1, "first", "0.1.0"), (2, "second", "0.2.0")], "0.2.0", None),
        ([(2, "second", "0.2.0"), (3, "third", "0.2.0")], "0.2.0", None),
        ([(2, "second", "0.2.0"), (3, "third", "0.3.0")], "0.2.0", SchemaTooNew),
        ([(2, "second", "0.2.0"), (3, "third", "0.10.0")], "0.9.0", SchemaTooNew),
        ([(2, "second", "0.2.0"), (3, "third", "0.9.0")], "0.10.0", None),
        ([(2, "second", "0.2.0"), (3, "third", "1.0.0")], "1.0.0.dev3", None),
        ([(2, "second", "0.2.0"), (3, "third", "0.3.0"), (4, "fourth", "0.2.0")], "0.2.0", SchemaTooNew),
    ],
)
def test_check(applied: list[tuple[int, str, str]], code: str, error: type[Exception] | None) -> None:
    """Older: migrate first. Newer: fine as long as every step of it allows this code; versions compare as numbers."""
    if error is None:
        drive(check_schema(_KNOWN, code), _Database(*applied))
        return
    with pytest.raises(error):
        drive(check_schema(_KNOWN, code), _Database(*applied))


FUNCTIONS = Functions(["functions/first", "functions/second"], "0.2.0", "abc")


@pytest.mark.parametrize(
    ("newest", "stamp", "is_made"),
    [
        (2, None, True),
        (2, "Holdfast 0.2.0 abc", False),
        (2, "Holdfast 0.2.0 other", True),
        (2, "Holdfast 0.1.9 abc", True),
        (2, "Holdfast 0.10.0 other", False),
        (2, "somebody's own words", True),
        (3, "Holdfast 0.1.0 other", False),
    ],
)
def test_functions_follow_the_code(newest: int, stamp: str | None, is_made: bool) -> None:
    """Made anew when they are other ones, but not over those of newer code or on a newer schema."""
    database = _Database(*((version, "any", "0.1.0") for version in range(1, newest + 1)), stamp=stamp)
    assert drive(migrate(_KNOWN, FUNCTIONS), database) == []
    made = ["functions/first", "functions/second", "stamp_functions"]
    assert [name for name in database.ran if name in made] == (made if is_made else [])
