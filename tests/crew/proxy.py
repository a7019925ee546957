"""A bad network between a worker and PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

P = TypeVar("P", bound="Proxy")


class Proxy:
    """Forwards bytes; can stall what is open (new connections work), cut it, and delay everything."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.StreamWriter] = set()
        self._flow = asyncio.Event()
        self.delay = 0.0
        self.port = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target)
            flow = self._flow
            self._open |= {writer, there_writer}
            there = asyncio.ensure_future(self._pump(reader, there_writer, flow))
            back = asyncio.ensure_future(self._pump(there_reader, writer, flow))
            await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
            there.cancel()
            back.cancel()
            self._open -= {writer, there_writer}
            there_writer.transport.abort()
        writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, flow: asyncio.Event) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                await asyncio.sleep(self.delay)
                await flow.wait()
                writer.write(data)
                await writer.drain()

    def _do(self, what: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(what)

    def stall(self) -> None:
        """What is open swallows every byte from now on, without a word; what is opened later works."""

        def stall() -> None:
            self._flow.clear()
            self._flow = asyncio.Event()
            self._flow.set()

        self._do(stall)

    def cut(self) -> None:
        """Reset what is open."""

        def cut() -> None:
            for writer in self._open:
                writer.transport.abort()

        self._do(cut)

    def url(self, database_url: str) -> str:
        return database_url.replace(f":{self._target}/", f":{self.port}/")

    def run(self, started: threading.Event) -> None:
        async def listen() -> asyncio.Server:
            self._flow.set()
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            started.set()
            return server

        async def end() -> None:
            server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for writer in self._open:
                writer.transport.abort()
            await asyncio.sleep(0)  # the transports close their sockets

        server = self._loop.run_until_complete(listen())
        self._loop.run_forever()
        self._loop.run_until_complete(end())
        self._loop.close()

    def stop(self) -> None:
        self._do(self._loop.stop)


def proxy_to(port: int) -> contextlib.AbstractContextManager[Proxy]:
    return running(Proxy(port))


@contextlib.contextmanager
def running(proxy: P) -> Iterator[P]:
    started = threading.Event()
    thread = threading.Thread(target=proxy.run, args=(started,), daemon=True)
    thread.start()
    started.wait()
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join()
