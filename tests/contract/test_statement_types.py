"""PostgreSQL itself confirms the headers: it parses every statement and tells the types of parameters and columns."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from psycopg.pq import ExecStatus

from holdfast.model.status import Status
from holdfast.operations.statement import Statement
from holdfast.sql import Script, SqlLibrary, Style
from holdfast.sql.library import verbs
from tests.contract.headers import columns, parameters
from tests.contract.samples import sample

NUMBERED = SqlLibrary("postgres", "holdfast", "", Style.NUMBERED)
PYFORMAT = SqlLibrary("postgres", "holdfast", "", Style.PYFORMAT)
NAMED = SqlLibrary("sqlite", "main", "holdfast_", Style.NAMED, "text")
FRAGMENTS = [part.name for part in NUMBERED.script("job_fragments").parts]
SOURCES = [name for name in FRAGMENTS if name.startswith("by_") or name in set(Status)]
ORDERS = [name for name in FRAGMENTS if name.endswith("_first")]
FILTERS = [name for name in FRAGMENTS if name not in (*SOURCES, *ORDERS, "document") and "_first_by_" not in name]
LISTS = {
    "list_jobs": [("job", "text"), ("seq", "bigint")],
    "list_chains": [("chain", "text"), ("tail", "text"), ("seq", "bigint")],
}
PLAIN = [verb for verb in verbs("postgres") if verb not in (*LISTS, "job_fragments")]
#: always on connections of our own, which leave JSON and times as they are on the wire
OF_WORKERS = ("claim_jobs", "claim_plain", "claim_suspect", "find_lanes", "find_tenants", "find_reapable")
LITERALS = {"limit": 10, "marks": 1}
SQL_NAMES = {"int2": "smallint", "int4": "integer", "int8": "bigint", "bool": "boolean"}


@pytest.fixture
def connection(migrated_postgres: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(migrated_postgres, autocommit=True) as opened:
        yield opened


@pytest.mark.parametrize("verb", PLAIN)
def test_types_are_as_declared(connection: psycopg.Connection[Any], verb: str) -> None:
    """Parameters, which the server infers from the text alone, and the columns of the result."""
    script = NUMBERED.script(verb, LITERALS)
    declared = {parameter.name: parameter.type for parameter in parameters(script)}
    found: list[tuple[str, str]] = []
    for part in script.parts:
        types, part_columns = described(connection, part.text)
        found = part_columns or found
        assert types == [sent_as(name, declared) for name in part.parameters]
    assert [name for name, _ in found] == [column.name for column in columns(script)]
    for (name, type_), column in zip(found, columns(script), strict=True):
        allowed = {"json", "text"} if column.type == "json" else {column.type}
        assert type_ in allowed, f"{verb} returns {name} as {type_}"


@pytest.mark.parametrize("verb", [verb for verb in PLAIN if verb not in OF_WORKERS])
def test_results_are_what_every_driver_hands_out_alike(connection: psycopg.Connection[Any], verb: str) -> None:
    """A verb may run on a borrowed connection, whose user decides what becomes of a time or a document."""
    for part in NUMBERED.script(verb, LITERALS).parts:
        _, found = described(connection, part.text)
        assert {type_ for _, type_ in found} <= {"text", "smallint", "integer", "bigint", "boolean"}


@pytest.mark.parametrize("filters", [[], *([name] for name in FILTERS), FILTERS])
@pytest.mark.parametrize("verb", LISTS)
def test_types_of_lists(connection: psycopg.Connection[Any], verb: str, filters: list[str]) -> None:
    """With each filter, with none and with all; in both orders, looking at each place."""
    declared = {parameter.name: parameter.type for parameter in parameters(NUMBERED.script("job_fragments"))}
    chosen, is_by_status = [name for name in filters if "status" not in name], "status" in filters
    for order, source in itertools.product(ORDERS, SOURCES):
        slots = {
            "filters": (*chosen, "status") if is_by_status and verb == "list_jobs" else tuple(chosen),
            "tail_filters": ("tail_status",) if is_by_status and verb == "list_chains" else (),
            "sources": (source,),
            "order": (order,),
            "status_order": (f"{order}_by_status",),
            "tenant_order": (f"{order}_by_tenant",),
        }
        (part,) = NUMBERED.script(verb, LITERALS, slots).parts
        types, result = described(connection, part.text)
        assert types == [sent_as(name, declared) for name in part.parameters]
        assert result == LISTS[verb]


@pytest.mark.parametrize("verb", [verb for verb in PLAIN if NUMBERED.script(verb, LITERALS).is_read_only])
def test_read_only_verbs_run_in_a_read_only_transaction(connection: psycopg.Connection[Any], verb: str) -> None:
    run_read_only(connection, sample("postgres", verb))


@pytest.mark.parametrize("verb", LISTS)
def test_lists_run_in_a_read_only_transaction(connection: psycopg.Connection[Any], verb: str) -> None:
    run_read_only(connection, sample("postgres", verb))


@pytest.mark.parametrize("verb", [verb for verb in verbs("sqlite") if not verb.endswith("_fragments")])
def test_sqlite_accepts_every_statement(migrated_sqlite: sqlite3.Connection, verb: str) -> None:
    """As the store runs them: a part's first value is a parameter of those after it; read-only ones may not write."""
    statement = sample("sqlite", verb)
    script = NAMED.script(statement.name, statement.literals, statement.slots)
    migrated_sqlite.execute(f"PRAGMA query_only = {script.is_read_only}")
    values: dict[str, Any] = {"now": "2030-01-01T00:00:00.000000Z", **statement.parameters}
    names: list[str] = []
    migrated_sqlite.execute("BEGIN")
    if verb == "spoil_transaction":
        spoil(migrated_sqlite, script)
        return
    if verb == "record_migration":
        migrated_sqlite.execute("DELETE FROM holdfast_migration")
    for part in script.parts:
        chosen: Any = {name: values[name] for name in part.parameters}
        if statement.rows is not None:
            *_, (_, pieces) = statement.rows()  # the last come one by one, as the sample's text has them
            chosen = [*chosen.values(), *next(iter(pieces))]
        cursor = migrated_sqlite.execute(part.text, chosen)
        if cursor.description is not None:
            names = [column[0] for column in cursor.description]
            if rows := cursor.fetchall():
                values[part.name] = rows[0][0]
    migrated_sqlite.execute("ROLLBACK")
    if not script.returns_json_rows and columns(script):  # else what its parts give is for its own later parts
        assert names == [column.name for column in columns(script)]


