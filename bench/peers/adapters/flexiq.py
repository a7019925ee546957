"""FlexiQ: a Rust core with Python tasks, on PostgreSQL or SQLite."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import version
from typing import Any

from flexiq import Queue

from bench.peers.adapters.protocol import BATCH, Adapter, payload, serve


class FlexiqAdapter(Adapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        os.environ["FLEXIQ_LOG_LEVEL"] = "WARNING"
        place = (
            {"db_path": url.removeprefix("sqlite:///")}
            if url.startswith("sqlite")
            else {"backend": "postgres", "db_url": url}
        )
        self._queue = Queue(**place, **settings["queue"])
        tally = self.tally

        @self._queue.task(name="receipt")
        def receipt(order_id: int, email: str) -> None:
            tally.count()

        @self._queue.task(name="stamp")
        def stamp(sent_ns: int) -> None:
            tally.stamp(sent_ns)

        self._receipt, self._stamp = receipt, stamp

    def prepare(self) -> dict[str, str]:
        return {"flexiq": version("flexiq"), "Python": platform.python_version()}

    def enqueue_batch(self, jobs: int) -> float:
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            calls = [payload(number) for number in range(start, min(start + BATCH, jobs))]
            self._queue.enqueue_many("receipt", [()] * len(calls), calls)
        return time.perf_counter() - began

    def enqueue_single(self, jobs: int) -> float:
        began = time.perf_counter()
        for number in range(jobs):
            self._receipt.delay(**payload(number))
        return time.perf_counter() - began

    def enqueue_stamped(self) -> None:
        self._stamp.delay(sent_ns=time.monotonic_ns())

    def work(self) -> None:
        self._queue.run_worker()

    def stop(self) -> None:
        self._queue.shutdown()


if __name__ == "__main__":
    serve(FlexiqAdapter)
