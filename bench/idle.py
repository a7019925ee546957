"""What a worker costs that has nothing to do, and what it needs when very much waits."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.databases import Database
from bench.processes import workers
from holdfast import App

_BATCH = 5000
_SETTLE_SECONDS = 5.0
_WATCH_SECONDS = 20.0


def measure(database: Database, scale: float) -> dict[str, float]:
    with database.fresh():
        App(database.url, auto_migrate=True).client().migrate()
        with workers(1, database.url) as [pid]:
            time.sleep(_SETTLE_SECONDS)
            before = _cpu_seconds(pid)
            time.sleep(_WATCH_SECONDS)
            share = (_cpu_seconds(pid) - before) / _WATCH_SECONDS
            rss = _memory(pid, "VmHWM")
    waiting = max(_BATCH, int(1_000_000 * scale) // _BATCH * _BATCH)
    with database.fresh():
        _enqueue(database, waiting)
        with workers(1, database.url) as [pid]:
            time.sleep(_SETTLE_SECONDS * 2)
            peak = _memory(pid, "VmHWM")
    return {
        "idle worker, % of a core": share * 100,
        "idle worker, peak MiB": rss,
        f"draining with {waiting:,} waiting, peak MiB": peak,
    }


def _enqueue(database: Database, jobs: int) -> None:
    app = App(database.url, auto_migrate=True)

    @app.job()
    async def receipt(order_id: int, email: str) -> None: ...

    with app.client() as client:
        for start in range(0, jobs, _BATCH):
            client.enqueue_many(
                [receipt.call(order_id=start + number, email="someone.longer@example.com") for number in range(_BATCH)]
            )
    app.close()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int, name: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1024
