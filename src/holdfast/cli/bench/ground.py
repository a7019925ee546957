"""Where it is measured: a schema of its own in the user's database, or a file of its own beside the user's."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

from holdfast.app import App
from holdfast.cli.bench.jobs import open_app, worker_variables
from holdfast.cli.database import explaining_rights, require_connection, sqlite_path
from holdfast.cli.scratch import drop_schema
from holdfast.errors import DatabaseUnavailable


@contextmanager
def open_ground(url: str | None) -> Iterator[tuple[App, Mapping[str, str]]]:
    """The app, migrated, and the variables that lead a worker to it; afterwards nothing is left of it."""
    name = f"holdfast_bench_{secrets.token_hex(4)}"
    file = sqlite_path(App(url))
    own = None if file is None else _beside(file, name)
    place = url or "" if own is None else f"sqlite:///{quote(str(own))}"
    app = open_app(place, name)
    require_connection(app)
    try:
        with closing(app):
            # Closed whatever happens, also where an interrupt comes before it is open: no thread may write afterwards.
            with closing(app.client()) as client, explaining_rights("the bench needs a role that may CREATE a schema"):
                client.migrate()
            yield app, worker_variables(place, name)
    finally:
        if own is None:
            drop_schema(app, name)
        else:
            for part in own.parent.glob(f"{own.name}*"):
                part.unlink(missing_ok=True)


def _beside(file: Path, name: str) -> Path:
    """On the same disk."""
    folder = file.absolute().parent
    if not folder.is_dir():
        raise DatabaseUnavailable(f"there is no folder {folder} to measure in; check --url")
    return folder / f"{name}.db"
