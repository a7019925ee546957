"""Honker on SQLite, as its documentation says; there was no wheel to try it with where this was written."""

from __future__ import annotations

import os
import platform
import threading
import time
from importlib.metadata import version
from typing import Any

import honker

from bench.peers.adapters.protocol import BATCH, Adapter, payload, serve


class HonkerAdapter(Adapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        self._database = honker.open(url.removeprefix("sqlite:///"))
        self._queue = self._database.queue("bench")
        self._stopping = threading.Event()

    def prepare(self) -> dict[str, str]:
        return {"honker": version("honker"), "Python": platform.python_version()}

    def enqueue_batch(self, jobs: int) -> float:
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            with self._database.transaction() as transaction:
                for number in range(start, min(start + BATCH, jobs)):
                    self._queue.enqueue(payload(number), tx=transaction)
        return time.perf_counter() - began

    def enqueue_single(self, jobs: int) -> float:
        began = time.perf_counter()
        for number in range(jobs):
            self._queue.enqueue(payload(number))
        return time.perf_counter() - began

    def enqueue_stamped(self) -> None:
        self._queue.enqueue({"sent_ns": time.monotonic_ns()})

    def work(self) -> None:
        worker = f"bench-{os.getpid()}"
        while not self._stopping.is_set():
            jobs = self._queue.claim_batch(worker, self.settings["batch"])
            for job in jobs:
                sent = job.payload
                if "sent_ns" in sent:
                    self.tally.stamp(sent["sent_ns"])
                else:
                    self.tally.count()
            if jobs:
                self._queue.ack_batch([job.id for job in jobs], worker)
            else:
                time.sleep(self.settings["idle_seconds"])

    def stop(self) -> None:
        self._stopping.set()


if __name__ == "__main__":
    serve(HonkerAdapter)
