"""`holdfast migrate`: bring the schema up to date, or show what that means."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click
import msgspec
from rich.text import Text

from holdfast.app import App
from holdfast.cli.database import database_options, explaining_rights, require_connection, sqlite_path
from holdfast.cli.output import JSON, TABLE, format_option, print_json, print_lines, print_table, spinner
from holdfast.operations.migrate import Migration, create_roles, find_functions, read_migrations

_NEEDS_RIGHTS = (
    "use a role that may CREATE in this database and its schema, or hand the output of `holdfast migrate sql --from 0` "
    "to somebody who has one"
)


@click.group()
def migrate() -> None:
    """Bring the schema up to date, or show what that means."""


@migrate.command()
@database_options
@format_option
def up(app: App, output_format: str) -> None:
    """Apply every missing migration, in one transaction.

    Safe to run from many processes at once: one does it, the others wait and find it done.
    """
    require_connection(app)
    store = app.store.sync()  # not a client: on SQLite opening one would migrate before we can say so
    try:
        with spinner(f"migrating {app.store.url}"), explaining_rights(_NEEDS_RIGHTS):
            applied = store.migrate()
    finally:
        store.close()
    if output_format == TABLE:
        _print_applied(app, applied)
        return
    states = [MigrationState(each.version, each.name, each.oldest_code, "applied") for each in applied]
    if output_format == JSON:
        print_json(states)
    else:
        print_lines(states)


def _print_applied(app: App, applied: Sequence[Migration]) -> None:
    for migration in applied:
        click.echo(f"applied {_title(migration)}")
    newest = app.store.known_migrations()[-1]
    click.echo(
        f"{app.store.url} is at {_title(newest)}" if applied else f"nothing to do: {app.store.url} is up to date"
    )


class MigrationState(msgspec.Struct, frozen=True):
    """A migration, as `migrate status` shows it."""

    version: int
    name: str
    oldest_code: str
    state: str


@migrate.command(
    epilog="Exit codes: 0 done; 1 the database cannot be reached, or with --check a migration is missing; "
    "2 the command line is wrong."
)
@database_options
@click.option("--check", is_flag=True, help="Exit with 1 if a migration is missing.")
@format_option
def status(app: App, output_format: str, *, check: bool) -> None:
    """List migrations and whether the database has them."""
    states = _states(app)
    if output_format == TABLE:
        rows = [
            [Text(str(state.version)), Text(state.name), _coloured(state), Text(state.oldest_code)] for state in states
        ]
        print_table(("version", "name", "state", "oldest code"), rows)
    elif output_format == JSON:
        print_json(states)
    else:
        print_lines(states)
    missing = [state for state in states if state.state == "missing"]
    if missing and output_format == TABLE:
        click.echo(f"{len(missing)} missing; run `holdfast migrate up`")
    if missing and check:
        sys.exit(1)


@migrate.command("sql")
@database_options
@click.option(
    "--from", "found", type=click.IntRange(min=0), metavar="VERSION",
    help="Start from this schema version, without asking the database; 0 is an empty one.",
)  # fmt: skip
def print_sql(app: App, found: int | None) -> None:
    """Print the SQL that `migrate up` would run, as one transaction for psql or sqlite3."""
    stamp = None
    if found is None:
        found = max((migration.version for migration in _applied(app)), default=0)
        stamp = _stamp(app)
    sql = app.store.pending_sql(found, stamp)
    if sql:
        click.echo(sql)
    else:
        click.echo(f"nothing to do: {app.store.url} is up to date", err=True)


@migrate.command()
@database_options
@click.option("--apply", "is_applied", is_flag=True, help="Run the SQL instead of printing it.")
def roles(app: App, *, is_applied: bool) -> None:
    """Print the SQL that creates roles which may only enqueue, work, look or operate.

    Roles belong to the whole server and creating them needs the right to, so nobody else does it.
    """
    sql = app.store.roles_sql()
    if not sql:
        raise click.UsageError("SQLite knows no roles; whoever may open the file may do everything")
    if not is_applied:
        click.echo(sql)
        return
    require_connection(app)
    store = app.store.sync()
    try:
        store.ensure_ready()
        store.run(create_roles)
    finally:
        store.close()
    click.echo(f"roles created where they were missing, rights granted in {app.store.url}")


def _applied(app: App) -> list[Migration]:
    path = sqlite_path(app)
    if path is not None and not path.exists():
        return []
    require_connection(app)
    store = app.store.sync()
    try:
        return store.run(read_migrations, read_only=True)
    finally:
        store.close()


def _stamp(app: App) -> str | None:
    if app.store.dialect != "postgres":
        return None
    store = app.store.sync()
    try:
        return store.run(find_functions, read_only=True)
    finally:
        store.close()


def _states(app: App) -> list[MigrationState]:
    applied = {migration.version: migration for migration in _applied(app)}
    known = {migration.version: migration for migration in app.store.known_migrations()}
    states = []
    for version, migration in sorted((applied | known).items()):
        state = "missing" if version not in applied else "applied" if version in known else "newer than this code"
        states.append(MigrationState(version, migration.name, migration.oldest_code, state))
    return states


def _coloured(state: MigrationState) -> Text:
    return Text(state.state, style={"applied": "green", "missing": "yellow"}.get(state.state, "cyan"))


def _title(migration: Migration) -> str:
    return f"{migration.version:04d} {migration.name}"
