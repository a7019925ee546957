"""`holdfast jobs`: look at jobs."""

from __future__ import annotations

from typing import Any

import click
import msgspec
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from holdfast.app import App
from holdfast.cli.database import database_options, require_database
from holdfast.cli.listing import given, list_options, print_page
from holdfast.cli.output import JSON, TABLE, console, format_option, print_json, print_lines, print_table
from holdfast.cli.shown import coloured, one_line, print_fields, print_jobs
from holdfast.model.job import AttemptRecord, Job, JobError
from holdfast.operations.read_blockers import Blocker


@click.group()
def jobs() -> None:
    """Look at jobs."""


@jobs.command("list")
@database_options
@list_options
def list_(app: App, output_format: str, **filters: Any) -> None:
    """List jobs in order of enqueue."""
    require_database(app)
    with app.client() as client:
        page = client.list_jobs(**given(filters))
    print_page(page, output_format, print_jobs, "no jobs")


@jobs.command()
@click.argument("job_id", metavar="ID")
@database_options
@format_option
def show(app: App, job_id: str, output_format: str) -> None:
    """Show one job: every column, why it does not run, what it waits for, its failed attempts and their errors."""
    require_database(app)
    with app.client() as client:
        job = client.get_job(job_id)
        attempts = client.list_attempts(job_id)
        blockers = client.get_blockers(job_id)
        why = client.explain(job_id)
    if output_format == TABLE:
        _print_job(console(), job, attempts, blockers, why)
        return
    document = {**msgspec.to_builtins(job), "attempts": attempts, "blockers": blockers, "why_not_running": why}
    if output_format == JSON:
        print_json(document)
    else:
        print_lines([document])


def _print_job(out: Console, job: Job, attempts: list[AttemptRecord], blockers: list[Blocker], why: list[str]) -> None:
    print_fields(out, job, job)
    if why:
        out.print("\n[bold]why it does not run[/]")
        for reason in why:
            out.print(f"  {escape(reason)}")
    if blockers:
        out.print("\n[bold]waits for[/]" if job.waiting_for else "\n[bold]waited for[/]")
        print_table(
            ("chain", "status", "error"),
            [
                [Text(each.chain_id), coloured(each.status or "deleted"), Text(one_line(each.error))]
                for each in blockers
            ],
        )
    for record in attempts:
        _print_attempt(out, record)
    if job.last_attempt_error is not None and job.last_attempt_error not in [record.error for record in attempts]:
        out.print("\n[bold]last error[/]")
        _print_error(out, job.last_attempt_error)


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
