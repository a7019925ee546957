"""`holdfast prune` and `holdfast vacuum`: remove what has had its time, and give back its room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from holdfast.app import App
from holdfast.cli.database import database_options, require_database
from holdfast.cli.output import TABLE, format_option, print_json, print_lines
from holdfast.cli.values import duration
from holdfast.model.operating import PruneCounts, VacuumCounts


@click.command()
@click.option(
    "--older-than", type=duration, metavar="DURATION",
    help="Remove every chain that ended so long ago: 12h, 30d.  [default: as types and settings say]",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Remove nothing; count what would go.")
@database_options
@format_option
def prune(app: App, *, older_than: timedelta | None, dry_run: bool, output_format: str) -> None:
    """Remove chains that have ended and had their time; workers do the same by themselves.

    Never what an unfinished job needs; in small batches, between which workers have their turn.
    """
    require_database(app)
    with app.client() as client, _bar("looking" if dry_run else "pruning") as show:
        counts = client.admin.prune(
            older_than=older_than,
            dry_run=dry_run,
            progress=lambda so_far: show(f"{so_far.removed + so_far.archived:,} of {so_far.seen:,} chains"),
        )
    _print(counts, output_format, lambda: _said(counts, is_dry=dry_run))


@click.command()
@click.option(
    "--enable-incremental",
    is_flag=True,
    help="SQLite: rewrite a file that cannot be made smaller bit by bit; nobody can write meanwhile.",
)
@database_options
@format_option
def vacuum(app: App, *, enable_incremental: bool, output_format: str) -> None:
    """Give back the room of what was removed: to the file system on SQLite, to the tables on PostgreSQL.

    On SQLite free pages go in slices, so that others can write in between; on PostgreSQL this is VACUUM (ANALYZE) of
    Holdfast's tables, one after the other, which autovacuum does as well.
    """
    require_database(app)
    with app.client() as client, _bar("vacuuming") as show:
        counts = client.admin.vacuum(
            enable_incremental=enable_incremental,
            progress=lambda so_far: show(f"{so_far.freed_pages:,} pages, {so_far.free_pages:,} to go"),
        )
    _print(counts, output_format, lambda: _said_of_vacuum(counts))


def _print(counts: PruneCounts | VacuumCounts, output_format: str, said: Callable[[], str]) -> None:
    if output_format == TABLE:
        click.echo(said())
    elif output_format == "jsonl":
        print_lines([counts])
    else:
        print_json(counts)


def _said(counts: PruneCounts, *, is_dry: bool) -> str:
    would = "would be " if is_dry else ""
    said = [f"{counts.removed:,} chains {would}removed"]
    if counts.archived:
        said.append(f"{counts.archived:,} {would}archived")
    if counts.needed:
        said.append(f"{counts.needed:,} stay: jobs need them that have not completed")
    if counts.locked:
        said.append(f"{counts.locked:,} stay: locked by somebody else")
    if counts.referenced:
        said.append(f"{counts.referenced:,} stay: rows of the application refer to their jobs")
    return "; ".join(said)


def _said_of_vacuum(counts: VacuumCounts) -> str:
    size = f"{counts.pages * counts.page_size / 2**20:,.1f} MiB"
    if not counts.is_incremental:
        return (
            f"{counts.free_pages:,} of {counts.pages:,} pages are free and will be used again; "
            "--enable-incremental makes files that can become smaller"
        )
    return f"{counts.freed_pages * counts.page_size / 2**20:,.1f} MiB given back, {size} in use"


@contextmanager
def _bar(what: str) -> Iterator[Callable[[str], Any]]:
    """On stderr, and only where somebody watches; nobody knows beforehand how far it is."""
    out = Console(stderr=True)
    if not out.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Bar(*columns, console=out, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda text: bar.update(task, description=f"{what}: {text}")
