"""Oban for Python, on uvloop as its own command line is."""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from importlib.metadata import version
from typing import Any

import uvloop
from oban import Oban, worker
from oban.schema import install

from bench.peers.adapters.protocol import BATCH, AsyncAdapter, Tally, payload, serve

TALLY = Tally()


class _Receipt:
    async def process(self, _: Any) -> None:
        TALLY.count()


class _Stamp:
    async def process(self, job: Any) -> None:
        TALLY.stamp(job.args["sent_ns"])


# What the decorator adds is not in the types of the classes.
Receipt: Any = worker(queue="default")(_Receipt)
Stamp: Any = worker(queue="default")(_Stamp)


class ObanAdapter(AsyncAdapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        logging.getLogger("oban").setLevel(logging.WARNING)
        self.tally = TALLY
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._pool: Any = None
        self._client: Oban | None = None

    async def _pooled(self) -> Any:
        if self._pool is None:
            self._pool = await Oban.create_pool(self.url, min_size=2, max_size=self.settings["pool"])
        return self._pool

    async def _connected(self) -> Oban:
        if self._client is None:
            self._client = Oban(pool=await self._pooled())
            await self._client.start()
        return self._client

    async def aprepare(self) -> dict[str, str]:
        await install(await self._pooled())
        return {
            "oban": version("oban"),
            "psycopg": version("psycopg"),
            "uvloop": version("uvloop"),
            "Python": platform.python_version(),
        }

    async def aenqueue_batch(self, jobs: int) -> float:
        oban = await self._connected()
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            await oban.enqueue_many(Receipt.new(payload(number)) for number in range(start, min(start + BATCH, jobs)))
        return time.perf_counter() - began

    async def aenqueue_single(self, jobs: int) -> float:
        oban = await self._connected()
        began = time.perf_counter()
        for number in range(jobs):
            await oban.enqueue(Receipt.new(payload(number)))
        return time.perf_counter() - began

    async def aenqueue_stamped(self) -> None:
        oban = await self._connected()
        await oban.enqueue(Stamp.new({"sent_ns": time.monotonic_ns()}))

    async def awork(self, stopping: asyncio.Event) -> None:
        async with Oban(pool=await self._pooled(), queues={"default": self.settings["limit"]}):
            await stopping.wait()
        await self._pool.close()


if __name__ == "__main__":
    serve(ObanAdapter)
