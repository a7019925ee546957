"""Roles may do what they are for and nothing else, whatever they try."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from holdfast.sql.library import role_name
from holdfast.stores import StoreConfig, open_store
from tests.conformance.sql_surface.conftest import ROLES, Surface

GONE = "'0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11'"

ENQUEUE = ("enqueue('note')", "enqueue_many('[]')")
WORK = (
    *("claim('w')", "heartbeat('w')", "retire('w')", "register_type('x')"),
    *(f"renew({GONE}, 1)", f"complete({GONE}, 1)", f"fail({GONE}, 1, 'no')", f"snooze({GONE}, 1, '1 s')"),
    f"release({GONE}, 1)",
)
OPERATE = (
    *(f"cancel({GONE})", f"retry({GONE})", "remove('note', 'k')", "release_workers('{w}')", "prune('1 day')"),
    *("pause_queue('q')", "resume_queue('q')", "limit_queue('q')"),
)
VIEWS = ("jobs", "chains", "queue_stats", "partition_keys", "stuck_jobs", "dead_letters")
MAY = {
    "producer": {*ENQUEUE},
    "worker": {*ENQUEUE, *WORK},
    "reader": set[str](),
    "operator": {*ENQUEUE, *OPERATE},
}


@pytest.mark.parametrize("call", [*ENQUEUE, *WORK, *OPERATE])
@pytest.mark.parametrize("role", ROLES)
def test_functions(surface: Surface, role: str, call: str) -> None:
    """Allowed, or refused for want of rights and nothing else."""
    sqlstate = ""
    try:
        surface.sql(f"SELECT {{s}}.{call}", role=role)
    except psycopg.Error as error:
        sqlstate = error.sqlstate or "?"
    assert sqlstate[:2] in ("", "HF") if call in MAY[role] else sqlstate == "42501"


@pytest.mark.parametrize("role", ROLES)
def test_tables_and_views(surface: Surface, role: str) -> None:
    """No role may touch a table; readers and operators may look at the views."""
    tables = surface.sql("SELECT tablename FROM pg_tables WHERE schemaname = %s", surface.schema)
    assert ("job",) in tables
    for (table,) in tables:
        for statement in (f"SELECT * FROM {{s}}.{table}", f"DELETE FROM {{s}}.{table}"):
            assert surface.refusal(statement, role=role) == "42501", statement
    for view in VIEWS:
        if role in ("reader", "operator"):
            surface.sql(f"SELECT * FROM {{s}}.{view}", role=role)
        else:
            assert surface.refusal(f"SELECT * FROM {{s}}.{view}", role=role) == "42501"
        assert surface.refusal(f"DELETE FROM {{s}}.{view}", role=role) in ("42501", "55000")


@pytest.mark.parametrize("role", ROLES)
def test_what_is_inside_is_nobodys(surface: Surface, role: str) -> None:
    """Of all functions in the schema a role may execute those that it is meant to."""
    public = {call.partition("(")[0] for call in (*ENQUEUE, *WORK, *OPERATE)} | {"enqueue_row", "new_id", "is_terminal"}
    rows = surface.sql(
        """SELECT proname FROM pg_proc
           WHERE pronamespace = %s::regnamespace AND has_function_privilege(%s, oid, 'EXECUTE')""",
        surface.schema,
        f"{surface.schema}_a_{role}",
    )
    assert {name for (name,) in rows} <= public
    assert {call.partition("(")[0] for call in MAY[role]} <= {name for (name,) in rows}


# --- tricks -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def trickster(surface: Surface) -> Iterator[Surface]:
    """A producer with a schema of his own, full of things named like ours and PostgreSQL's, in front of everything."""
    surface.sql('CREATE SCHEMA trick AUTHORIZATION "{s}_a_producer"')
    with surface.connect("producer") as connection:
        connection.execute("CREATE TABLE trick.seen (who text); GRANT ALL ON trick.seen TO PUBLIC")
        connection.execute("GRANT USAGE ON SCHEMA trick TO PUBLIC")
        for signature in ("left(text, integer)", "length(text)", "jsonb_typeof(jsonb)", "jsonb_strip_nulls(jsonb)"):
            connection.execute(
                f"""CREATE FUNCTION trick.{signature} RETURNS text LANGUAGE plpgsql AS
                    'BEGIN INSERT INTO trick.seen VALUES (current_user); RETURN NULL; END'""".encode()
            )
        connection.execute("CREATE FUNCTION trick.same(text, text) RETURNS boolean LANGUAGE plpgsql AS "
                           "'BEGIN INSERT INTO trick.seen VALUES (current_user); RETURN true; END'")  # fmt: skip
        connection.execute("CREATE OPERATOR trick.= (LEFTARG = text, RIGHTARG = text, FUNCTION = trick.same)")
        connection.execute("CREATE TABLE trick.job (id uuid); CREATE TABLE trick.job_type (name text)")
        connection.execute("INSERT INTO trick.job_type VALUES ('nope')")
    yield surface
    surface.sql("DROP SCHEMA trick CASCADE")


