"""`holdfast migrate`: up, status, sql and roles."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg.sql import SQL

from holdfast import App
from tests.e2e.conftest import CommandLine
from tests.e2e.terminal import watch

VERSIONS = [migration.version for migration in App("sqlite:///unused.db").store.known_migrations()]


def test_up_once_and_again(command: CommandLine, url: str) -> None:
    """The first run applies, the second finds nothing to do, and status agrees before and after."""
    before = command.run("migrate", "status", "--check", "--url", url)
    assert before.returncode == 1
    assert "missing" in before.stdout
    assert "run `holdfast migrate up`" in before.stdout
    first = command.run("migrate", "up", "--url", url)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith("applied 0001 first_schema\n")
    second = command.run("migrate", "up", HOLDFAST_URL=url)
    assert second.returncode == 0
    assert second.stdout.startswith("nothing to do: ")
    after = command.run("migrate", "status", "--check", "--url", url)
    assert after.returncode == 0
    assert "applied" in after.stdout


def test_up_for_programs(command: CommandLine, url: str) -> None:
    """What was applied as one document or line by line; the second time that is nothing."""
    first = command.run("migrate", "up", "--url", url, "--format=json")
    assert [each["version"] for each in json.loads(first.stdout)] == VERSIONS
    second = command.run("migrate", "up", "--url", url, "--format=jsonl")
    assert (second.returncode, second.stdout) == (0, "")


def test_up_says_that_it_is_at_work(command: CommandLine, url: str) -> None:
    """On a terminal; what it did stands on stdout, alone."""
    ended = watch(command.directory, "migrate", "up", "--url", url)
    assert ended.returncode == 0
    assert "migrating " in ended.drawn
    assert ended.stdout.startswith("applied 0001 first_schema\n")


def test_status_creates_no_file(command: CommandLine, sqlite_path: Path) -> None:
    """Looking leaves no trace."""
    _status(command, f"sqlite:///{sqlite_path}")
    assert not sqlite_path.exists()


def test_status_formats(command: CommandLine, sqlite_path: Path) -> None:
    """One document, or one line per migration."""
    url = f"sqlite:///{sqlite_path}"
    states = _status(command, url)
    assert [(state["version"], state["state"]) for state in states] == [(version, "missing") for version in VERSIONS]
    lines = command.run("migrate", "status", "--url", url, "--format=jsonl").stdout.splitlines()
    assert [json.loads(line)["version"] for line in lines] == VERSIONS


def test_sql_is_what_up_would_run(command: CommandLine, url: str) -> None:
    """Run by hand, the printed SQL leaves a database that needs no migration; then there is nothing to print."""
    printed = command.run("migrate", "sql", "--url", url)
    assert printed.returncode == 0
    _execute(url, printed.stdout)
    assert command.run("migrate", "up", "--url", url).stdout.startswith("nothing to do: ")
    nothing = command.run("migrate", "sql", "--url", url)
    assert (nothing.stdout, nothing.returncode) == ("", 0)
    assert nothing.stderr.startswith("nothing to do: ")


def test_functions_of_other_code_are_made_anew(command: CommandLine, new_postgres_url: str) -> None:
    """With the same schema: `sql` prints them, and so does nothing but `up` after them."""
    command.run("migrate", "up", "--url", new_postgres_url)
    _execute(new_postgres_url, "COMMENT ON FUNCTION holdfast.is_terminal(text) IS 'Holdfast 0.0.1 older'")
    printed = command.run("migrate", "sql", "--url", new_postgres_url).stdout
    assert "CREATE OR REPLACE FUNCTION" in printed
    assert 'CREATE TABLE "' not in printed
    _execute(new_postgres_url, printed)
    assert command.run("migrate", "sql", "--url", new_postgres_url).stdout == ""


def test_roles_are_printed_or_made(command: CommandLine, new_postgres_url: str) -> None:
    """Named after the schema; made only when asked for, again without harm, and with their rights."""
    at = ("--url", new_postgres_url, "--schema=rolled", "--prefix=x_")
    command.run("migrate", "up", *at)
    printed = command.run("migrate", "roles", *at)
    assert (printed.returncode, printed.stderr) == (0, "")
    assert 'CREATE ROLE "rolled_x_producer"' in printed.stdout
    with psycopg.connect(new_postgres_url, autocommit=True) as connection:
        exists = "SELECT to_regrole('rolled_x_producer') IS NOT NULL"
        assert connection.execute(exists).fetchone() == (False,)
        try:
            for _ in range(2):
                done = command.run("migrate", "roles", "--apply", *at)
                assert done.returncode == 0, done.stderr
                assert done.stdout.startswith("roles created")
            may = "SELECT has_function_privilege('rolled_x_producer', 'rolled.x_enqueue'::regproc, 'EXECUTE')"
            assert connection.execute(may).fetchone() == (True,)
        finally:
            connection.execute("DROP SCHEMA rolled CASCADE")
            for role in ("producer", "worker", "reader", "operator"):
                connection.execute(f"DROP ROLE IF EXISTS rolled_x_{role}".encode())


def test_roles_need_postgres_and_a_schema(command: CommandLine, new_postgres_url: str) -> None:
    on_sqlite = command.run("migrate", "roles", "--url", "sqlite:///jobs.db")
    assert on_sqlite.returncode == 2
    assert "SQLite knows no roles" in on_sqlite.stderr
    too_early = command.run("migrate", "roles", "--apply", "--url", new_postgres_url)
    assert too_early.returncode == 1
    assert "holdfast migrate up" in too_early.stderr


def test_a_role_without_rights_is_told_what_would_help(command: CommandLine, new_postgres_url: str) -> None:
    """Neither the command nor the demo leaves anything behind."""
    role = f"poor_{time.monotonic_ns()}"
    with psycopg.connect(new_postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            url = new_postgres_url.replace("postgres@", f"{role}@")
            up = command.run("migrate", "up", "--url", url)
            demo = command.run("demo", "--postgres", url)
        finally:
            connection.execute(f"DROP ROLE {role}".encode())
        assert (up.returncode, demo.returncode) == (1, 1)
        assert re.search(r"permission denied for database.*; use a role that may CREATE in this database", up.stderr)
        assert re.search(r"permission denied for database.*; the demo needs a role that may CREATE", demo.stderr)
        assert connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname ~ 'holdfast'").fetchone() == (0,)


def test_schema_and_prefix_are_obeyed(command: CommandLine, new_postgres_url: str) -> None:
    """The tables lie where they were asked to."""
    done = command.run("migrate", "up", "--url", new_postgres_url, "--schema=work", "--prefix=hf_")
    assert done.returncode == 0
    with psycopg.connect(new_postgres_url) as connection:
        assert connection.execute("SELECT to_regclass('work.hf_job') IS NOT NULL").fetchone() == (True,)
    by_variables = {"HOLDFAST_URL": new_postgres_url, "HOLDFAST_SCHEMA": "work", "HOLDFAST_PREFIX": "hf_"}
    assert command.run("jobs", "list", **by_variables).stdout == "no jobs\n"


def test_the_app_names_the_database(command: CommandLine, tmp_path: Path) -> None:
    """--app takes URL, schema and prefix from the app; given twice, which one is meant is asked."""
    path = tmp_path / "app.db"
    (command.directory / "mine.py").write_text(
        f"from holdfast import App\napp = App('sqlite:///{path}', prefix='mine_')\n"
    )
    assert command.run("migrate", "up", "--app=mine:app", HOLDFAST_URL="sqlite:///other.db").returncode == 0
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT version FROM mine_migration ORDER BY version").fetchall()
        assert found == [(version,) for version in VERSIONS]
    both = command.run("migrate", "up", "--app=mine:app", "--url=sqlite:///other.db")
    assert both.returncode == 2
    assert "give one of them" in both.stderr


@pytest.mark.parametrize(
    ("url", "exit_code", "words"),
    [
        ("mysql://localhost/shop", 2, "must start with postgresql:// or sqlite:///"),
        ("sqlite:///:memory:", 2, "must name a file"),
        ("postgresql://u:s3cret@127.0.0.1:1/shop", 1, "Connection refused"),
        ("sqlite:////no/such/directory/x.db", 1, "cannot open /no/such/directory/x.db"),
    ],
)
def test_a_wrong_url_is_told_at_once(command: CommandLine, url: str, exit_code: int, words: str) -> None:
    """One line, without the password and without a traceback."""
    ended = command.run("migrate", "up", "--url", url)
    assert ended.returncode == exit_code
    assert ended.stderr.startswith("error: ")
    assert words in ended.stderr
    assert "s3cret" not in ended.stderr
    assert ended.stderr.count("\n") == 1


def _status(command: CommandLine, url: str) -> list[dict[str, object]]:
    ended = command.run("migrate", "status", "--url", url, "--format=json")
    assert ended.returncode == 0, ended.stderr
    states: list[dict[str, object]] = json.loads(ended.stdout)
    return states


def _execute(url: str, script: str) -> None:
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
            connection.executescript(script)
    else:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(SQL(script))
