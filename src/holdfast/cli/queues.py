"""`holdfast queues`: look at queues, pause them, limit them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.text import Text

from holdfast.app import App
from holdfast.cli.acting import Decorator, actor_of, several
from holdfast.cli.database import database_options, require_database
from holdfast.cli.listing import print_items
from holdfast.cli.output import TABLE, format_option, print_table
from holdfast.cli.shown import shown_number, shown_seconds
from holdfast.cli.values import duration, point_in_time, shown_duration
from holdfast.client import Client
from holdfast.model.identifiers import checked_name
from holdfast.model.operating import QueueRecord
from holdfast.model.queue import QueueLimits, QueueSettings

_COUNTS = ("ready", "scheduled", "held", "blocked", "running", "dead_letters")
_LIMITS = tuple(field.name for field in fields(QueueLimits))


_which: Decorator = several(
    click.argument("names", metavar="QUEUE...", nargs=-1, required=True),
    database_options,
)
_acting: Decorator = several(
    click.option(
        "--actor", metavar="NAME", envvar="HOLDFAST_ACTOR", help="Who does it, for the record.  [default: you]"
    ),
    format_option,
)


@click.group()
def queues() -> None:
    """Look at queues, pause them, limit them."""


@queues.command("list")
@database_options
@format_option
def list_(app: App, output_format: str) -> None:
    """List queues: what waits in each, for how long, how many workers serve it, and what holds it back."""
    require_database(app)
    with app.client() as client:
        found = client.queues.list()
    print_items(found, output_format, _print, "no queues")


@queues.command()
@_which
@click.option(
    "--for",
    "span",
    type=duration,
    metavar="DURATION",
    envvar="HOLDFAST_QUEUES_PAUSE_FOR",
    help="End the pause after 90s, 30m, 2h …  [default: until it is resumed]",
)
@click.option("--until", type=point_in_time, metavar="TIME", help="End the pause at 2026-05-01T12:00Z.")
@click.option("--reason", metavar="TEXT", help="Shown with the pause.")
@_acting
def pause(
    app: App,
    *,
    names: tuple[str, ...],
    span: timedelta | None,
    until: datetime | None,
    reason: str | None,
    **options: Any,
) -> None:
    """Give out no jobs of these queues; what runs goes on."""
    if span is not None and until is not None:
        raise click.UsageError("give --for or --until, not both")
    actor = actor_of(options)
    resume_at = span if until is None else until
    _change(
        app,
        names,
        options,
        lambda client, name: client.queues.pause(name, resume_at=resume_at, reason=reason, actor=actor),
    )


@queues.command()
@_which
@_acting
def resume(app: App, *, names: tuple[str, ...], **options: Any) -> None:
    """Give out jobs of these queues again."""
    actor = actor_of(options)
    _change(app, names, options, lambda client, name: client.queues.resume(name, actor=actor))


@queues.command()
@_which
@click.option(
    "--concurrency",
    type=int,
    metavar="N",
    help="So many jobs may run at a time, over all workers.",
)
@click.option("--rate", type=float, metavar="NUMBER", help="So many jobs may start per second.")
@click.option(
    "--burst",
    type=int,
    metavar="N",
    help="So many may start at once.  [default: as many as in a second]",
)
@click.option(
    "--key-concurrency", type=int, metavar="N", help="So many jobs of each concurrency key may run at a time."
)
@click.option("--key-rate", type=float, metavar="NUMBER", help="So many of each concurrency key may start per second.")
@click.option(
    "--key-burst",
    type=int,
    metavar="N",
    help="So many of each concurrency key may start at once.  [default: as many as in a second]",
)
@click.option("--fair-by", type=click.Choice(["tenant"]), help="Tenants take turns.")
@_acting
def limit(app: App, *, names: tuple[str, ...], **options: Any) -> None:
    """Say how much of these queues may run; what is not given has no limit from now on."""
    actor = actor_of(options)
    limits = {name: options[name] for name in _LIMITS}
    _change(
        app,
        names,
        options,
        lambda client, name: client.queues.limit(name, **limits, actor=actor),
    )


def _change(
    app: App, names: tuple[str, ...], options: dict[str, Any], change: Callable[[Client, str], QueueSettings]
) -> None:
    require_database(app)
    for name in names:
        checked_name("name", name)  # of all before the first is changed
    with app.client() as client:
        changed = [change(client, name) for name in names]
    if options["output_format"] == TABLE:
        for each in changed:
            click.echo(f"{each.name}: {shown_settings(each) or 'not paused, no limits'}")
    else:
        print_items(changed, options["output_format"], lambda _: None, "")


def shown_settings(settings: QueueSettings | QueueRecord) -> str:
    """What holds a queue back, in a line; empty if nothing does."""
    said = []
    if settings.paused_at is not None:
        left = "" if settings.resume_at is None else f" for {_left(settings.resume_at)} more"
        by = "" if settings.paused_by is None else f" by {settings.paused_by}"
        why = "" if settings.pause_reason is None else f": {settings.pause_reason}"
        said.append(f"paused{left}{by}{why}")
    if settings.concurrency is not None:
        said.append(f"at most {settings.concurrency:,} at a time")
    if settings.rate is not None:
        said.append(f"at most {settings.rate:g} per second, {settings.burst:,} at once")
    if settings.key_concurrency is not None:
        said.append(f"at most {settings.key_concurrency:,} running of a key")
    if settings.key_rate is not None:
        said.append(f"at most {settings.key_rate:g} of a key per second, {settings.key_burst:,} at once")
    if settings.fair_by is not None:
        said.append(f"fair by {settings.fair_by}")
    return "; ".join(said)


def _left(resume_at: datetime) -> str:
    return shown_duration(timedelta(seconds=max(1, round((resume_at - datetime.now(UTC)).total_seconds()))))


def _print(found: list[QueueRecord]) -> None:
    rows = []
    for queue in found:
        numbers = [shown_number(getattr(queue, name)) for name in _COUNTS]
        dead = numbers[-1]
        dead.stylize("red" if queue.dead_letters else "")
        workers = shown_number(queue.workers)
        workers.stylize("" if queue.workers or not queue.ready else "red")
        notes = [shown_settings(queue), "at least so many" if queue.is_capped else ""]
        note = Text("; ".join(filter(None, notes)), style="" if queue.paused_at is None else "yellow")
        rows.append([Text(queue.name), *numbers, Text(shown_seconds(queue.oldest_ready_seconds)), workers, note])
    columns = ("queue", "ready", "scheduled", "held", "blocked", "running", "dead", "oldest", "workers", "")
    has_notes = any(row[-1].plain for row in rows)
    print_table(columns if has_notes else columns[:-1], rows if has_notes else [row[:-1] for row in rows])