@pytest.mark.parametrize("path", ["trick, pg_catalog", "trick", "pg_temp, trick, pg_catalog"])
def test_the_callers_search_path_means_nothing(trickster: Surface, path: str) -> None:
    """Functions, operators and tables of the caller, temporary ones too, are not taken for ours."""
    with trickster.connect("producer") as connection:
        connection.execute("CREATE TEMPORARY TABLE job_type (name text, queue text)")
        connection.execute("CREATE TEMPORARY TABLE job (id uuid)")
        connection.execute("INSERT INTO pg_temp.job_type VALUES ('nope', 'stolen')")
        connection.execute(f"SET search_path = {path}".encode())
        row = connection.execute(
            trickster.text("SELECT {s}.enqueue('note', dedup => 'k', tenant => 'a', queue => 'q')")
        ).fetchone()
        assert row is not None
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(trickster.text("SELECT {s}.enqueue('nope')"))
        assert caught.value.sqlstate == "HF001"
    assert trickster.sql("SELECT who FROM trick.seen") == []
    assert trickster.job(row[0]).queue == "q"


INJECTIONS = (
    "'; DROP TABLE {s}.job; --",
    '"; DROP TABLE {s}.job; --',
    "$body$; DROP TABLE {s}.job; $body$",
    "') RETURNING *; --",
    "%s %(x)s %L :now $1",
    "\\'; DROP TABLE {s}.job; --",
    "Robert') ; SELECT pg_sleep(10); --",
    "x" * 200,
)  # fmt: skip


@pytest.mark.parametrize("text", INJECTIONS)
def test_data_stays_data(surface: Surface, text: str) -> None:
    """In names, keys, reasons, messages and payloads."""
    text = text.replace("{s}", surface.schema)
    job_id = surface.one(
        "SELECT {s}.enqueue('note', jsonb_build_object('text', %s::text), queue => %s, tenant => %s, dedup => %s, "
        "headers => jsonb_build_object(%s::text, %s::text))",
        *[text] * 6,
        role="producer",
    )
    job = surface.job(job_id)
    assert (job.input, job.queue, job.tenant, job.deduplication_key) == ({"text": text}, text, text, text)
    assert job.headers == {text: text}
    assert (
        surface.sql("SELECT id, leased_until FROM {s}.claim(%s, ARRAY[%s])", text, text, role="worker")[0][0] == job_id
    )
    surface.sql("SELECT {s}.fail(%s, 1, %s, %s, %s)", job_id, text, text, text, role="worker")
    assert surface.one("SELECT {s}.remove('note', %s)", text, role="operator") == "removed"
    second = surface.one("SELECT {s}.enqueue('note')", role="producer")
    surface.sql("SELECT {s}.cancel(%s, %s)", second, text, role="operator")
    assert surface.one("SELECT {s}.release_workers(ARRAY[%s])", text, role="operator") == 0
    error = surface.job(second).last_attempt_error
    assert error is not None
    assert error.message == text
    assert surface.refusal("SELECT {s}.enqueue(%s)", text, role="producer") == "HF001"
    assert (
        surface.refusal("SELECT {s}.enqueue('note', on_conflict => %s, dedup => 'k')", text, role="producer") == "HF006"
    )


def test_roles_of_long_names(surface: Surface) -> None:
    """PostgreSQL cuts names at 63 bytes: four roles stay four, and each schema's are its own."""
    names = [role_name(schema * 31, prefix * 31, role) for schema in "sS" for prefix in "pP" for role in ("x", *ROLES)]
    assert len(set(names)) == len(names)
    assert {len(name.encode()) for name in names} <= set(range(64))
    assert role_name("holdfast", "", "producer") == "holdfast_producer"
    store = open_store(surface.app.store.url, StoreConfig(schema="s" * 31, prefix="p" * 31))
    sql = store.roles_sql()
    for role in ROLES:
        assert sql.count(f'CREATE ROLE "{role_name("s" * 31, "p" * 31, role)}"') == 1
