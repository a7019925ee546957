"""`holdfast jobs`: look at jobs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec
import rich.json
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from holdfast.app import App
from holdfast.cli.database import database_options, require_database
from holdfast.cli.output import JSON, JSONL, TABLE, console, format_option, print_json, print_lines, print_table
from holdfast.cli.values import instant
from holdfast.model.job import AttemptRecord, Job, JobError
from holdfast.model.status import Status

_COLOURS = {
    "completed": "green", "dead_letter": "red", "cancelled": "magenta", "running": "cyan", "retrying": "yellow"
}  # fmt: skip


@click.group()
def jobs() -> None:
    """Look at jobs."""


@jobs.command("list")
@database_options
@click.option(
    "--status",
    "-s",
    multiple=True,
    type=click.Choice([status.value for status in Status]),
    help="Only these; may be given several times.",
)
@click.option("--type", "type_name", metavar="NAME", help="Only this job type.")
@click.option("--queue", metavar="NAME", help="Only this queue.")
@click.option("--tenant", metavar="NAME", help="Only this tenant.")
@click.option(
    "--since", type=instant, metavar="TIME", help="Enqueued at or after: 2026-05-01T12:00Z, or 2h for two hours ago."
)
@click.option("--until", type=instant, metavar="TIME", help="Enqueued before.")
@click.option("--limit", default=50, show_default=True, help="Most jobs to show, up to 1,000.")
@click.option("--cursor", metavar="TEXT", help="Go on where an earlier page ended.")
@click.option("--newest-first/--oldest-first", default=True, help="Order of enqueue.  [default: newest first]")
@format_option
def list_(app: App, output_format: str, status: tuple[str, ...], **filters: Any) -> None:
    """List jobs in order of enqueue."""
    require_database(app)
    with app.client() as client:
        page = client.list_jobs(status=status or None, **filters)
    if output_format == JSON:
        print_json(page)
        return
    if output_format == JSONL:
        print_lines(page.items)
    elif page.items:
        _print_jobs(page.items)
    else:
        click.echo("no jobs")
    if page.next_cursor is not None:
        # Not on stdout: a reader of lines expects jobs only.
        click.echo(f"there are more: --cursor {page.next_cursor}", err=True)


@jobs.command()
@click.argument("job_id", metavar="ID")
@database_options
@format_option
def show(app: App, job_id: str, output_format: str) -> None:
    """Show one job: every column, the attempts that did not complete it, and their errors."""
    require_database(app)
    with app.client() as client:
        job = client.get_job(job_id)
        attempts = client.list_attempts(job_id)
    if output_format == TABLE:
        _print_job(console(), job, attempts)
        return
    document = {**msgspec.to_builtins(job), "attempts": attempts}
    if output_format == JSON:
        print_json(document)
    else:
        print_lines([document])


def shown_status(job: Job, now: datetime) -> str:
    """The status as people call it: a pending job may be held, scheduled or retrying."""
    if job.status is not Status.PENDING:
        return job.status.value
    if job.held:
        return "held"
    if job.attempt > 0:
        return "retrying"
    return "scheduled" if job.ready_at > now else job.status.value


def shown_age(age: timedelta) -> str:
    """One number and one unit."""
    seconds = max(0, int(age.total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _print_jobs(items: list[Job]) -> None:
    now = datetime.now(UTC)
    rows = []
    for job in items:
        status = shown_status(job, now)
        limit = "" if job.max_attempts is None else f"/{job.max_attempts}"
        age = shown_age(now - job.created_at)
        cells = (job.id, job.type_name, job.queue, status, f"{job.attempt}{limit}", age)
        rows.append([*(Text(cell) for cell in cells), Text(_one_line(job.last_attempt_error))])
        rows[-1][3].stylize(_COLOURS.get(status, ""))
    columns = ("id", "type", "queue", "status", "attempt", "age", "last error")
    shown = len(columns) if any(job.last_attempt_error for job in items) else len(columns) - 1
    print_table(columns[:shown], [row[:shown] for row in rows])


def _one_line(error: JobError | None) -> str:
    return "" if error is None else " ".join(f"{error.type}: {error.message}".split())


def _print_job(out: Console, job: Job, attempts: list[AttemptRecord]) -> None:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, value in _fields(job):
        grid.add_row(name, value)
    out.print(grid)
    for record in attempts:
        _print_attempt(out, record)
    if job.last_attempt_error is not None and job.last_attempt_error not in [record.error for record in attempts]:
        out.print("\n[bold]last error[/]")
        _print_error(out, job.last_attempt_error)


def _fields(job: Job) -> Iterator[tuple[str, Any]]:
    for name in job.__struct_fields__:
        value = getattr(job, name)
        if name == "status":
            shown = shown_status(job, datetime.now(UTC))
            note = "" if shown == value else f" ({shown})"
            yield name, f"[{_COLOURS.get(shown, 'default')}]{value}{note}[/]"
        elif name in {"input", "output", "headers"} and value is not None:
            yield name, rich.json.JSON.from_data(value, indent=None)
        elif isinstance(value, datetime):
            yield name, value.isoformat(sep=" ", timespec="milliseconds")
        elif isinstance(value, JobError):
            yield name, escape(_one_line(value))
        else:
            yield name, "[dim]–[/]" if value is None else escape(str(value))


def _print_attempt(out: Console, record: AttemptRecord) -> None:
    took = "" if record.started_at is None else f" after {(record.ended_at - record.started_at).total_seconds():.3f} s"
    by = "" if record.worker_id is None else f" by {escape(record.worker_id)}"
    ended = record.ended_at.isoformat(sep=" ", timespec="milliseconds")
    out.print(
        f"\n[bold]attempt {record.attempt}[/] (generation {record.lease_generation}){by}: "
        f"[red]{record.outcome}[/]{took}, {ended}"
    )
    if record.error is not None:
        _print_error(out, record.error)


def _print_error(out: Console, error: JobError) -> None:
    text = error.traceback.rstrip() if error.traceback else f"{error.type}: {error.message}"
    out.print(text, markup=False, soft_wrap=True)
