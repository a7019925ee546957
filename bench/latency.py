"""From the enqueue call to the handler's first line, on an idle system, in another process."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from bench import raw_sql
from bench.databases import Database
from bench.processes import workers
from holdfast import App


def measure(database: Database, scale: float) -> dict[str, float]:
    samples = max(20, int(200 * scale))
    with database.fresh():
        figures = _measure(database, samples)
    if database.dialect == "postgres":
        with database.fresh():
            figures["raw SQL, p50, ms"] = raw_sql.postgres_latency(database.url, samples)
    return figures


def _measure(database: Database, samples: int) -> dict[str, float]:
    app = App(database.url, auto_migrate=True)

    @app.job(queue="stamp")
    async def stamp(sent_ns: int, path: str) -> None: ...

    with tempfile.TemporaryDirectory() as folder, app.client() as client:
        notes = Path(folder) / "notes"
        notes.touch()
        with workers(1, database.url, "--queues", "stamp"):
            client.enqueue(stamp.call(sent_ns=0, path=str(notes)))
            _await_lines(notes, 1)
            for number in range(samples):
                time.sleep(0.02)
                client.enqueue(stamp.call(sent_ns=time.monotonic_ns(), path=str(notes)))
                _await_lines(notes, number + 2)
        app.close()
        measured = sorted(int(line) / 1e6 for line in notes.read_text(encoding="ascii").splitlines()[1:])
    return {"p50, ms": measured[len(measured) // 2], "p99, ms": measured[int(len(measured) * 0.99)]}


def _await_lines(notes: Path, count: int) -> None:
    deadline = time.monotonic() + 30
    while len(notes.read_text(encoding="ascii").splitlines()) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"job {count} did not start within 30 s")
        time.sleep(0.002)
