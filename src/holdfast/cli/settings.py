"""`holdfast settings`: what holds while everything runs, without a deploy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.text import Text

from holdfast.app import App
from holdfast.cli.acting import Decorator, actor_of, several
from holdfast.cli.database import database_options, require_database
from holdfast.cli.listing import print_items
from holdfast.cli.output import TABLE, format_option, print_table
from holdfast.cli.shown import shown_age
from holdfast.cli.values import duration, shown_duration
from holdfast.model.settings import KINDS, SettingRecord

_DURATIONS = ("retry_initial", "retry_maximum", "keep_")

_which: Decorator = several(
    click.option("--type", "type_name", metavar="NAME", help="Only for jobs of this type.  [default: all]"),
    database_options,
    click.option(
        "--actor", metavar="NAME", envvar="HOLDFAST_ACTOR", help="Who does it, for the record.  [default: you]"
    ),
    format_option,
)
_name = click.argument("name", type=click.Choice(list(KINDS)), metavar="NAME")


@click.group()
def settings() -> None:
    """Say how jobs are tried again and how long they are kept, for all types or one, while everything runs."""


@settings.command("list")
@database_options
@format_option
def list_(app: App, output_format: str) -> None:
    """List what is set; everything else is as the code says."""
    require_database(app)
    with app.client() as client:
        found = client.settings.list()
    print_items(found, output_format, _print, "nothing is set: all is as the code says")


@settings.command("set")
@_name
@click.argument("value")
@_which
def set_(app: App, *, name: str, value: str, type_name: str | None, **options: Any) -> None:
    """Have a setting hold from now on; workers take it up within seconds.

    NAME is one of max_attempts, retry_initial, retry_factor, retry_maximum, retry_jitter, keep_completed,
    keep_dead_letter, keep_cancelled, archive, keep_archive, keep_audit. Durations are written as 90s, 30m, 7d; what is
    kept may be kept forever; archive is true or false.
    """
    actor = actor_of(options)
    require_database(app)
    with app.client() as client:
        record = client.settings.set(name, _read(name, value), type_name=type_name, actor=actor)
    if options["output_format"] == TABLE:
        click.echo(_said(record))
    else:
        print_items([record], options["output_format"], _print, "")


@settings.command("unset")
@_name
@_which
def unset(app: App, *, name: str, type_name: str | None, **options: Any) -> int:
    """Take a setting back; from then on holds what the code says, or what is set for all."""
    actor = actor_of(options)
    require_database(app)
    with app.client() as client:
        was_set = client.settings.unset(name, type_name=type_name, actor=actor)
    of_type = "" if type_name is None else f" of {type_name}"
    click.echo(f"{name}{of_type} is no longer set" if was_set else f"{name}{of_type} was not set")
    return int(not was_set)


def _read(name: str, text: str) -> object:
    """A value as it is typed."""
    if text == "forever":
        return text
    if name == "archive":
        if text not in {"true", "false"}:
            raise click.UsageError(f"{text!r} is neither true nor false")
        return text == "true"
    if name.startswith(_DURATIONS):
        return duration(text)
    try:
        return int(text) if name == "max_attempts" else float(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is not a number") from None


def _said(record: SettingRecord) -> str:
    of_type = "" if record.type_name is None else f" of {record.type_name}"
    return f"{record.name}{of_type} is {_value(record)}"


def _value(record: SettingRecord) -> str:
    if record.name.startswith(_DURATIONS) and not isinstance(record.value, str):
        days, rest = divmod(record.value, 86400)
        return f"{days:g}d" if days and not rest else shown_duration(timedelta(seconds=record.value))
    return str(record.value).lower() if isinstance(record.value, bool) else str(record.value)


def _print(found: list[SettingRecord]) -> None:
    now = datetime.now(UTC)
    rows = [
        [
            Text(record.name),
            Text(record.type_name or "all"),
            Text(_value(record)),
            Text(shown_age(now - record.changed_at)),
        ]
        for record in found
    ]
    print_table(("setting", "type", "value", "changed"), rows)
