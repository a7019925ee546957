"""Litequeue: put, pop and done on SQLite; the loop around them is the user's."""

from __future__ import annotations

import json
import platform
import sqlite3
import threading
import time
from importlib.metadata import version
from typing import Any

from litequeue import LiteQueue

from bench.peers.adapters.protocol import BATCH, Adapter, payload, serve


class LitequeueAdapter(Adapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        self._queue = LiteQueue(url.removeprefix("sqlite:///"), timeout=60)
        # It sets NORMAL; everybody here is to be as durable as the others.
        self._queue.conn.execute("PRAGMA synchronous = FULL")
        self._stopping = threading.Event()

    def prepare(self) -> dict[str, str]:
        return {
            "litequeue": version("litequeue"),
            "SQLite": sqlite3.sqlite_version,
            "Python": platform.python_version(),
        }

    def enqueue_batch(self, jobs: int) -> float:
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            with self._queue.transaction():
                for number in range(start, min(start + BATCH, jobs)):
                    self._queue.put(json.dumps(payload(number)))
        return time.perf_counter() - began

    def enqueue_single(self, jobs: int) -> float:
        began = time.perf_counter()
        for number in range(jobs):
            self._queue.put(json.dumps(payload(number)))
        return time.perf_counter() - began

    def enqueue_stamped(self) -> None:
        self._queue.put(json.dumps({"sent_ns": time.monotonic_ns()}))

    def work(self) -> None:
        while not self._stopping.is_set():
            message = self._queue.pop()
            if message is None:
                time.sleep(self.settings["idle_seconds"])
                continue
            sent = json.loads(message.data)
            if "sent_ns" in sent:
                self.tally.stamp(sent["sent_ns"])
            else:
                self.tally.count()
            self._queue.done(message.message_id)

    def stop(self) -> None:
        self._stopping.set()


if __name__ == "__main__":
    serve(LitequeueAdapter)
