"""Huey on SQLite, with fsync."""

from __future__ import annotations

import logging
import platform
import sqlite3
import threading
import time
from importlib.metadata import version
from typing import Any

from huey import SqliteHuey

from bench.peers.adapters.protocol import Adapter, payload, serve


class HueyAdapter(Adapter):
    """It has no call for many, and no acknowledgement: a task is deleted when it is taken."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        logging.getLogger("huey").setLevel(logging.WARNING)
        path = url.removeprefix("sqlite:///")
        self._huey = SqliteHuey("bench", filename=path, results=False, fsync=True, timeout=60)
        self._stopping = threading.Event()
        tally = self.tally

        @self._huey.task(name="receipt")
        def receipt(order_id: int, email: str) -> None:
            tally.count()

        @self._huey.task(name="stamp")
        def stamp(sent_ns: int) -> None:
            tally.stamp(sent_ns)

        self._receipt, self._stamp = receipt, stamp

    def prepare(self) -> dict[str, str]:
        return {"huey": version("huey"), "SQLite": sqlite3.sqlite_version, "Python": platform.python_version()}

    def enqueue_batch(self, jobs: int) -> float:
        return self.enqueue_single(jobs)

    def enqueue_single(self, jobs: int) -> float:
        began = time.perf_counter()
        for number in range(jobs):
            self._receipt(**payload(number))
        return time.perf_counter() - began

    def enqueue_stamped(self) -> None:
        self._stamp(sent_ns=time.monotonic_ns())

    def work(self) -> None:
        consumer = self._huey.create_consumer(**self.settings["consumer"])
        consumer.start()
        self._stopping.wait()
        consumer.stop(graceful=True)

    def stop(self) -> None:
        self._stopping.set()


if __name__ == "__main__":
    serve(HueyAdapter)
