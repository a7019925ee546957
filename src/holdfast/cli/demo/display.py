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
from holdfast.cli.demo.ledger import STEPS
from holdfast.cli.fleet import WorkerProcess

_LINE_SECONDS = 1.0
_BAR_WIDTH = 40


class Display:
    """Knows how far the work is; the lines of the story stay above the picture."""

    def __init__(self, console: Console, orders: int, executions: Executions, workers: Sequence[WorkerProcess]) -> None:
        self._console = console
        self._orders = orders
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

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def tell(self, text: str) -> None:
        """A line that stays."""
        self._console.print(f"[dim]{self.seconds:5.1f} s[/] {text}")

    def update(self) -> None:
        if self._live is not None:
            self._live.update(self._picture())
        elif not self._console.is_terminal and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            self.tell(self._line())

    def _counts(self, worker: WorkerProcess) -> WorkerCounts:
        return self._executions.workers.get(worker.pid, WorkerCounts())

    def _done(self, step: str) -> int:
        return len(self._executions.finished_jobs[step])

    @property
    def _running(self) -> int:
        return sum(self._counts(worker).running for worker in self._workers if worker.state == "working")

    def _line(self) -> str:
        per_step = ", ".join(f"{step} {self._done(step):,}" for step in STEPS)
        return (
            f"finished {self._executions.finished:,} of {self._orders * len(STEPS):,} ({per_step}), "
            f"running {self._running}, retried {len(self._executions.retried_jobs):,}"
        )

    def _picture(self) -> RenderableType:
        steps = Table.grid(padding=(0, 2))
        for step in STEPS:
            done = self._done(step)
            bar = ProgressBar(self._orders, done, width=_BAR_WIDTH)
            steps.add_row("       ", step, bar, Text(f"{done:,} of {self._orders:,}", justify="right"))
        workers = Table.grid(padding=(0, 2))
        for worker in self._workers:
            workers.add_row(
                "       ", f"worker {worker.number}", f"[dim]pid {worker.pid}[/]", *self._worker_cells(worker)
            )
        total = Text.from_markup(
            f"[dim]{self.seconds:5.1f} s[/] [cyan]{self._running}[/] running, "
            f"[yellow]{len(self._executions.retried_jobs):,}[/] retried"
        )
        return Group(Text(), steps, workers, total)

    def _worker_cells(self, worker: WorkerProcess) -> Iterator[RenderableType]:
        counts = self._counts(worker)
        yield Text(f"{counts.finished:,} finished", justify="right")
        if worker.state == "killed":
            yield Text(f"killed, {counts.running} jobs cut short", style="red")
        else:
            yield Text("●" * min(counts.running, _BAR_WIDTH), style="cyan")
