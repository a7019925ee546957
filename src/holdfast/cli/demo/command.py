"""`holdfast demo`: the story, from the first enqueue to the ledger."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import click

from holdfast.cli.demo.display import Display, print_ledger
from holdfast.cli.demo.executions import Executions
from holdfast.cli.demo.fleet import Fleet, WorkerProcess
from holdfast.cli.demo.jobs import executions_path, make_app, make_calls
from holdfast.cli.demo.ledger import Ledger, count, has_unfinished, held_by
from holdfast.cli.output import console
from holdfast.client import Client
from holdfast.errors import WorkerCannotWork

_WORKER_OPTIONS = ("--concurrency=8", "--heartbeat=500ms", "--dead-after=3s", "--log-level=warning")
_KILL_AT = 0.3
_TICK_SECONDS = 0.1
_PATIENCE_SECONDS = 120.0


@click.command()
@click.option("--jobs", default=3000, show_default=True, type=click.IntRange(100, 100_000), help="Jobs to enqueue.")
@click.option("--workers", default=3, show_default=True, type=click.IntRange(2, 16), help="Worker processes.")
@click.option("--keep", is_flag=True, help="Leave the database behind, and say where.")
def demo(jobs: int, workers: int, *, keep: bool) -> None:
    """Thousands of jobs, several workers, one killed in the middle, and a ledger.

    Runs on SQLite in a temporary directory and takes some fifteen seconds. Exits with 1 if a job was lost or finished
    twice.
    """
    # Ended by a supervisor, it still takes its workers with it.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    directory = Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    try:
        ledger = _run(directory, jobs, workers)
        print_ledger(console(), ledger)
        if keep:
            click.echo(f"\nThe database is kept. Look at it with:\n  holdfast jobs list --url {_url(directory)}")
    finally:
        if not keep:
            shutil.rmtree(directory, ignore_errors=True)
    if not ledger.is_clean:
        sys.exit(1)


_interrupted = threading.Event()


def _interrupt(_number: int, _frame: object) -> None:
    """An exception that is raised while the interpreter cleans up is only printed: the story looks at the event too."""
    _interrupted.set()
    raise KeyboardInterrupt


def _url(directory: Path) -> str:
    return f"sqlite:///{directory / 'demo.db'}"


def _run(directory: Path, jobs: int, workers: int) -> Ledger:
    out = console()
    url = _url(directory)
    app = make_app(url)
    executions = Executions(executions_path(app))
    out.print(f"[bold]Holdfast demo[/]: {jobs:,} jobs, {workers} worker processes, one SQLite file\n")
    with app.client() as client, Fleet(url, directory, *_WORKER_OPTIONS) as fleet:
        calls = make_calls(app, jobs)
        began = time.monotonic()
        enqueued = [chain.id for chain in client.enqueue_many(calls)]
        out.print(f"enqueued {len(enqueued):,} jobs in one transaction, {time.monotonic() - began:.2f} s")
        for _ in range(workers):
            fleet.start()
        display = Display(out, len(enqueued), executions, fleet.workers)
        story = _Story(client, fleet, executions, display, len(enqueued))
        with display.running():
            story.run()
        executions.read()
        return count(client, enqueued, story.held, executions)


@dataclass
class _Story:
    """Watches the workers, kills one of them, waits for the end."""

    client: Client
    fleet: Fleet
    executions: Executions
    display: Display
    total: int
    held: set[str] = field(default_factory=set)
    _victim: WorkerProcess | None = None
    _killed_at: float = 0.0
    _is_noticed: bool = False
    _is_recovered: bool = False

    def run(self) -> None:
        self.display.story(f"started workers {', '.join(str(worker.pid) for worker in self.fleet.workers)}")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            if _interrupted.is_set():
                raise KeyboardInterrupt
            self.executions.read()
            self.fleet.check()
            self.display.update()
            if self._victim is None:
                self._kill_when_half_way()
            elif not self._is_recovered:
                self._look_for_recovery(self._victim)
            elif not has_unfinished(self.client):
                break
            if time.monotonic() > deadline:
                raise WorkerCannotWork(f"jobs are unfinished after {_PATIENCE_SECONDS:g} s; is this machine very busy?")
            time.sleep(_TICK_SECONDS)
        self.display.update()
        self.display.story("nothing is left to do: SIGTERM to the workers")
        self.fleet.stop()
        self.display.story(", ".join(f"worker {worker.number} {worker.state}" for worker in self.fleet.workers))

    def _kill_when_half_way(self) -> None:
        victim = self.fleet.workers[1]
        counts = self.executions.workers.get(victim.pid)
        if len(self.executions.finished_jobs) < self.total * _KILL_AT or counts is None or counts.running == 0:
            return
        self.fleet.kill(victim)
        self._victim = victim
        self._killed_at = time.monotonic()
        self.held = held_by(self.client, victim.pid)
        self.display.story(
            f"[red]killed worker {victim.number}[/] (pid {victim.pid}, SIGKILL) while it held {len(self.held)} jobs"
        )

    def _look_for_recovery(self, victim: WorkerProcess) -> None:
        took = f"{time.monotonic() - self._killed_at:.1f} s after the kill"
        if not self._is_noticed and not held_by(self.client, victim.pid):
            self._is_noticed = True
            self.display.story(f"its heartbeat is missed, its jobs are back in their queue, {took}")
        if self._is_noticed and all(self.client.get_job(job_id).status.is_terminal for job_id in self.held):
            self._is_recovered = True
            self.display.story(f"[green]the others have ended all {len(self.held)} of them[/], {took}")
