"""`holdfast schedules`: look at schedules, pause them, run them, and bring the database in line with the code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any

import click
from rich.text import Text

from holdfast.app import App
from holdfast.cli.acting import Decorator, actor_of, several
from holdfast.cli.database import database_options, require_connection, require_database
from holdfast.cli.listing import print_items
from holdfast.cli.output import JSON, JSONL, TABLE, format_option, print_json, print_lines, print_table
from holdfast.cli.values import shown_duration
from holdfast.client import Client
from holdfast.errors import HoldfastError, ScheduleNotFound
from holdfast.model.cron import checked_zone
from holdfast.model.schedule import ScheduleRecord

_which: Decorator = several(
    click.argument("names", metavar="NAME...", nargs=-1, required=True),
    database_options,
    click.option("--of", "owner", metavar="APP", help="The name of the app, if several have a schedule of that name."),
    click.option(
        "--actor", metavar="NAME", envvar="HOLDFAST_ACTOR", help="Who does it, for the record.  [default: you]"
    ),
    format_option,
)


@click.group()
def schedules() -> None:
    """Look at schedules, pause them, run them, bring them in line with the code."""


@schedules.command("list")
@database_options
@click.option("--of", "owner", metavar="APP", help="Only those of this app.")
@click.option(
    "--next", "count", type=click.IntRange(1, 1000), metavar="N", help="Show the next N ticks of each instead."
)
@format_option
def list_(app: App, owner: str | None, count: int | None, output_format: str) -> None:
    """List schedules: when each comes, what it enqueues, when it came last, and what holds it back."""
    require_database(app)
    with app.client() as client:
        found = client.schedules.list(app=owner)
    if count is None:
        print_items(found, output_format, _print, "no schedules")
    else:
        coming = [_coming(each, count) for each in found if each.is_active]
        print_items(coming, output_format, _print_coming, "no schedules that come")


@schedules.command()
@_which
def run(app: App, *, names: tuple[str, ...], owner: str | None, **options: Any) -> None:
    """Enqueue what these schedules enqueue, now, and print the ids of the jobs."""
    actor, output_format = actor_of(options), options["output_format"]
    require_database(app)
    with app.client() as client:
        found = _find(app, client, names, owner)
        chains = [client.schedules.run(each.name, app=each.app, actor=actor) for each in found]
    documents = [{"id": chain.id, "type_name": chain.type_name, "outcome": chain.outcome} for chain in chains]
    if output_format == TABLE:
        for chain in chains:
            click.echo(chain.id)
    else:
        print_items(documents, output_format, lambda _: None, "")


@schedules.command()
@_which
@click.option("--reason", metavar="TEXT", help="Shown with the pause.")
def pause(app: App, *, names: tuple[str, ...], owner: str | None, reason: str | None, **options: Any) -> None:
    """Let the ticks of these schedules pass until they are resumed."""
    actor = actor_of(options)
    _change(
        app,
        names,
        owner,
        options,
        lambda client, each: client.schedules.pause(each.name, app=each.app, reason=reason, actor=actor),
    )


@schedules.command()
@_which
def resume(app: App, *, names: tuple[str, ...], owner: str | None, **options: Any) -> None:
    """Let these schedules come again, from their next ticks on."""
    actor = actor_of(options)
    _change(
        app,
        names,
        owner,
        options,
        lambda client, each: client.schedules.resume(each.name, app=each.app, actor=actor),
    )


@schedules.command()
@_which
def remove(app: App, *, names: tuple[str, ...], owner: str | None, **options: Any) -> None:
    """Forget these schedules; those in code come back, as new ones, when a worker starts."""
    actor = actor_of(options)
    require_database(app)
    with app.client() as client:
        found = _find(app, client, names, owner)
        for each in found:
            client.schedules.remove(each.name, app=each.app, actor=actor)
    if options["output_format"] == TABLE:
        for each in found:
            click.echo(f"{each.name}: removed")
    else:
        print_items(found, options["output_format"], lambda _: None, "")


@schedules.command()
@database_options
@format_option
def sync(app: App, output_format: str) -> None:
    """Make the schedules in the database those of the code of --app, as a worker does when it starts.

    What live workers have otherwise stays until they are gone, and is shown as deferred.
    """
    if not app.job_types:
        raise click.UsageError(
            "there is no code here; say with --app MODULE:APP whose schedules these are", click.get_current_context()
        )
    require_connection(app)
    with app.client() as client:
        synced = asdict(client.schedules.sync())
    if output_format == JSON:
        print_json(synced)
    elif output_format == JSONL:
        print_lines({"name": name, "outcome": outcome} for outcome, names in synced.items() for name in names)
    else:
        said = [f"{name}: {outcome}" for outcome, names in synced.items() for name in names]
        click.echo("\n".join(said) or "no schedules")


def _change(
    app: App,
    names: tuple[str, ...],
    owner: str | None,
    options: dict[str, Any],
    change: Callable[[Client, ScheduleRecord], ScheduleRecord],
) -> None:
    require_database(app)
    with app.client() as client:
        changed = [change(client, each) for each in _find(app, client, names, owner)]
    if options["output_format"] == TABLE:
        for each in changed:
            click.echo(f"{each.name}: {_state(each) or f'next at {_shown_time(each, each.next_at)}'}")
    else:
        print_items(changed, options["output_format"], lambda _: None, "")


def _find(app: App, client: Client, names: tuple[str, ...], owner: str | None) -> list[ScheduleRecord]:
    """By name alone, as far as that says which one is meant; nothing is done unless all are there."""
    known = client.schedules.list(app=owner)
    found = []
    for name in names:
        called = [each for each in known if each.name == name]
        if not called:
            raise ScheduleNotFound(owner or app.name, name)
        own = [each for each in called if each.app == app.name]
        if len(called) > 1 and not own:
            apps = ", ".join(each.app for each in called)
            raise click.UsageError(f"several apps have a schedule {name!r}: {apps}; say with --of which one is meant")
        found.append((own or called)[0])
    return found


def _coming(schedule: ScheduleRecord, count: int) -> dict[str, Any]:
    ticks = [] if schedule.next_at is None else [schedule.next_at]
    if ticks and count > 1:
        ticks += schedule.upcoming(count - 1, after=ticks[0])
    return {
        "app": schedule.app,
        "name": schedule.name,
        "ticks": [_shown_time(schedule, tick) for tick in ticks[:count]],
    }


def _print_coming(found: list[dict[str, Any]]) -> None:
    rows = [[Text(each["app"]), Text(each["name"]), Text(tick)] for each in found for tick in each["ticks"]]
    print_table(("app", "schedule", "tick"), rows)


def _print(found: list[ScheduleRecord]) -> None:
    rows = []
    for each in found:
        state = _state(each)
        rows.append(
            [
                Text(each.app),
                Text(each.name),
                Text(_shown_rule(each)),
                Text(each.type_name),
                Text(_shown_time(each, each.last_tick_at)),
                Text(_shown_time(each, each.next_at) if each.is_active else ""),
                Text(state, style="yellow" if state else ""),
            ]
        )
    columns = ("app", "schedule", "when", "job", "last tick", "next", "")
    has_notes = any(row[-1].plain for row in rows)
    print_table(columns if has_notes else columns[:-1], rows if has_notes else [row[:-1] for row in rows])


def _state(schedule: ScheduleRecord) -> str:
    """What keeps it from coming, in a line; empty if nothing does."""
    if schedule.retired_at is not None:
        return "retired: not in the code any more"
    if schedule.paused_at is None:
        return ""
    by = "" if schedule.paused_by is None else f" by {schedule.paused_by}"
    why = "" if schedule.pause_reason is None else f": {schedule.pause_reason}"
    return f"paused{by}{why}"


def _shown_rule(schedule: ScheduleRecord) -> str:
    if schedule.interval_ms is not None:
        return f"every {shown_duration(timedelta(milliseconds=schedule.interval_ms))}"
    return f"{schedule.cron} {schedule.timezone}"


def _shown_time(schedule: ScheduleRecord, moment: datetime | None) -> str:
    """By the clocks that the schedule goes by, where this machine knows them."""
    if moment is None:
        return "never"
    try:
        local = moment.astimezone(checked_zone(schedule.timezone))
    except HoldfastError:
        local = moment
    return local.isoformat(" ", "seconds")
