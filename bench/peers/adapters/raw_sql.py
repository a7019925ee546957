"""What the database itself can do: the statements of `bench.raw_sql`, without fence, retry or types."""

from __future__ import annotations

import platform
import threading
from importlib.metadata import version
from typing import Any

from bench import raw_sql
from bench.peers.adapters.protocol import BATCH, Adapter, serve


class RawSqlAdapter(Adapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        self._dialect = "sqlite" if url.startswith("sqlite") else "postgres"
        self._stopping = threading.Event()

    def prepare(self) -> dict[str, str]:
        raw_sql.create(self._dialect, self.url)
        return {"Python": platform.python_version(), "psycopg": version("psycopg")}

    def enqueue_batch(self, jobs: int) -> float:
        return raw_sql.insert(self._dialect, self.url, jobs, BATCH)

    def enqueue_single(self, jobs: int) -> float:
        return jobs / raw_sql.singles(self._dialect, self.url, jobs)

    def enqueue_stamped(self) -> None:
        raise NotImplementedError("the raw loop has no handlers; see `dev.py bench latency`")

    def work(self) -> None:
        for completed in raw_sql.claims(self._dialect, self.url):
            self.tally.count_many(completed)
            if self._stopping.is_set():
                return
        # Whoever finds nothing left waits for the end of the others.
        self._stopping.wait()

    def stop(self) -> None:
        self._stopping.set()


if __name__ == "__main__":
    serve(RawSqlAdapter)
