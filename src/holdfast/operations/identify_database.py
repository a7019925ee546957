"""Tell one database from another."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.operations.statement import Operation, Statement


class DatabaseIdentity(NamedTuple):
    """A database's name, and what no other database with tables of ours has; None without such tables."""

    name: str
    identity: str | None


def identify_database() -> Operation[DatabaseIdentity]:
    """Where the connection leads that this runs on."""
    rows = yield Statement("identify_database")
    return DatabaseIdentity(*rows[0])
