"""How fast jobs go in, through the typed client: calls are made, checked and encoded inside the measured time."""

from __future__ import annotations

import time

from bench import raw_sql
from bench.databases import Database
from holdfast import App

_BATCH = 5000


def measure(database: Database, scale: float) -> dict[str, float]:
    jobs = max(_BATCH, int(100_000 * scale) // _BATCH * _BATCH)
    singles = max(100, int(2_000 * scale))
    with database.fresh():
        raw_rows, _ = raw_sql.measure(database.dialect, database.url, jobs)
        raw_calls = raw_sql.singles(database.dialect, database.url, singles)
    with database.fresh():
        rows, calls = _holdfast(database, jobs, singles)
    return {
        "batch enqueue, rows/s": rows,
        "raw SQL, rows/s": raw_rows,
        "share of raw": rows / raw_rows,
        "single enqueue, calls/s": calls,
        "raw single insert, calls/s": raw_calls,
    }


def _holdfast(database: Database, jobs: int, singles: int) -> tuple[float, float]:
    app = App(database.url, auto_migrate=True)

    @app.job()
    async def receipt(order_id: int, email: str) -> None: ...

    with app.client() as client:
        client.enqueue(receipt.call(order_id=1, email="a@b.c"))
        began = time.perf_counter()
        for start in range(0, jobs, _BATCH):
            client.enqueue_many(
                [
                    receipt.call(order_id=100_000 + start + number, email="someone.longer@example.com")
                    for number in range(_BATCH)
                ]
            )
        batch_seconds = time.perf_counter() - began
        began = time.perf_counter()
        for number in range(singles):
            client.enqueue(receipt.call(order_id=number, email="someone.longer@example.com"))
        single_seconds = time.perf_counter() - began
    app.close()
    return jobs / batch_seconds, singles / single_seconds
