"""`holdfast workers`: look at workers, and take their jobs from them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from rich.text import Text

from holdfast.app import App
from holdfast.cli.acting import acting_options, actor_of, confirm
from holdfast.cli.database import database_options, require_database
from holdfast.cli.listing import print_items
from holdfast.cli.output import TABLE, format_option, print_table
from holdfast.cli.shown import shown_age, shown_number
from holdfast.model.operating import WorkerRecord, WorkerRelease

_COLOURS = {"alive": "green", "draining": "yellow", "dead": "red"}


@click.group()
def workers() -> None:
    """Look at workers, and take their jobs from them."""


@workers.command("list")
@database_options
@format_option
def list_(app: App, output_format: str) -> None:
    """List workers: what they say of themselves, when they were last heard, and how many jobs they hold."""
    require_database(app)
    with app.client() as client:
        found = client.workers.list()
    print_items(found, output_format, _print, "no workers")


@workers.command()
@database_options
@acting_options
def accept(app: App, *, output_format: str, yes: bool, **options: Any) -> None:
    """Let workers work in a database that was restored from a backup, or copied; until then they start paused."""
    require_database(app)
    confirm("let workers run what is pending in this database, though it may have been run before", is_sure=yes)
    with app.client() as client:
        client.workers.accept(actor=actor_of(options))
    if output_format == TABLE:
        click.echo("accepted; workers that wait go on within seconds")
    else:
        click.echo(json.dumps({"accepted": True}))


@workers.command()
@click.argument("worker_ids", metavar="ID...", nargs=-1, required=True)
@database_options
@acting_options
def release(app: App, *, worker_ids: tuple[str, ...], output_format: str, yes: bool, **options: Any) -> int:
    """Give back the jobs of workers that are gone, or do not do their work; others may claim them at once."""
    require_database(app)
    confirm(f"take all jobs from {', '.join(worker_ids)}", is_sure=yes)
    actor = actor_of(options)
    with app.client() as client:
        released = [client.workers.release(worker_id, actor=actor) for worker_id in worker_ids]
    if output_format == TABLE:
        for each in released:
            click.echo(_said(each))
    else:
        print_items(released, output_format, lambda _: None, "")
    return int(any(not each.is_known or each.locked for each in released))


def _said(release: WorkerRelease) -> str:
    if not release.is_known:
        return f"{release.worker_id}: there is no such worker, and it holds no jobs"
    locked = f"; {len(release.locked):,} are locked by somebody else, try again" if release.locked else ""
    return f"{release.worker_id}: {len(release.released):,} jobs given back{locked}"


def _print(found: list[WorkerRecord]) -> None:
    now = datetime.now(UTC)
    rows = [
        [
            Text(worker.id),
            Text(worker.status, style=_COLOURS.get(worker.status, "")),
            Text("leader" if worker.is_leader else ""),
            shown_number(worker.running),
            Text(shown_age(timedelta(milliseconds=worker.silent_ms))),
            Text(shown_age(now - worker.started_at)),
            Text(worker.version),
            Text(", ".join(worker.queues)),
        ]
        for worker in found
    ]
    print_table(("worker", "status", "", "jobs", "heard", "age", "version", "queues"), rows)
