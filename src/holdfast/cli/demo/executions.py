"""What the handlers themselves saw: a file beside the database, one line per start, finish and failure.

The ledger sets this against the database, so a job that ran twice or not at all cannot hide behind a good row.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from holdfast.worker import Context, SyncContext

START = "start"
FINISH = "finish"
FAIL = "fail"


class Execution(NamedTuple):
    """A line of the file."""

    event: str
    job_id: str
    lease_generation: int
    pid: int


class ExecutionLog:
    """The writing end; every worker process appends to the same file."""

    def __init__(self, path: Path) -> None:
        # One write() on O_APPEND is one line, whoever else writes; and the kernel keeps it when the process is killed.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    @contextmanager
    def execution(self, ctx: Context | SyncContext) -> Iterator[None]:
        """Write down that a handler starts, and how it ends."""
        self._write(START, ctx)
        try:
            yield
        except BaseException:
            self._write(FAIL, ctx)
            raise
        self._write(FINISH, ctx)

    def _write(self, event: str, ctx: Context | SyncContext) -> None:
        os.write(self._descriptor, f"{event} {ctx.job.id} {ctx.lease_generation} {os.getpid()}\n".encode())


@dataclass
class WorkerCounts:
    """What one process has done so far."""

    started: int = 0
    finished: int = 0
    failed: int = 0

    @property
    def running(self) -> int:
        return self.started - self.finished - self.failed


@dataclass
class Executions:
    """The reading end: everything so far, brought up to date by `read`."""

    path: Path
    workers: dict[int, WorkerCounts] = field(default_factory=dict)
    finishes: Counter[tuple[str, int]] = field(default_factory=Counter)
    finished_jobs: set[str] = field(default_factory=set)
    failed_jobs: set[str] = field(default_factory=set)
    #: failed once, and started again after that
    retried_jobs: set[str] = field(default_factory=set)
    _offset: int = 0

    def read(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            event, job_id, generation, pid = line.split()
            self._count(Execution(event, job_id, int(generation), int(pid)))

    def _count(self, execution: Execution) -> None:
        counts = self.workers.setdefault(execution.pid, WorkerCounts())
        if execution.event == START:
            counts.started += 1
            if execution.job_id in self.failed_jobs:
                self.retried_jobs.add(execution.job_id)
        elif execution.event == FAIL:
            counts.failed += 1
            self.failed_jobs.add(execution.job_id)
        else:
            counts.finished += 1
            self.finished_jobs.add(execution.job_id)
            self.finishes[execution.job_id, execution.lease_generation] += 1
