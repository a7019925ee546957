"""What handlers did, written down so that a SIGKILL a moment later cannot undo it."""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from holdfast import Context, SyncContext
from tests.crew.json_lines import append_line, whole_lines
from tests.crew.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`event` happened to the attempt that is `generation` of a job, in process `pid`.

    `at` is by the monotonic clock, which is the same for all processes of the machine.
    """

    job_id: str
    generation: int
    event: str
    number: int
    attempt: int
    pid: int
    at: float = 0.0


class Ledger:
    """A file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, ctx: Context | SyncContext, number: int, event: str) -> None:
        """By a handler, of the job with this number."""
        entry = Entry(
            job_id=ctx.job.id,
            generation=ctx.lease_generation,
            event=event,
            number=number,
            attempt=ctx.attempt,
            pid=os.getpid(),
            at=time.monotonic(),
        )
        append_line(self.path, vars(entry))

    def read(self, event: str | None = None) -> list[Entry]:
        if not self.path.exists():
            return []
        entries = [Entry(**values) for values in whole_lines(self.path)]
        return [entry for entry in entries if event is None or entry.event == event]

    def numbers(self, event: str) -> set[int]:
        return {entry.number for entry in self.read(event)}

    def wait(self, event: str, count: int = 1, **wanted: int) -> list[Entry]:
        """Until `event` was written `count` times, with these values of an entry: `pid=worker.pid`."""

        def seen() -> list[Entry]:
            found = [entry for entry in self.read(event) if wanted.items() <= vars(entry).items()]
            return found if len(found) >= count else []

        return wait_for(seen, f"{count} × {event!r} in the ledger")

    def started_twice(self) -> list[tuple[str, int]]:
        """(job, generation) pairs that were delivered more than once: there must be none."""
        deliveries = Counter((entry.job_id, entry.generation) for entry in self.read("started"))
        return [key for key, count in deliveries.items() if count > 1]

    def finished_twice(self) -> list[tuple[str, int]]:
        """(job, generation) pairs that finished more than once: there must be none."""
        endings = Counter((entry.job_id, entry.generation) for entry in self.read("finished"))
        return [key for key, count in endings.items() if count > 1]
