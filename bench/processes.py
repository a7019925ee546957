"""Worker processes for the bench."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def workers(count: int, url: str, *arguments: str) -> Iterator[list[int]]:
    """`holdfast worker` processes, as a user starts them; their ids."""
    command = [sys.executable, "-m", "holdfast", "worker", "bench.jobs:app", *arguments]
    environment = {**os.environ, "HOLDFAST_URL": url, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(count)]
    try:
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)
