"""The two dialects say the same: verbs, parameters, results, migrations, tables and states."""

from __future__ import annotations

import sqlite3
from itertools import chain

import psycopg
import pytest

from holdfast.model.status import TERMINAL, TRANSITIONS, Status
from holdfast.operations.claim_jobs import ClaimedJob, FoundLane
from holdfast.operations.reap_jobs import Reapable
from holdfast.sql import Script, SqlLibrary, Style
from holdfast.sql.library import verbs
from tests.contract.headers import columns, parameters
from tests.contract.samples import sample, sampled_verbs

LIBRARIES = {
    "postgres": SqlLibrary("postgres", "holdfast", "", Style.NUMBERED),
    "sqlite": SqlLibrary("sqlite", "main", "holdfast_", Style.NAMED, "text"),
}
FIELDS = {"params", "returns", "concurrency", "locks"}
OPTIONAL_FIELDS = {"only", "prepared"}
MIGRATION_FIELDS = {"locks", "deploy order", "oldest code"}
LITERALS = {"limit": 1, "rows": 1, "marks": 1}
#: who waits for chains; on SQLite everybody watches the file
POSTGRES_ONLY = {"waiter"}
#: rows are read by position into these
SHAPES = {
    "claim_jobs": ClaimedJob._fields,
    "claim_plain": ClaimedJob._fields,
    "claim_suspect": ClaimedJob._fields,
    "find_lanes": FoundLane._fields,
    "find_reapable": Reapable._fields,
}


def scripts(dialect: str) -> dict[str, Script]:
    return {verb: LIBRARIES[dialect].script(verb, LITERALS) for verb in verbs(dialect)}


def shared(dialect: str) -> dict[str, Script]:
    return {verb: script for verb, script in scripts(dialect).items() if script.header.get("only") != dialect}


EVERY = [(dialect, verb) for dialect in LIBRARIES for verb in verbs(dialect)]
BOTH = sorted(shared("postgres"))


def test_verbs_have_the_same_files_in_both_dialects() -> None:
    """Except those that say which dialect they are for."""
    assert set(shared("postgres")) == set(shared("sqlite"))


@pytest.mark.parametrize(("dialect", "verb"), EVERY)
def test_header_has_every_field_and_no_other(dialect: str, verb: str) -> None:
    """An unknown field is a line of prose that was taken for one; notes start with a capital."""
    header = scripts(dialect)[verb].header
    assert {field for field in header if not field[0].isupper()} - OPTIONAL_FIELDS == {verb, *FIELDS}
    assert all(header.values())


@pytest.mark.parametrize(("dialect", "verb"), EVERY)
def test_declared_parameters_are_those_used(dialect: str, verb: str) -> None:
    """A parameter that only the other dialect needs is named as such."""
    script = scripts(dialect)[verb]
    results_of_parts = set() if verb.endswith("_fragments") else {part.name for part in script.parts}
    used = set(chain.from_iterable(part.parameters for part in script.parts)) - results_of_parts
    declared = [parameter.name for parameter in parameters(script)]
    elsewhere = {name for name in declared if f"{name} is PostgreSQL's" in script.header["concurrency"]}
    assert len(declared) == len(set(declared))
    assert set(declared) - elsewhere == used
    assert not elsewhere & used


@pytest.mark.parametrize("verb", BOTH)
def test_parameters_and_results_are_the_same_in_both_dialects(verb: str) -> None:
    """Names, types and order."""
    postgres, sqlite = scripts("postgres")[verb], scripts("sqlite")[verb]
    assert parameters(postgres) == parameters(sqlite)
    assert columns(postgres) == columns(sqlite)


def test_every_verb_has_a_sample() -> None:
    """The samples are what the tests of types and plans send."""
    assert sampled_verbs() == {verb for _, verb in EVERY} - {"job_fragments"}


@pytest.mark.parametrize(("dialect", "verb"), [(d, v) for d, v in EVERY if v in sampled_verbs()])
def test_operations_send_what_the_header_declares(dialect: str, verb: str) -> None:
    """Nothing less, and nothing that no statement reads; `now` comes from the store."""
    statement = sample(dialect, verb)
    sent = set(statement.parameters)
    declared = {parameter.name for parameter in parameters(scripts(dialect)[verb])} - {"now"}
    if statement.slots:
        (part,) = LIBRARIES[dialect].script(verb, statement.literals, statement.slots).parts
        assert declared <= sent == set(part.parameters) - {"now"}
    else:
        assert sent == declared


@pytest.mark.parametrize("verb", SHAPES)
def test_results_have_the_shape_that_operations_read(verb: str) -> None:
    assert tuple(column.name for column in columns(scripts("postgres")[verb])) == SHAPES[verb]


