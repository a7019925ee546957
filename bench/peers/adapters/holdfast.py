"""Holdfast, as its users run it: the typed client, and a worker process that is stopped by a signal."""

from __future__ import annotations

import os
import platform
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any

from bench.peers.adapters.protocol import BATCH, Adapter, payload, serve
from holdfast import App, Context, Event


async def passing(_: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """A middleware that does nothing."""
    return await call_next()


class HoldfastAdapter(Adapter):
    """With `dressed`, everything is around the handler that may be: context, timeout, middleware and events."""

    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        self._app = App(url, name="bench", auto_migrate=True)
        tally = self.tally
        told: Counter[type[Event]] = Counter()
        if settings.get("dressed"):

            @self._app.job(timeout=60, middleware=[passing])
            async def receipt(_: Context, order_id: int, email: str) -> None:
                tally.count()

            @self._app.on_event
            def count(event: Event) -> None:
                told[type(event)] += 1

        else:

            @self._app.job(name="receipt")
            async def plain_receipt(order_id: int, email: str) -> None:
                tally.count()

        @self._app.job()
        async def stamp(sent_ns: int) -> None:
            tally.stamp(sent_ns)

        self._receipt = self._app.job_types["receipt"]
        self._stamp = stamp
        self._client = self._app.client()

    def prepare(self) -> dict[str, str]:
        self._client.migrate()
        return {
            "holdfast": version("holdfast"),
            "Python": platform.python_version(),
            **({} if self.url.startswith("sqlite") else {"psycopg": version("psycopg")}),
        }

    def enqueue_batch(self, jobs: int) -> float:
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            self._client.enqueue_many(
                [self._receipt.call(**payload(number)) for number in range(start, min(start + BATCH, jobs))]
            )
        return time.perf_counter() - began

    def enqueue_single(self, jobs: int) -> float:
        began = time.perf_counter()
        for number in range(jobs):
            self._client.enqueue(self._receipt.call(**payload(number)))
        return time.perf_counter() - began

    def enqueue_stamped(self) -> None:
        self._client.enqueue(self._stamp.call(sent_ns=time.monotonic_ns()))

    def work(self) -> None:
        self._app.run_worker(**self.settings.get("worker", {}))

    def stop(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def close(self) -> None:
        self._app.close()


if __name__ == "__main__":
    serve(HoldfastAdapter)
