"""The functions of a database are those of the code that migrated it last, and nobody's but their owner's."""

from __future__ import annotations

import psycopg
import pytest

from holdfast import App
from holdfast.notify.channels import work_channel
from holdfast.sql import SqlLibrary, Style
from holdfast.stores.known import known_functions
from tests.conformance.sql_surface.conftest import Surface

_STAMP = "SELECT obj_description('holdfast.is_terminal(text)'::regprocedure, 'pg_proc')"


def migrate(url: str, **options: str) -> None:
    app = App(url, **options)  # type: ignore[arg-type]  # names only
    with app.client() as client:
        client.migrate()
    app.close()


def stamp(connection: psycopg.Connection[tuple[str]]) -> str:
    row = connection.execute(_STAMP).fetchone()
    assert row is not None
    return row[0]


def test_every_body_is_sound(surface: Surface) -> None:
    """They are not checked when they are made, so they are checked here, by PostgreSQL itself."""
    functions = surface.sql(
        """SELECT pg_get_functiondef(oid) FROM pg_proc
           WHERE pronamespace = %s::regnamespace AND prolang <> (SELECT oid FROM pg_language WHERE lanname = 'c')""",
        surface.schema,
    )
    assert len(functions) > 60
    surface.sql("SET check_function_bodies = on")
    for (definition,) in functions:
        surface.sql(definition)


def test_made_anew_when_they_differ(postgres_url: str) -> None:
    """An upgrade without a new schema brings its functions; rights that were given stay."""
    migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        first = stamp(connection)
        connection.execute("GRANT EXECUTE ON FUNCTION holdfast.enqueue TO pg_monitor")
        connection.execute("DROP FUNCTION holdfast.verb_complete_jobs")
        migrate(postgres_url)
        assert connection.execute("SELECT to_regproc('holdfast.verb_complete_jobs')").fetchone() == (None,)
        connection.execute("COMMENT ON FUNCTION holdfast.is_terminal(text) IS 'Holdfast 0.0.9 older'")
        migrate(postgres_url)
        assert stamp(connection) == first
        assert connection.execute("SELECT to_regproc('holdfast.verb_complete_jobs') IS NULL").fetchone() == (False,)
        granted = connection.execute(
            "SELECT has_function_privilege('pg_monitor', 'holdfast.enqueue'::regproc, 'EXECUTE')"
        )
        assert granted.fetchone() == (True,)


@pytest.mark.parametrize("written", ["Holdfast 99.0.0 newer", "Holdfast 99.0.0.dev1 newer"])
def test_newer_ones_stay(postgres_url: str, written: str) -> None:
    """An older process that migrates on its start does not take them back."""
    migrate(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"COMMENT ON FUNCTION holdfast.is_terminal(text) IS '{written}'".encode())
        migrate(postgres_url)
        assert stamp(connection) == written
        connection.execute("COMMENT ON FUNCTION holdfast.is_terminal(text) IS NULL")
        connection.execute("INSERT INTO holdfast.migration VALUES (9001, 'future', now(), '0.1.0')")
        migrate(postgres_url)
        assert connection.execute(_STAMP).fetchone() == (None,)


def test_the_channel_is_the_apps(postgres_url: str) -> None:
    """Hints go where its workers listen."""
    migrate(postgres_url, channel="shop")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("SELECT holdfast.register_type('note')")
        connection.execute(f"LISTEN {work_channel('shop')}".encode())
        connection.execute("SELECT holdfast.enqueue('note')")
        assert [hint.payload for hint in connection.notifies(timeout=5, stop_after=1)] == ["default"]


def test_text_ids_and_a_prefix(postgres_url: str) -> None:
    """Schema, prefix and type of ids are configuration; from enqueue to prune all of it works."""
    migrate(postgres_url, schema="select", prefix="order_", id_type="text")
    with psycopg.connect(postgres_url, autocommit=True) as connection:

        def call(text: str, *parameters: object) -> object:
            row = connection.execute(f'SELECT "select".order_{text}'.encode(), parameters).fetchone()
            return row and row[0]

        call("register_type('note')")
        assert call("enqueue('note', id => 'mine', dedup => 'k')") == "mine"
        second = call("enqueue('note', blockers => ARRAY['mine'])")
        assert isinstance(second, str)
        claimed = connection.execute("""SELECT id, lease_generation FROM "select".order_claim('w1')""").fetchall()
        assert claimed == [("mine", 1)]
        call("complete('mine', 1)")
        assert call("cancel(%s)", second) == "cancelled"
        assert call("retry(%s)", second) == "retried"
        assert call("remove('note', 'k')") == "not_found"
        connection.execute("""SELECT id FROM "select".order_claim('w1')""")
        call("complete(%s, 1)", second)
        assert call("prune('0')") == 2
        assert connection.execute("""SELECT * FROM "select".order_jobs""").fetchall() == []


def test_the_digest_follows_every_text() -> None:
    """Names, channel and type of ids are in the functions, so they are in what tells them apart."""
    libraries = [
        SqlLibrary("postgres", "holdfast", "", Style.NAMED),
        SqlLibrary("postgres", "other", "", Style.NAMED),
        SqlLibrary("postgres", "holdfast", "x_", Style.NAMED),
        SqlLibrary("postgres", "holdfast", "", Style.NAMED, "text"),
        SqlLibrary("postgres", "holdfast", "", Style.NAMED, "uuid", "other"),
    ]
    digests = {functions.digest for functions in map(known_functions, libraries) if functions}
    assert len(digests) == len(libraries)
    pyformat = known_functions(SqlLibrary("postgres", "holdfast", "", Style.PYFORMAT))
    assert pyformat is not None
    assert pyformat.digest in digests
    assert known_functions(SqlLibrary("sqlite", "main", "holdfast_", Style.NAMED, "text")) is None
