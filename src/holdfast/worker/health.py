"""Three questions over HTTP: /live, /ready, /leader.

Just enough HTTP/1.1 for probes: one request per connection, a short head, a few connections at once and a few seconds
for each, so that no client can keep the worker from its work.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

from holdfast.errors import WorkerCannotWork
from holdfast.model.payload import to_json
from holdfast.worker.vitals import TakeVitals, Vitals

_log = logging.getLogger("holdfast.health")

_HEAD_BYTES = 8192
_CONNECTIONS = 64
_PATIENCE_SECONDS = 3.0


@asynccontextmanager
async def serve_health(host: str, port: int | None, take_vitals: TakeVitals) -> AsyncIterator[None]:
    """Answer as long as the block runs; without a port there is nothing to answer."""
    if port is None:
        yield
        return
    door = _Door(take_vitals)
    try:
        server = await asyncio.start_server(door.receive, host, port, limit=_HEAD_BYTES)
    except (OSError, OverflowError) as error:
        raise WorkerCannotWork(
            f"cannot answer health questions on {host}:{port}: {error}; "
            "choose another --health-port or --health-host (port 0: any that is free)"
        ) from error
    shown_host, shown_port = server.sockets[0].getsockname()[:2]
    address = f"[{shown_host}]:{shown_port}" if ":" in shown_host else f"{shown_host}:{shown_port}"
    _log.info("health at http://%s/live, /ready and /leader", address)
    try:
        yield
    finally:
        server.close()
        await door.close()


class _Door:
    def __init__(self, take_vitals: TakeVitals) -> None:
        self._take_vitals = take_vitals
        self._visits: set[asyncio.Task[None]] = set()

    def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._visits) >= _CONNECTIONS:
            writer.transport.abort()
            return
        visit = asyncio.create_task(self._attend(reader, writer), name="holdfast-health")
        self._visits.add(visit)
        visit.add_done_callback(self._visits.discard)

    async def close(self) -> None:
        for visit in self._visits:
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                writer.write(self._response(await _head(reader)))
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, EOFError, TimeoutError):
            pass  # the client's affair
        except Exception:  # noqa: BLE001 - whatever it is, it is not worth the worker
            _log.exception("a health question could not be answered")
        finally:
            with suppress(OSError):
                writer.transport.abort()

    def _response(self, head: bytes | None) -> bytes:
        if head is None:
            return _encoded(HTTPStatus.BAD_REQUEST, {"error": f"the head is longer than {_HEAD_BYTES} bytes"})
        method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
        target, _, version = rest.rpartition(b" ")
        if not target or not version.startswith(b"HTTP/1."):
            return _encoded(HTTPStatus.BAD_REQUEST, {"error": "this is not HTTP/1.1"})
        if method not in {b"GET", b"HEAD"}:
            return _encoded(HTTPStatus.METHOD_NOT_ALLOWED, {"error": "GET or HEAD"}, "Allow: GET, HEAD\r\n")
        status, body = _answer(target.partition(b"?")[0], self._take_vitals())
        return _encoded(status, body, has_body=method == b"GET")


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return None


def _answer(path: bytes, vitals: Vitals) -> tuple[HTTPStatus, dict[str, object]]:
    answers = {b"/live": vitals.is_live, b"/ready": vitals.is_ready, b"/leader": vitals.is_leader}
    if path not in answers:
        return HTTPStatus.NOT_FOUND, {"error": "ask for /live, /ready or /leader"}
    status = HTTPStatus.OK if answers[path] else HTTPStatus.SERVICE_UNAVAILABLE
    return status, {
        "live": vitals.is_live,
        "ready": vitals.is_ready,
        "leader": vitals.is_leader,
        "summary": vitals.summary,
    }


def _encoded(status: HTTPStatus, body: dict[str, object], headers: str = "", *, has_body: bool = True) -> bytes:
    content = to_json(body) + b"\n"
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nCache-Control: no-store\r\nConnection: close\r\n{headers}\r\n"
    )
    return head.encode("ascii") + (content if has_body else b"")
