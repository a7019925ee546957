"""How fast no-op jobs come out: one and two worker processes, history kept, every completion fenced and acknowledged.

Measured by the database's own times, from the first claim to the last completion.
"""

from __future__ import annotations

import time

from bench import raw_sql
from bench.databases import Database
from bench.ledger import open_ledger
from bench.processes import workers
from holdfast import App

_BATCH = 5000


def measure(database: Database, scale: float) -> dict[str, float]:
    jobs = max(_BATCH, int(100_000 * scale) // _BATCH * _BATCH)
    with database.fresh():
        _, raw = raw_sql.measure(database.dialect, database.url, jobs)
    figures = {"raw SQL loop, one client, jobs/s": raw}
    for count in (1, 2):
        with database.fresh():
            rate = jobs / _drain(database, jobs, count)
        figures[f"{count} worker process{'es' if count > 1 else ''}, jobs/s"] = rate
        figures[f"share of raw, {count}"] = rate / raw
    with database.fresh():
        rate = jobs / _drain(database, jobs, 1, is_dressed=True)
    figures["1 worker process; context, timeout, middleware and events; jobs/s"] = rate
    figures["share of raw, dressed"] = rate / raw
    return figures


def _drain(database: Database, jobs: int, processes: int, *, is_dressed: bool = False) -> float:
    app = App(database.url, auto_migrate=True)

    @app.job(name="dressed_receipt" if is_dressed else "receipt", timeout=60 if is_dressed else None)
    async def receipt(order_id: int, email: str) -> None: ...

    with app.client() as client:
        for start in range(0, jobs, _BATCH):
            client.enqueue_many(
                [receipt.call(order_id=start + number, email="someone.longer@example.com") for number in range(_BATCH)]
            )
    app.close()
    served = "bench.dressed_jobs:app" if is_dressed else "bench.jobs:app"
    with workers(processes, database.url, app=served), open_ledger(database) as ledger:
        while not ledger.is_over():
            time.sleep(0.1)
        return ledger.seconds(jobs)