def spoil(connection: sqlite3.Connection, script: Script) -> None:
    """The one statement that must fail, and take the transaction with it."""
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(script.parts[0].text, {"reason": "the lease was lost"})
    assert not connection.in_transaction


def sent_as(name: str, declared: Mapping[str, str]) -> str:
    """Documents are sent as text, which every driver can send, and cast by the statement; an id has the ids' type."""
    return "uuid" if name == "id" else declared[name].replace("json", "text")


def run_read_only(connection: psycopg.Connection[Any], statement: Statement) -> None:
    script = PYFORMAT.script(statement.name, statement.literals, statement.slots)
    values = {"now": None, **statement.parameters}
    with connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        for part in script.parts:
            connection.execute(part.text, {name: values[name] for name in part.parameters} or None)


def described(connection: psycopg.Connection[Any], text: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Types of the parameters, and names and types of the columns, as the server tells after parsing."""
    names: dict[int, str] = dict(connection.execute("SELECT oid::bigint, typname::text FROM pg_type").fetchall())
    link = connection.pgconn
    parsed = link.prepare(b"", text.encode())
    assert parsed.status == ExecStatus.COMMAND_OK, parsed.error_message.decode()
    result = link.describe_prepared(b"")
    types = [SQL_NAMES.get(name := names[result.param_type(index)], name) for index in range(result.nparams)]
    found = [
        ((result.fname(index) or b"").decode(), SQL_NAMES.get(name := names[result.ftype(index)], name))
        for index in range(result.nfields)
    ]
    # A function that returns nothing still makes a column.
    return types, [(name, type_) for name, type_ in found if type_ != "void"]
