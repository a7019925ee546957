"""What the handlers themselves did: a file beside the database, one line per start, finish and failure.

The ledger sets this against the database, so a job that ran twice or not at all cannot hide behind a good row.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from holdfast.worker import Context, SyncContext

#: the file, in the directory of the demo
EXECUTIONS = "executions.log"

START = "start"
FINISH = "finish"
FAIL = "fail"


async def awitnessed(ctx: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """Middleware around async handlers."""
    with ctx.state.log.execution(ctx):
        return await call_next()


def witnessed(ctx: SyncContext, call_next: Callable[[], Any]) -> Any:
    """The same around the others."""
    with ctx.state.log.execution(ctx):
        return call_next()


class Execution(NamedTuple):
    """A line of the file."""

    event: str
    type_name: str
    job_id: str
    lease_generation: int
    pid: int


@dataclass(slots=True)
class Delivery:
    """One run of a handler, by the numbers of its first and its last line."""

    type_name: str
    pid: int
    began: int
    ended: int | None = None
    is_finished: bool = False


class ExecutionLog:
    """The writing end; every worker process appends to the same file."""

    def __init__(self, path: Path) -> None:
        # One write() on O_APPEND is one line, whoever else writes; and the kernel keeps it when the process is killed.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)

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
        line = f"{event} {ctx.job.type_name} {ctx.job.id} {ctx.lease_generation} {os.getpid()}\n"
        os.write(self._descriptor, line.encode())


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
    """The reading end: everything so far, brought up to date by `read`.

    Under (job, lease generation): who ran it from which line of the file to which, and how often it finished. Everybody
    appends to one file, so of two lines the earlier one was written earlier.
    """

    path: Path
    workers: dict[int, WorkerCounts] = field(default_factory=dict)
    deliveries: dict[tuple[str, int], Delivery] = field(default_factory=dict)
    finishes: Counter[tuple[str, int]] = field(default_factory=Counter)
    first_start_lines: dict[str, int] = field(default_factory=dict)
    #: jobs by type
    finished_jobs: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    failed_jobs: set[str] = field(default_factory=set)
    #: failed once, and started again after that
    retried_jobs: set[str] = field(default_factory=set)
    lines: int = 0
    _offset: int = 0

    @property
    def finished(self) -> int:
        return sum(map(len, self.finished_jobs.values()))

    def is_running(self, type_name: str, pid: int) -> bool:
        """Whether a process is in the middle of such a job."""
        newest_first = reversed(self.deliveries.values())
        return any(each.ended is None and each.pid == pid and each.type_name == type_name for each in newest_first)

    def read(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.decode().splitlines():
            event, type_name, job_id, generation, pid = line.split()
            self._count(Execution(event, type_name, job_id, int(generation), int(pid)))
            self.lines += 1

    def _count(self, execution: Execution) -> None:
        counts = self.workers.setdefault(execution.pid, WorkerCounts())
        job_id = execution.job_id
        delivery = (job_id, execution.lease_generation)
        if execution.event == START:
            counts.started += 1
            self.deliveries[delivery] = Delivery(execution.type_name, execution.pid, self.lines)
            self.first_start_lines.setdefault(job_id, self.lines)
            if job_id in self.failed_jobs:
                self.retried_jobs.add(job_id)
            return
        if delivery in self.deliveries:
            self.deliveries[delivery].ended = self.lines
            self.deliveries[delivery].is_finished = execution.event == FINISH
        if execution.event == FAIL:
            counts.failed += 1
            self.failed_jobs.add(job_id)
        else:
            counts.finished += 1
            self.finished_jobs[execution.type_name].add(job_id)
            self.finishes[delivery] += 1
