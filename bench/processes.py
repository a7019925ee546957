"""Worker processes for the bench."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.notes import FOLDER

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def workers(
    count: int,
    url: str,
    *arguments: str,
    app: str = "bench.jobs:app",
    notes: Path | None = None,
    is_quiet: bool = False,
) -> Iterator[list[int]]:
    """`holdfast worker` processes, as a user starts them; their ids.

    `notes`: the folder in which handlers that take notes do so.  `is_quiet`: what they log is written, but not shown.
    """
    command = [sys.executable, "-m", "holdfast", "worker", app, *arguments]
    environment = {**os.environ, "HOLDFAST_URL": url, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    if notes is not None:
        environment[FOLDER] = str(notes)
    quiet = subprocess.DEVNULL if is_quiet else None
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=quiet) for _ in range(count)
    ]
    try:
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)
