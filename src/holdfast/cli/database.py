"""The options that say which database a command works on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import click
from click.core import ParameterSource

from holdfast.app import App
from holdfast.cli.loading import load_app
from holdfast.errors import DatabaseUnavailable, StoreError

_INSUFFICIENT_PRIVILEGE = "42501"

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS = (
    click.option(
        "--app", "target", metavar="MODULE:APP", envvar="HOLDFAST_APP", help="Work on the database of this app."
    ),
    click.option("--url", metavar="URL", envvar="HOLDFAST_URL", help="postgresql://… or sqlite:///file.db."),
    click.option(
        "--schema", default="holdfast", show_default=True, envvar="HOLDFAST_SCHEMA",
        help="With --url: PostgreSQL schema.",
    ),
    click.option(
        "--prefix", envvar="HOLDFAST_PREFIX", help="With --url: table prefix.  [default: none; holdfast_ on SQLite]"
    ),
)  # fmt: skip


def database_options(command: Callable[Concatenate[App, P], R]) -> Callable[P, R]:
    """Give a command --app, --url, --schema and --prefix, and hand it the app they name."""

    @wraps(command)
    def with_app(*args: P.args, **kwargs: P.kwargs) -> R:
        names = {name: kwargs.pop(name) for name in ("target", "url", "schema", "prefix")}
        return command(_choose(**names), *args, **kwargs)  # type: ignore[arg-type]  # click passes text or None

    decorated: Callable[P, R] = with_app
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _choose(target: str | None, url: str | None, schema: str, prefix: str | None) -> App:
    """What was typed wins over the environment; typed twice is a question, not an answer."""
    context = click.get_current_context()
    is_url_typed = url is not None and context.get_parameter_source("url") is ParameterSource.COMMANDLINE
    is_app_typed = target is not None and context.get_parameter_source("target") is ParameterSource.COMMANDLINE
    if is_url_typed and is_app_typed:
        raise click.UsageError("--app and --url both name a database; give one of them", context)
    if target is not None and not is_url_typed:
        return load_app(target)
    return App(url, schema=schema, prefix=prefix)


def sqlite_path(app: App) -> Path | None:
    """The app's file; None on PostgreSQL."""
    return Path(app.store.url.removeprefix("sqlite:///")) if app.store.dialect == "sqlite" else None


def require_database(app: App) -> None:
    """A command that reads fails at once, and does not create an empty SQLite file where a name was misspelt."""
    path = sqlite_path(app)
    if path is not None and not path.exists():
        raise DatabaseUnavailable(f"there is no file {path}; check --url or --app, or enqueue a first job")
    require_connection(app)


def require_connection(app: App) -> None:
    """Clients wait for a server that may come back; a person at a terminal wants to know now."""
    if (refusal := app.store.refusal()) is not None:
        raise DatabaseUnavailable(f"{app.store.url}: {refusal}")


@contextmanager
def explaining_rights(what_to_do: str) -> Iterator[None]:
    """Where PostgreSQL says that a role may not, also say what would help."""
    try:
        yield
    except StoreError as error:
        if getattr(error.__cause__, "sqlstate", None) != _INSUFFICIENT_PRIVILEGE:
            raise
        raise StoreError(f"{error}; {what_to_do}") from error
