"""How fast no-op jobs come out: one and two worker processes, history kept, every completion fenced and acknowledged.

Measured by the database's own times, from the first claim to the last completion.
"""

from __future__ import annotations

import time
from typing import Any

from bench import raw_sql
from bench.databases import Database
from bench.processes import workers


def measure(database: Database, scale: float) -> dict[str, float]:
    jobs = max(1000, int(100_000 * scale))
    _, raw = raw_sql.measure(database.dialect, database.url, jobs)
    figures = {"raw SQL loop, one client, jobs/s": raw}
    for count in (1, 2):
        rate = _drain(database, jobs, count)
        figures[f"{count} worker process{'es' if count > 1 else ''}, jobs/s"] = rate
        figures[f"share of raw, {count}"] = rate / raw
    return figures


def _drain(database: Database, jobs: int, processes: int) -> float:
    from holdfast import App

    app = App(database.url, auto_migrate=True)

    @app.job()
    async def receipt(order_id: int, email: str) -> None: ...

    with app.client() as client:
        first = client.enqueue(receipt.call(order_id=1, email="x"), delay=86_400)
        for start in range(0, jobs, 5000):
            size = min(5000, jobs - start)
            client.enqueue_many(
                [receipt.call(order_id=100_000 + n, email="someone.longer@example.com") for n in range(size)]
            )
        last_seq = client.get_job(first.id).seq + jobs
        with workers(processes, database.url):
            while _unfinished(client, last_seq):
                time.sleep(0.05)
        return jobs / _seconds(client, first.id)


def _unfinished(client: Any, last_seq: int) -> bool:
    return any(
        job.seq <= last_seq and job.queue == "default" and job.scheduled_at == job.created_at
        for job in client.list_jobs(status=["pending", "running"], limit=2, newest_first=True).items
    )


def _seconds(client: Any, first_id: str) -> float:
    """From the first claim to the last completion, over the jobs behind the marker."""
    marker = client.get_job(first_id).seq
    started, finished, cursor = None, None, None
    while True:
        page = client.list_jobs(status="completed", limit=1000, cursor=cursor, newest_first=True)
        for job in page.items:
            if job.seq < marker:
                page = page.__class__([], None)
                break
            began = job.last_attempt_at
            started = began if started is None else min(started, began)
            finished = job.finished_at if finished is None else max(finished, job.finished_at)
        cursor = page.next_cursor
        if cursor is None:
            return (finished - started).total_seconds()
