"""G20: No pickle, no eval, no SQL built from data; SQL functions with fixed search_path, not executable by PUBLIC."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import holdfast
from tests.crew.database import Database
from tests.crew.fixtures import EVERY_POSTGRES
from tests.crew.process import Crew

SOURCE = Path(holdfast.__file__).parent
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__"}
ON_POSTGRES = pytest.mark.parametrize("database", EVERY_POSTGRES, indirect=True)
_FUNCTIONS = """
SELECT proname, coalesce(proconfig, '{}'), prosrc, prolang = (SELECT oid FROM pg_language WHERE lanname = 'plpgsql'),
       EXISTS (SELECT FROM aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0)
FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace
"""


def functions(database: Database) -> list[tuple[Any, ...]]:
    with psycopg.connect(database.url) as connection:
        found = connection.execute(_FUNCTIONS).fetchall()
    assert len(found) > 60
    assert "enqueue" in {name for name, *_ in found}
    return found


@ON_POSTGRES
def test_functions_look_where_we_say(crew: Crew, database: Database) -> None:
    """Every one of them, whoever calls it; temporary objects come last."""
    loose = [name for name, settings, *_ in functions(database) if "search_path=pg_catalog, pg_temp" not in settings]
    assert loose == []


@ON_POSTGRES
def test_functions_are_not_everybodys(crew: Crew, database: Database) -> None:
    """PUBLIC may execute none; somebody without a role is refused."""
    assert [name for name, *_, is_public in functions(database) if is_public] == []
    stranger = f"stranger_{database.url.rpartition('/')[2]}"
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f'CREATE ROLE "{stranger}"'.encode())
        try:
            connection.execute(f'GRANT USAGE ON SCHEMA holdfast TO "{stranger}"'.encode())
            connection.execute(f'SET ROLE "{stranger}"'.encode())
            for call in ("enqueue('note')", "claim('w')", "prune('0')", "verb_retire_worker(worker => 'w')"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"SELECT holdfast.{call}".encode())
        finally:
            connection.execute("RESET ROLE")
            connection.execute(f'DROP OWNED BY "{stranger}"; DROP ROLE "{stranger}"'.encode())


@ON_POSTGRES
def test_functions_build_no_sql(crew: Crew, database: Database) -> None:
    """None executes text that it put together, but those for the weeks of the archive, whose names are made of dates.

    They are given times and nothing else, run with the rights of their caller, and nobody may call them.
    """
    dynamic = [
        name for name, _, body, is_plpgsql, _ in functions(database) if is_plpgsql and re.search(r"\bEXECUTE\b", body)
    ]
    assert sorted(dynamic) == ["close_archive", "open_archive"]
    with psycopg.connect(database.url) as connection:
        found = connection.execute(
            """SELECT pronargs > 0 AND 'timestamptz'::regtype = ALL (proargtypes::oid[]), prosecdef,
                      has_function_privilege('public', oid, 'EXECUTE')
               FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace AND proname = ANY (%s)""",
            [dynamic],
        ).fetchall()
    assert found == [(True, False, False)] * 2


@ON_POSTGRES
def test_the_callers_objects_are_not_ours(crew: Crew, database: Database) -> None:
    """A caller who puts tables and functions of his own in front is not fooled into running them with our rights."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("SELECT holdfast.register_type('note')")
        connection.execute("CREATE SCHEMA trick; CREATE TABLE trick.seen (who text)")
        connection.execute(
            """CREATE FUNCTION trick.jsonb_typeof(jsonb) RETURNS text LANGUAGE plpgsql AS
               'BEGIN INSERT INTO trick.seen VALUES (current_user); RETURN ''object''; END'"""
        )
        # A type of the same name is taken for ours where a function declares a variable.
        connection.execute("CREATE DOMAIN trick.jsonb AS pg_catalog.jsonb CHECK (trick.jsonb_typeof(VALUE) = 'object')")
        connection.execute("CREATE TEMPORARY TABLE job_type (name text, queue text)")
        connection.execute("INSERT INTO pg_temp.job_type VALUES ('stolen', 'q')")
        connection.execute("SET search_path = trick, pg_temp, pg_catalog")
        connection.execute("SELECT holdfast.enqueue('note')")
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("SELECT holdfast.enqueue('stolen')")
        assert caught.value.sqlstate == "HF001"
        assert connection.execute("SELECT count(*) FROM trick.seen").fetchone() == (0,)


def test_no_code_comes_from_data() -> None:
    """Nothing in the package reads pickles or evaluates text."""
    found = [f"{path.name}: {what}" for path in sorted(SOURCE.rglob("*.py")) for what in suspicious(path)]
    assert found == []


def suspicious(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from {alias.name.partition(".")[0] for alias in node.names} & MODULES
        elif isinstance(node, ast.ImportFrom):
            yield from {(node.module or "").partition(".")[0]} & MODULES
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield from {node.func.id} & CALLS
