"""What the demo shows while it runs: a live picture on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from holdfast.cli.demo.executions import Executions, WorkerCounts
from holdfast.cli.demo.fleet import WorkerProcess
from holdfast.cli.demo.ledger import Ledger

_LINE_SECONDS = 1.0
_BAR_WIDTH = 40


class Display:
    """Knows how far the work is; the story lines stay above the picture."""

    def __init__(self, console: Console, total: int, executions: Executions, workers: Sequence[WorkerProcess]) -> None:
        self._console = console
        self._total = total
        self._executions = executions
        self._workers = workers
        self._began = time.monotonic()
        self._next_line = 0.0
        self._live: Live | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        self._began = time.monotonic()
        if not self._console.is_terminal:
            yield
            return
        with Live(self._picture(), console=self._console, refresh_per_second=10, transient=True) as self._live:
            yield
        self._live = None

    def story(self, text: str) -> None:
        """A line that stays."""
        self._console.print(f"[dim]{self._clock()}[/] {text}")

    def update(self) -> None:
        if self._live is not None:
            self._live.update(self._picture())
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            self.story(self._line())

    def _clock(self) -> str:
        return f"{time.monotonic() - self._began:5.1f} s"

    def _counts(self, worker: WorkerProcess) -> WorkerCounts:
        return self._executions.workers.get(worker.pid, WorkerCounts())

    @property
    def _running(self) -> int:
        return sum(self._counts(worker).running for worker in self._workers if worker.state == "working")

    def _line(self) -> str:
        per_worker = ", ".join(f"worker {worker.number}: {self._counts(worker).finished:,}" for worker in self._workers)
        return (
            f"finished {len(self._executions.finished_jobs):,} of {self._total:,}, running {self._running}, "
            f"retried {len(self._executions.retried_jobs):,} ({per_worker})"
        )

    def _picture(self) -> RenderableType:
        finished = len(self._executions.finished_jobs)
        total = Table.grid(padding=(0, 2))
        total.add_row(
            Text(self._clock(), style="dim"),
            ProgressBar(self._total, finished, width=_BAR_WIDTH),
            f"[bold]{finished:,}[/] of {self._total:,} finished",
            f"[cyan]{self._running}[/] running",
            f"[yellow]{len(self._executions.retried_jobs):,}[/] retried",
        )
        workers = Table.grid(padding=(0, 2))
        for worker in self._workers:
            workers.add_row(
                "       ", f"worker {worker.number}", f"[dim]pid {worker.pid}[/]", *self._worker_cells(worker)
            )
        return Group(Text(), total, workers)

    def _worker_cells(self, worker: WorkerProcess) -> Iterator[RenderableType]:
        counts = self._counts(worker)
        yield Text(f"{counts.finished:,} finished", justify="right")
        if worker.state == "killed":
            yield Text(f"killed, {counts.running} jobs cut short", style="red")
        else:
            yield Text("●" * min(counts.running, _BAR_WIDTH), style="cyan")


def print_ledger(console: Console, ledger: Ledger) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(style="dim")
    verdict = "bold green" if ledger.is_clean else "bold red"
    table.add_row("enqueued", f"{ledger.enqueued:,}", "in one transaction")
    table.add_row("finished", f"{ledger.finished:,}")
    table.add_row("retried", f"{ledger.retried:,}", "their handler raised, and was run again later")
    table.add_row("returned after the crash", f"{ledger.returned:,}", "held by the killed worker, ended by the others")
    table.add_row("dead letters", f"{ledger.dead_letters:,}", "failed on every attempt; kept for a person to look at")
    table.add_row(f"[{verdict}]lost[/]", f"[{verdict}]{ledger.lost:,}[/]")
    table.add_row(
        f"[{verdict}]finished twice[/]", f"[{verdict}]{ledger.finished_twice:,}[/]", "under one lease generation"
    )
    console.print()
    console.print("[bold]Ledger[/]")
    console.print(table)
