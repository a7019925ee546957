"""Worker processes: started in milliseconds, stopped by real signals."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdfast import WorkerConfig
from holdfast.worker import fetcher
from tests.crew.database import Database
from tests.crew.fault import Accident
from tests.crew.jobs import Jobs, make_jobs
from tests.crew.ledger import Ledger
from tests.crew.report import say
from tests.crew.waiting import PATIENCE_SECONDS, wait_for

# A clean process that has imported everything and opened nothing is forked for each worker: 20 ms instead of 500.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.crew.process", "psycopg", "psycopg_pool"])

#: seconds where the defaults have tens of them
BRISK = WorkerConfig(
    concurrency=10,
    heartbeat=timedelta(seconds=0.3),
    dead_after=timedelta(seconds=1.5),
    lease=timedelta(seconds=2),
    renew=timedelta(seconds=0.6),
    poll=timedelta(seconds=0.5),
    stop_deadline=timedelta(seconds=5),
)

#: for tests in which a busy machine must not look like a dead worker
STEADY = replace(BRISK, heartbeat=timedelta(seconds=0.5), dead_after=timedelta(seconds=3), lease=timedelta(seconds=4))


def _logged(log: Path, target: Callable[..., None], args: tuple[Any, ...]) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(descriptor, sys.stdout.fileno())
    os.dup2(descriptor, sys.stderr.fileno())
    logging.basicConfig(level=logging.INFO, format="%(process)d %(asctime)s %(name)s %(message)s")
    target(*args)


def _work(url: str, ledger: Path, config: WorkerConfig, fault: Accident | None, options: dict[str, Any]) -> None:
    # Like the settings of BRISK, a tenth of what it is.
    fetcher._SUSPECT_PATIENCE = 0.5
    if fault is not None:
        fault.arm()
    make_jobs(url, ledger, **options).app.run_worker(config)


class ChildProcess:
    """A process that signals can be sent to; its output goes to a log."""

    def __init__(self, target: Callable[..., None], args: tuple[Any, ...], log: Path) -> None:
        self._process = _processes.Process(target=_logged, args=(log, target, args), daemon=True)
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.join()

    def freeze(self) -> None:
        """SIGSTOP, and until the kernel says that it stands still."""
        self.send(signal.SIGSTOP)
        wait_for(lambda: _state(self.pid) == "T", f"process {self.pid} stopped")

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.send(signal.SIGTERM)
        return self.join()

    def join(self, patience: float = PATIENCE_SECONDS) -> int:
        """The exit code; negative for the signal that killed it."""
        self._process.join(patience)
        exit_code = self._process.exitcode
        if exit_code is None:
            raise AssertionError(f"process {self.pid} did not end within {patience:g} s")
        return exit_code


class WorkerProcess(ChildProcess):
    """One worker, alone in its process."""

    def __init__(self, crew: Crew, config: WorkerConfig, fault: Accident | None, options: dict[str, Any]) -> None:
        super().__init__(_work, (crew.url, crew.ledger.path, config, fault, options), crew.log)


def spawn(target: Callable[..., None], *args: Any, log: Path) -> ChildProcess:
    """Any function of a module in a process of its own."""
    return ChildProcess(target, args, log)


def _state(pid: int) -> str:
    """The letter after the program's name in /proc."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def freeze_between_writes(worker: WorkerProcess, database: Database) -> None:
    """SIGSTOP, but not while it holds SQLite's one write lock: then nobody could do anything."""

    def is_frozen() -> bool:
        worker.freeze()
        if database.is_writable:
            return True
        worker.thaw()
        return False

    wait_for(is_frozen, f"process {worker.pid} stopped outside a transaction")


@dataclass
class Crew:
    """Everything a test starts on one database; nothing of it survives the test."""

    url: str
    directory: Path
    app_options: dict[str, Any] = field(default_factory=dict)
    workers: list[WorkerProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.directory / "ledger.jsonl")
        self.log = self.directory / "workers.log"
        self.jobs: Jobs = make_jobs(self.url, self.ledger.path, **self.app_options)

    def gate(self, name: str = "gate") -> Path:
        """A file that does not exist yet."""
        return self.directory / name

    def start(
        self, config: WorkerConfig = BRISK, *, fault: Accident | None = None, url: str | None = None, **options: Any
    ) -> WorkerProcess:
        crew = self if url is None else replace(self, url=url, workers=[])
        worker = WorkerProcess(crew, config, fault, self.app_options | options)
        self.workers.append(worker)
        return worker

    @property
    def said(self) -> str:
        """The workers' logs."""
        return self.log.read_text() if self.log.exists() else ""

    def end(self) -> None:
        for worker in self.workers:
            worker.send(signal.SIGKILL)
        for worker in self.workers:
            worker.join()


@contextlib.contextmanager
def crew_on(url: str, directory: Path, **app_options: Any) -> Iterator[Crew]:
    """A crew that is gone afterwards; its log is printed, for pytest to show if the test fails."""
    crew = Crew(url, directory, app_options)
    try:
        yield crew
    finally:
        crew.end()
        crew.jobs.app.close()
        say(crew.said[-20_000:])
