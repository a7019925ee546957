"""From the enqueue call to the handler's first line, in another process, under a steady 2,000 jobs a second."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench.databases import Database
from bench.notes import percentile, read_notes
from bench.processes import workers
from bench.steady_load import await_all_done, steady_load

APP = "bench.stamp_jobs:app"
#: until the worker is there and warm
_WARM_SECONDS = 3.0


def measure(database: Database, scale: float) -> dict[str, float]:
    seconds = max(2.0, 20 * scale)
    with tempfile.TemporaryDirectory() as folder, database.fresh():
        with steady_load(database.url) as load, workers(1, database.url, app=APP, notes=Path(folder)):
            load(_WARM_SECONDS)
            began_ns = time.monotonic_ns()
            pace = load(seconds)
            await_all_done(database.dialect, database.url)
        waited = [
            note.milliseconds for note in read_notes(Path(folder)) if note.what == "start" and note.began_ns >= began_ns
        ]
    return {"enqueued, jobs/s": pace, "p50, ms": percentile(waited, 0.5), "p99, ms": percentile(waited, 0.99)}
