"""Awa: a Rust core with Python handlers, on its queue storage."""

from __future__ import annotations

import asyncio
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import awa

from bench.peers.adapters.protocol import BATCH, AsyncAdapter, payload, serve


@dataclass
class Receipt:
    order_id: int
    email: str


@dataclass
class Stamp:
    sent_ns: int


class AwaAdapter(AsyncAdapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        self._client: awa.AsyncClient | None = None

    def _connected(self) -> awa.AsyncClient:
        if self._client is None:
            self._client = awa.AsyncClient(self.url)
        return self._client

    async def aprepare(self) -> dict[str, str]:
        client = self._connected()
        await client.migrate()
        # The first migration leaves the storage of older versions in use.
        await client.install_queue_storage(schema="awa")
        return {"awa-pg": version("awa-pg"), "Python": platform.python_version()}

    async def aenqueue_batch(self, jobs: int) -> float:
        client = self._connected()
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            await client.enqueue_many_copy(
                [Receipt(**payload(number)) for number in range(start, min(start + BATCH, jobs))]
            )
        return time.perf_counter() - began

    async def aenqueue_single(self, jobs: int) -> float:
        client = self._connected()
        began = time.perf_counter()
        for number in range(jobs):
            await client.insert(Receipt(**payload(number)))
        return time.perf_counter() - began

    async def aenqueue_stamped(self) -> None:
        await self._connected().insert(Stamp(time.monotonic_ns()))

    async def awork(self, stopping: asyncio.Event) -> None:
        tally = self.tally
        client = self._connected()

        @client.task(Receipt)
        async def receipt(_: Any) -> None:
            tally.count()

        @client.task(Stamp)
        async def stamp(job: Any) -> None:
            tally.stamp(job.args.sent_ns)

        await client.start([{"name": "default", **self.settings["queue"]}], **self.settings["runtime"])
        await stopping.wait()
        await client.shutdown()
        await client.close()


if __name__ == "__main__":
    serve(AwaAdapter)
