"""Which schema this code knows."""

from __future__ import annotations

from importlib.metadata import version

from holdfast.operations.migrate import Migration
from holdfast.sql import SqlLibrary

CODE_VERSION = version("holdfast")


def known_migrations(library: SqlLibrary) -> list[Migration]:
    """All migrations that ship with this code, oldest first."""
    known = []
    for script in library.migrations():
        number, _, name = script.name.removeprefix("migrations/").partition("_")
        known.append(Migration(int(number), name, script.header["oldest code"]))
    return known
