"""`holdfast bench`: read its options, measure, and print."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from holdfast.cli.bench.ground import open_ground
from holdfast.cli.bench.jobs import make_app
from holdfast.cli.bench.measures import Figures, Progress, measure
from holdfast.cli.fleet import Fleet
from holdfast.cli.interruption import Interruption
from holdfast.cli.output import TABLE, console, format_option, print_json, print_lines, print_table
from holdfast.errors import HoldfastError


@click.command()
@click.option("--url", metavar="URL", envvar="HOLDFAST_URL", help="postgresql://… or sqlite:///file.db.")
@click.option("--jobs", type=click.IntRange(1000), default=20_000, show_default=True, help="How many jobs to drain.")
@click.option("--samples", type=click.IntRange(10), default=200, show_default=True, help="For latency, and one by one.")
@click.option("--processes", type=click.IntRange(1), default=1, show_default=True, help="Worker processes.")
@format_option
def bench(*, url: str | None, jobs: int, samples: int, processes: int, output_format: str) -> None:
    """Measure Holdfast on a database of yours, with jobs that do nothing.

    On PostgreSQL in a schema of its own, on SQLite in a file of its own beside the one that you name; both are removed
    at the end. It keeps the server and this machine busy for some seconds: do not run it where that hurts.
    """
    with Interruption() as interruption:
        try:
            figures = _measure(url, jobs, samples, processes, interruption)
        except HoldfastError:
            interruption.check()  # in the middle of a statement it may look like a lost connection
            raise
    if output_format == TABLE:
        print_table(("", "measured"), _rows(figures))
    elif output_format == "jsonl":
        print_lines([figures])
    else:
        print_json(figures)


def _measure(url: str | None, jobs: int, samples: int, processes: int, interruption: Interruption) -> Figures:
    with (
        tempfile.TemporaryDirectory() as folder,
        open_ground(url) as (app, variables),
        interruption.over(),
        Fleet(make_app, variables, Path(folder), interruption) as fleet,
        _bar(interruption) as progress,
    ):
        return measure(app, fleet, jobs=jobs, samples=samples, processes=processes, progress=progress)


def _rows(figures: Figures) -> list[tuple[Text, Text]]:
    processes = f"{figures.worker_processes} worker process{'es' if figures.worker_processes > 1 else ''}"
    latency = f"{figures.enqueue_to_start_p50_ms:.1f} ms / {figures.enqueue_to_start_p99_ms:.1f} ms"
    said = {
        "enqueue, one by one": f"{figures.enqueued_one_by_one_per_second:,.0f} jobs/s",
        "enqueue, in batches of 1,000": f"{figures.enqueued_in_batches_per_second:,.0f} jobs/s",
        f"drain, {processes}": f"{figures.drained_per_second:,.0f} jobs/s",
        "from enqueue to start, p50 / p99": latency,
    }
    return [(Text(what), Text(value)) for what, value in said.items()]


@contextmanager
def _bar(interruption: Interruption) -> Iterator[Progress]:
    """On stderr, and only where somebody watches."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield lambda *_: interruption.check()
        return
    columns = (TextColumn("{task.description:<20}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=out, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(what: str, done: int, total: int) -> None:
            interruption.check()
            bar.update(task, description=what, completed=done, total=total)

        yield show
