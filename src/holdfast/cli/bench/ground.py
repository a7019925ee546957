"""Where it is measured: a schema of its own in the user's database, or a file of its own beside the user's."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from holdfast.app import App
from holdfast.cli.bench.jobs import make_app, open_app, worker_variables
from holdfast.cli.database import explaining_rights, require_connection, sqlite_path
from holdfast.cli.scratch import drop_schema
from holdfast.errors import DatabaseUnavailable

_STOP_SECONDS = 30


@contextmanager
def open_ground(url: str | None) -> Iterator[tuple[App, Mapping[str, str]]]:
    """The app, migrated, and the variables that lead a worker to it; afterwards nothing is left of it."""
    name = f"holdfast_bench_{secrets.token_hex(4)}"
    file = sqlite_path(App(url))
    own = None if file is None else _beside(file, name)
    place = url or "" if own is None else f"sqlite:///{own}"
    app = open_app(place, name)
    require_connection(app)
    try:
        with app.client() as client, explaining_rights("the bench needs a role that may CREATE a schema"):
            client.migrate()
        yield app, worker_variables(place, name)
    finally:
        app.close()
        if own is None:
            drop_schema(app, name)
        else:
            for part in own.parent.glob(f"{own.name}*"):
                part.unlink()


def _beside(file: Path, name: str) -> Path:
    """On the same disk."""
    folder = file.absolute().parent
    if not folder.is_dir():
        raise DatabaseUnavailable(f"there is no folder {folder} to measure in; check --url")
    return folder / f"{name}.db"


@contextmanager
def workers(count: int, variables: Mapping[str, str], log: Path) -> Iterator[None]:
    """Real processes, started with the command that users start them with; what the user has set is not for them."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    command = [sys.executable, "-m", "holdfast", "worker", f"{make_app.__module__}:{make_app.__name__}"]
    with log.open("ab") as output:
        running = [
            subprocess.Popen(  # noqa: S603 - our own command
                command, env={**inherited, **variables}, stdout=output, stderr=output, start_new_session=True
            )
            for _ in range(count)
        ]
        try:
            yield
        finally:
            for process in running:
                process.terminate()
            for process in running:
                try:
                    process.wait(_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
