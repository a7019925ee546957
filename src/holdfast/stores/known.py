"""Which schema this code knows, and the SQL that leads to it."""

from __future__ import annotations

import re
from hashlib import sha256
from importlib.metadata import version

from holdfast.operations.drive import drive
from holdfast.operations.migrate import Functions, Migration, migrate
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


def known_functions(library: SqlLibrary) -> Functions | None:
    """The functions of the database that ship with this code; SQLite has none."""
    scripts = _named(library).functions()
    if not scripts:
        return None
    digest = sha256("\n".join(part.text for script in scripts for part in script.parts).encode()).hexdigest()
    return Functions([script.name for script in scripts], CODE_VERSION, digest[:16])


def migration_sql(library: SqlLibrary, found: int, stamp: str | None = None) -> str:
    """What `migrate` runs on a database of schema `found` with the functions of `stamp`; empty if nothing.

    As one transaction for psql or sqlite3.
    """
    known = known_migrations(library)
    functions = known_functions(library)
    applied = [migration for migration in known if migration.version <= found]
    if len(applied) == len(known) and not (functions and functions.replaces(stamp)):
        return ""
    named = _named(library)
    lines = ["BEGIN;" if library.dialect == "postgres" else "BEGIN IMMEDIATE;"]

    def write_down(statement: Statement) -> Rows:
        if statement.name == "find_migrations":
            return [(True,)]
        if statement.name == "find_functions":
            return [(stamp,)]
        if statement.name == "read_migrations":
            return [(migration.version, migration.name, migration.oldest_code) for migration in applied]
        parts = named.script(statement.name).parts
        lines.extend(
            _PARAMETER.sub(lambda match: _literal(statement.parameters[match[1]]), part.text) + ";" for part in parts
        )
        return ()

    drive(migrate(known, functions), write_down)
    return "\n".join([*lines, "COMMIT;"])


def roles_sql(library: SqlLibrary) -> str:
    """What creates the roles that are missing, and says what they may do."""
    scripts = [_named(library).script(name) for name in ("roles/create", "roles/grant")]
    return "\n".join(f"{part.text};" for script in scripts for part in script.parts)


def _named(library: SqlLibrary) -> SqlLibrary:
    return SqlLibrary(library.dialect, library.schema, library.prefix, Style.NAMED, library.id_type, library.channel)


def _literal(value: object) -> str:
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"
