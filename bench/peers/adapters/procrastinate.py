"""Procrastinate over its psycopg connector."""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from importlib.metadata import version
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.peers.adapters.protocol import BATCH, AsyncAdapter, payload, serve


class ProcrastinateAdapter(AsyncAdapter):
    def __init__(self, url: str, settings: dict[str, Any]) -> None:
        super().__init__(url, settings)
        logging.getLogger("procrastinate").setLevel(logging.WARNING)
        self._app = App(connector=PsycopgConnector(conninfo=url, max_size=settings["pool"]))
        self._is_open = False
        tally = self.tally

        @self._app.task(name="receipt")
        async def receipt(order_id: int, email: str) -> None:
            tally.count()

        @self._app.task(name="stamp")
        async def stamp(sent_ns: int) -> None:
            tally.stamp(sent_ns)

        self._receipt, self._stamp = receipt, stamp

    async def _opened(self) -> App:
        if not self._is_open:
            await self._app.open_async()
            self._is_open = True
        return self._app

    async def aprepare(self) -> dict[str, str]:
        await (await self._opened()).schema_manager.apply_schema_async()
        return {
            "procrastinate": version("procrastinate"),
            "psycopg": version("psycopg"),
            "Python": platform.python_version(),
        }

    async def aenqueue_batch(self, jobs: int) -> float:
        await self._opened()
        began = time.perf_counter()
        for start in range(0, jobs, BATCH):
            await self._receipt.batch_defer_async(
                *(payload(number) for number in range(start, min(start + BATCH, jobs)))
            )
        return time.perf_counter() - began

    async def aenqueue_single(self, jobs: int) -> float:
        await self._opened()
        began = time.perf_counter()
        for number in range(jobs):
            await self._receipt.defer_async(**payload(number))
        return time.perf_counter() - began

    async def aenqueue_stamped(self) -> None:
        await self._opened()
        await self._stamp.defer_async(sent_ns=time.monotonic_ns())

    async def awork(self, stopping: asyncio.Event) -> None:
        app = await self._opened()
        working = asyncio.create_task(app.run_worker_async(install_signal_handlers=False, **self.settings["worker"]))
        await stopping.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await app.close_async()


if __name__ == "__main__":
    serve(ProcrastinateAdapter)
