"""PgQueuer over an asyncpg pool, on uvloop as its own command line is."""

from __future__ import annotations

import asyncio
import json
import logging
import platform
import time
from importlib.metadata import version
from typing import Any

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries

from bench.peers.adapters.protocol import BATCH, AsyncAdapter, payload, serve


class PgQueuerAdapter(AsyncAdapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._pool: asyncpg.Pool | None = None
        logging.getLogger("pgqueuer").setLevel(logging.WARNING)

    async def _queries(self) -> Queries:
        return Queries.from_asyncpg_pool(await self._connected())

    async def _connected(self) -> asyncpg.Pool:
        if self._pool is None:
            self._pool = await asyncpg.create_pool(self.url, min_size=2, max_size=self.settings["pool"])
        return self._pool

    async def aprepare(self) -> dict[str, str]:
        await (await self._queries()).install()
        return {
            "pgqueuer": version("pgqueuer"),
            "asyncpg": version("asyncpg"),
            "uvloop": version("uvloop"),
            "Python": platform.python_version(),
        }

    async def aenqueue_batch(self, jobs: int) -> float:
        queries = await self._queries()
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            numbers = range(start, min(start + BATCH, jobs))
            payloads: list[bytes | None] = [json.dumps(payload(number)).encode() for number in numbers]
            await queries.enqueue(["receipt"] * len(payloads), payloads, [0] * len(payloads))
        return time.perf_counter() - began

    async def aenqueue_single(self, jobs: int) -> float:
        queries = await self._queries()
        began = time.perf_counter()
        for number in range(jobs):
            await queries.enqueue("receipt", json.dumps(payload(number)).encode())
        return time.perf_counter() - began

    async def aenqueue_stamped(self) -> None:
        queries = await self._queries()
        await queries.enqueue("stamp", b"%d" % time.monotonic_ns())

    async def awork(self, stopping: asyncio.Event) -> None:
        tally = self.tally
        queuer = PgQueuer.from_asyncpg_pool(await self._connected())

        @queuer.entrypoint("receipt")
        async def receipt(_: Any) -> None:
            tally.count()

        @queuer.entrypoint("stamp")
        async def stamp(job: Any) -> None:
            tally.stamp(int(job.payload))

        running = asyncio.create_task(queuer.run(batch_size=self.settings["batch_size"]))
        await stopping.wait()
        queuer.shutdown.set()
        await running


if __name__ == "__main__":
    serve(PgQueuerAdapter)
