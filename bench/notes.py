"""What a worker process writes down while it is measured, in a file of its own: starts of jobs, and claims.

Written out when the process ends: a write for every job would be in what is measured.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: where worker processes of the bench find their folder
FOLDER = "HOLDFAST_BENCH_NOTES"


@dataclass(frozen=True)
class Note:
    """Instants are those of `time.monotonic_ns`, which is one clock for all processes of a machine."""

    pid: int
    what: str
    began_ns: int
    ended_ns: int

    @property
    def milliseconds(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e6


class NoteTaker:
    def __init__(self) -> None:
        self._file = (Path(os.environ[FOLDER]) / str(os.getpid())).open("w", encoding="ascii", buffering=1 << 20)
        atexit.register(self._file.close)

    def take(self, what: str, began_ns: int) -> None:
        """From then until now."""
        self._file.write(f"{what} {began_ns} {time.monotonic_ns()}\n")


def read_notes(folder: Path) -> Iterator[Note]:
    """Of all processes that have ended."""
    for path in folder.iterdir():
        for line in path.read_text(encoding="ascii").splitlines():
            what, began_ns, ended_ns = line.split()
            yield Note(int(path.name), what, int(began_ns), int(ended_ns))


def percentile(values: list[float], share: float) -> float:
    """The value below which so much of them lies."""
    if not values:
        raise ValueError("nothing was measured")
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]
