"""Which schema this code knows, and the SQL that leads to it."""

from __future__ import annotations

import re
from importlib.metadata import version

from holdfast.operations.drive import drive
from holdfast.operations.migrate import Migration, migrate
from holdfast.operations.statement import Rows, Statement
from holdfast.sql import SqlLibrary, Style

CODE_VERSION = version("holdfast")

_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")


def known_migrations(library: SqlLibrary) -> list[Migration]:
    """All migrations that ship with this code, oldest first."""
    known = []
    for script in library.migrations():
        number, _, name = script.name.removeprefix("migrations/").partition("_")
        known.append(Migration(int(number), name, script.header["oldest code"]))
    return known


def migration_sql(library: SqlLibrary, found: int) -> str:
    """What `migrate` runs on a database of schema `found`, as one transaction for psql or sqlite3; empty if nothing."""
    known = known_migrations(library)
    applied = [migration for migration in known if migration.version <= found]
    if len(applied) == len(known):
        return ""
    named = SqlLibrary(library.dialect, library.schema, library.prefix, Style.NAMED, library.id_type)
    lines = ["BEGIN;" if library.dialect == "postgres" else "BEGIN IMMEDIATE;"]

    def write_down(statement: Statement) -> Rows:
        if statement.name == "find_migrations":
            return [(True,)]
        if statement.name == "read_migrations":
            return [(migration.version, migration.name, migration.oldest_code) for migration in applied]
        parts = named.script(statement.name).parts
        lines.extend(
            _PARAMETER.sub(lambda match: _literal(statement.parameters[match[1]]), part.text) + ";" for part in parts
        )
        return ()

    drive(migrate(known), write_down)
    return "\n".join([*lines, "COMMIT;"])


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