@pytest.mark.parametrize("dialect", LIBRARIES)
def test_read_only_verbs_lock_nothing(dialect: str) -> None:
    reading = {verb: script.header["locks"] for verb, script in scripts(dialect).items() if script.is_read_only}
    assert reading == dict.fromkeys(reading, "none.")


def test_migrations_have_the_same_names_in_both_dialects() -> None:
    names = {dialect: [script.name for script in library.migrations()] for dialect, library in LIBRARIES.items()}
    assert names["postgres"] == names["sqlite"]
    assert names["postgres"]


@pytest.mark.parametrize("dialect", LIBRARIES)
def test_migrations_say_what_a_deployer_must_know(dialect: str) -> None:
    """Locks, the order of deployment, and the oldest code that still works."""
    library = LIBRARIES[dialect]
    for script in library.migrations():
        assert set(script.header) == {script.name.removeprefix("migrations/"), *MIGRATION_FIELDS}
    other = next(LIBRARIES[name] for name in LIBRARIES if name != dialect)
    oldest = [script.header["oldest code"] for script in library.migrations()]
    assert oldest == [script.header["oldest code"] for script in other.migrations()]


def test_tables_have_the_same_columns(migrated_postgres: str, migrated_sqlite: sqlite3.Connection) -> None:
    """As the live databases tell; those of views too."""
    with psycopg.connect(migrated_postgres) as connection:
        rows = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'holdfast'"
        ).fetchall()
    sqlite_rows = migrated_sqlite.execute(
        """SELECT substr(entry.name, length('holdfast_') + 1), info.name
           FROM sqlite_master AS entry, pragma_table_info(entry.name) AS info
           WHERE entry.type IN ('table', 'view') AND entry.name LIKE 'holdfast_%'"""
    ).fetchall()
    assert {(table, column) for table, column in rows if table not in POSTGRES_ONLY} == {*sqlite_rows}
    assert ("job", "lease_generation") in sqlite_rows


STATES = {(status.value, status in TERMINAL, status.is_claimable) for status in Status}


def test_postgres_knows_the_states_of_the_model(migrated_postgres: str) -> None:
    """The reference table and the CHECK on the column name exactly them."""
    with psycopg.connect(migrated_postgres) as connection:
        assert {*connection.execute("SELECT status, is_terminal, is_claimable FROM holdfast.job_status")} == STATES
        for status in Status:
            accepted = _insert_status("holdfast.job", status).replace("?", "%s")
            connection.execute(accepted, ["00000000-0000-0000-0000-000000000000"])
            connection.rollback()
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(_insert_status("holdfast.job", "lost").replace("?", "%s"), ["0" * 32])


def test_only_who_runs_has_a_lease(migrated_postgres: str) -> None:
    """The triggers that free keys ask for the holder alone."""
    with psycopg.connect(migrated_postgres) as connection:
        connection.execute(_insert_status("holdfast.job", Status.PENDING).replace("?", "%s"), [f"{0:032}"])
        for columns in ("leased_by = 'w'", "leased_by = 'w', leased_until = now()"):
            with pytest.raises(psycopg.errors.CheckViolation), connection.transaction():
                connection.execute(f"UPDATE holdfast.job SET {columns}".encode())
        connection.rollback()


def test_sqlite_knows_the_states_of_the_model(migrated_sqlite: sqlite3.Connection) -> None:
    """The reference table and the CHECK on the column name exactly them."""
    rows = migrated_sqlite.execute("SELECT status, is_terminal, is_claimable FROM holdfast_job_status").fetchall()
    assert {(status, bool(terminal), bool(claimable)) for status, terminal, claimable in rows} == STATES
    for status in Status:
        migrated_sqlite.execute(_insert_status("holdfast_job", status), [status])
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        migrated_sqlite.execute(_insert_status("holdfast_job", "lost"), ["lost"])


def test_the_model_is_whole() -> None:
    """Every state has its row in the table of transitions, and what is completed moves no more."""
    assert set(TRANSITIONS) == set(Status)
    assert not TRANSITIONS[Status.COMPLETED]


def _insert_status(job: str, status: str) -> str:
    moment = "'2030-01-01T00:00:00.000000Z'"
    finished = moment if status in TERMINAL else "NULL"
    leased_by, leased_until = ("'worker'", moment) if status == Status.RUNNING else ("NULL", "NULL")
    waiting_for = int(status == Status.BLOCKED)
    return f"""
        INSERT INTO {job} (id, chain_id, type_name, chain_type_name, queue, input, status, created_at, scheduled_at,
                           ready_at, finished_at, leased_by, leased_until, waiting_for)
        VALUES (?, '00000000-0000-0000-0000-000000000000', 'x', 'x', 'x', '{{}}', '{status}', {moment}, {moment},
                {moment}, {finished}, {leased_by}, {leased_until}, {waiting_for})"""
