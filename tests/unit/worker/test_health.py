"""The probes' door: what it answers, and what it puts up with."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from holdfast.errors import WorkerCannotWork
from holdfast.worker import health
from holdfast.worker.health import serve_health
from holdfast.worker.vitals import Vitals

WELL = Vitals(is_live=True, is_ready=True, is_leader=False, summary="as usual")


@asynccontextmanager
async def _serving(caplog: pytest.LogCaptureFixture, vitals: Vitals = WELL) -> AsyncIterator[int]:
    with caplog.at_level(logging.INFO, "holdfast.health"):
        async with serve_health("127.0.0.1", 0, lambda: vitals):
            found = re.search(r"http://127\.0\.0\.1:(\d+)/live", caplog.text)
            assert found is not None
            yield int(found[1])


async def _ask(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    return int(first.split()[1]), dict(line.split(": ", 1) for line in lines), body


async def test_answers(caplog: pytest.LogCaptureFixture) -> None:
    """200 or 503, with all three answers as JSON in the body; a query string does not matter; HEAD has no body."""
    async with _serving(caplog) as port:
        status, headers, body = await _ask(port, b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (status, headers["Content-Type"], headers["Connection"]) == (200, "application/json", "close")
        assert int(headers["Content-Length"]) == len(body)
        assert json.loads(body) == {"live": True, "ready": True, "leader": False, "summary": "as usual"}
        assert (await _ask(port, b"GET /ready?verbose=1 HTTP/1.0\r\n\r\n"))[0] == 200
        assert (await _ask(port, b"GET /leader HTTP/1.1\r\n\r\n"))[0] == 503
        status, headers, body = await _ask(port, b"HEAD /live HTTP/1.1\r\n\r\n")
        assert (status, body) == (200, b"")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /live/ HTTP/1.1\r\n\r\n", 404),
        (b"POST /live HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /live\r\n\r\n", 400),
        (b"GET /live HTTP/2.0\r\n\r\n", 400),
        (b"\xff\xfe /live HTTP/1.1\r\n\r\n", 405),
        (b"GET /live HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n", 400),
    ],
)
async def test_garbage_is_answered(caplog: pytest.LogCaptureFixture, request_bytes: bytes, status: int) -> None:
    """With the code that fits, and the next visitor is served as if nothing had been."""
    async with _serving(caplog) as port:
        assert (await _ask(port, request_bytes))[0] == status
        assert (await _ask(port, b"GET /live HTTP/1.1\r\n\r\n"))[0] == 200


async def test_slow_clients_are_sent_away(caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    """Who does not say what he wants is cut off after a while; who comes when too many are there, at once."""
    monkeypatch.setattr(health, "_PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(health, "_CONNECTIONS", 5)
    async with _serving(caplog) as port:
        visitors = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        for _, writer in visitors:
            writer.write(b"GET /li")
        for reader, writer in visitors:
            with suppress(ConnectionResetError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
            writer.close()
        assert (await _ask(port, b"GET /live HTTP/1.1\r\n\r\n"))[0] == 200


async def test_a_visitor_does_not_keep_the_server(caplog: pytest.LogCaptureFixture) -> None:
    """Closing does not wait for somebody who says nothing."""
    async with asyncio.timeout(2):
        async with _serving(caplog) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.sleep(0.05)
        writer.close()


async def test_an_error_is_not_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    """Vitals that cannot be taken are logged; the worker does not hear of it."""

    def fail() -> Vitals:
        raise ZeroDivisionError

    with caplog.at_level(logging.INFO, "holdfast.health"):
        async with serve_health("127.0.0.1", 0, fail):
            port = int(caplog.text.partition("127.0.0.1:")[2].partition("/")[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /live HTTP/1.1\r\n\r\n")
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
    assert "could not be answered" in caplog.text


async def test_a_taken_port_is_named() -> None:
    """With the way out."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(WorkerCannotWork, match=rf"127\.0\.0\.1:{port}: .*choose another --health-port"):
            async with serve_health("127.0.0.1", port, lambda: WELL):
                pass


async def test_without_a_port_nobody_is_asked() -> None:
    """The block runs all the same."""
    async with serve_health("nowhere.invalid", None, lambda: WELL):
        pass
