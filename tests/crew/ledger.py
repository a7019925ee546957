"""What handlers did, written down so that a SIGKILL a moment later cannot undo it."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.crew.waiting import wait_for


@dataclass(frozen=True, kw_only=True)
class Entry:
    """`event` happened to the attempt that is `generation` of a job, in process `pid`."""

    job_id: str
    generation: int
    event: str
    number: int
    attempt: int
    pid: int


class Ledger:
    """A file of JSON lines; each is appended by one write, so lines of many processes do not mix."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, entry: Entry) -> None:
        line = json.dumps(vars(entry)) + "\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)

    def read(self, event: str | None = None) -> list[Entry]:
        if not self.path.exists():
            return []
        # A reader may see the line that is just being written.
        lines = [line for line in self.path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        entries = [Entry(**json.loads(line)) for line in lines]
        return [entry for entry in entries if event is None or entry.event == event]

    def numbers(self, event: str) -> set[int]:
        return {entry.number for entry in self.read(event)}

    def wait(self, event: str, count: int = 1, *, where: Callable[[Entry], bool] = lambda _: True) -> list[Entry]:
        """Until `event` was written `count` times."""

        def seen() -> list[Entry]:
            found = [entry for entry in self.read(event) if where(entry)]
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
