"""`holdfast demo`: sets the stage, lets the story play, and judges by the ledger."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click
from rich.console import Console

from holdfast.cli.demo.display import Display
from holdfast.cli.demo.executions import EXECUTIONS, Executions
from holdfast.cli.demo.gateway import GATEWAY, Gateway
from holdfast.cli.demo.ledger import count
from holdfast.cli.demo.orders import make_orders
from holdfast.cli.demo.stage import EMBEDDED, Stage, make_app, open_stage
from holdfast.cli.demo.story import Story
from holdfast.cli.demo.summary import NextCommand, Summary, print_document, print_summary
from holdfast.cli.fleet import Fleet
from holdfast.cli.interruption import Interruption
from holdfast.cli.output import JSON, TABLE, console

_WORKER_OPTIONS = ("--concurrency=8", "--heartbeat=500ms", "--dead-after=3s", "--log-level=warning")
_EPILOG = (
    "Exit codes: 0 the ledger is right; 1 it is wrong, or the demo could not run: the reason stands on stderr; "
    "2 the command line is wrong; 130 interrupted."
)


@click.command(epilog=_EPILOG)
@click.option("--orders", default=500, show_default=True, type=click.IntRange(100, 100_000), help="Four jobs each.")
@click.option("--workers", default=3, show_default=True, type=click.IntRange(2, 16), help="Worker processes.")
@click.option(
    "--postgres", is_flag=False, flag_value=EMBEDDED, metavar="[URL]",
    help="On PostgreSQL instead of SQLite, in a schema of its own; without URL the demo starts a server.",
)  # fmt: skip
@click.option("--keep", is_flag=True, help="Leave the database behind, and say where.")
@click.option(
    "--format", "output_format", type=click.Choice([TABLE, JSON]), default=TABLE, show_default=True,
    help="json: the summary as one document; the story goes to stderr.",
)  # fmt: skip
def demo(orders: int, workers: int, postgres: str | None, output_format: str, *, keep: bool) -> None:
    """A shop under way: orders are charged, one worker is killed, one order is poison, and a ledger tells the end.

    Each order is charged; receipt and invoice follow, the invoices of each customer in order, and a report that waits
    for both. Some charges fail once and are retried. One fails for good and becomes a dead letter, which is shown,
    mended and retried. Takes less than a minute.
    """
    out = console(stderr=output_format == JSON)
    with (
        Interruption() as interruption,
        _directory(keep=keep) as directory,
        open_stage(directory, postgres, keep=keep) as stage,
        interruption.over(),
    ):
        summary = _play(out, stage, interruption, orders, workers, keep=keep)
    if output_format == JSON:
        print_document(summary)
    else:
        print_summary(out, summary)
    if not summary.is_right:
        sys.exit(1)


def _play(out: Console, stage: Stage, interruption: Interruption, orders: int, workers: int, *, keep: bool) -> Summary:
    app = stage.open_app()
    coming = make_orders(orders)
    executions = Executions(stage.directory / EXECUTIONS)
    gateway = Gateway(stage.directory / GATEWAY)
    out.print(f"[bold]Holdfast demo[/]: {orders:,} orders, {workers} worker processes, {stage}\n", soft_wrap=True)
    fleet = Fleet(make_app, stage.variables, stage.directory, interruption, *_WORKER_OPTIONS)
    with closing(app), app.client() as client, fleet:
        display = Display(out, orders, executions, fleet.workers)
        story = Story(client, fleet, executions, gateway, display, interruption, coming)
        with display.running():
            story.enqueue()
            story.play(workers)
        seconds = display.seconds
        ledger = count(client, coming, executions, gateway.taken(), story.happenings)
    return Summary(
        is_right=ledger.is_right,
        database=app.store.url,
        seconds=round(seconds, 1),
        workers=[worker.state for worker in fleet.workers],
        ledger=ledger,
        try_next=_next_commands(stage, story.dead, keep=keep),
    )


def _next_commands(stage: Stage, dead: Iterable[str], *, keep: bool) -> list[NextCommand]:
    """On the database, if it is kept."""
    if not keep:
        return [
            NextCommand("holdfast demo --keep", "leaves the database behind, and names commands that look into it"),
            NextCommand("holdfast demo --postgres", "the same on PostgreSQL"),
        ]
    return [
        NextCommand(f"holdfast jobs list {stage.options}", "every job, newest first"),
        *[
            NextCommand(f"holdfast jobs show {job_id} {stage.options}", "the dead letter, attempt by attempt")
            for job_id in dead
        ],
        NextCommand(f"holdfast dead list {stage.options}", "none is left"),
    ]


@contextmanager
def _directory(*, keep: bool) -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        yield directory
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
        elif not any(directory.iterdir()):  # it never came to anything
            directory.rmdir()
