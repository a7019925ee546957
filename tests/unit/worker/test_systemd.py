"""What systemd is told, over a real socket."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.worker.systemd import ServiceManager
from holdfast.worker.vitals import Vitals


@pytest.fixture(params=["path", "abstract"])
def listener(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    """The service manager's end, of both kinds."""
    name = f"@holdfast-{uuid.uuid4().hex}" if request.param == "abstract" else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind("\0" + name[1:] if name.startswith("@") else name)
        bound.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield bound


async def _told(listener: socket.socket, count: int) -> list[str]:
    return [(await asyncio.to_thread(listener.recv, 4096)).decode() for _ in range(count)]


async def test_ready_status_stopping(listener: socket.socket) -> None:
    """READY once and when it is true, STATUS when it changes, STOPPING once."""
    manager = ServiceManager.from_environment()
    assert manager is not None
    assert "NOTIFY_SOCKET" not in os.environ
    now = Vitals(is_live=True, is_ready=False, is_leader=False, summary="starting")
    informing = asyncio.create_task(manager.keep_informed(lambda: now))
    assert await _told(listener, 1) == ["STATUS=starting"]
    now = Vitals(is_live=True, is_ready=True, is_leader=False, summary="working")
    assert await _told(listener, 2) == ["READY=1", "STATUS=working"]
    manager.say_stopping()
    manager.say_stopping()
    informing.cancel()
    assert await _told(listener, 1) == ["STOPPING=1"]
    listener.settimeout(0)
    with pytest.raises(BlockingIOError):
        listener.recv(1)


async def test_the_watchdog_hears_of_the_living(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """At half its time as long as heartbeats are acknowledged, and not after."""
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    manager = ServiceManager.from_environment()
    assert manager is not None
    assert manager.watchdog_seconds == 0.4
    now = Vitals(is_live=True, is_ready=False, is_leader=False, summary="here")
    informing = asyncio.create_task(manager.keep_informed(lambda: now))
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await _told(listener, 4))[1:] == ["WATCHDOG=1"] * 3
    assert loop.time() - began >= 0.35
    now = Vitals(is_live=False, is_ready=False, is_leader=False, summary="unheard")
    told = await _told(listener, 1)
    while told != ["STATUS=unheard"]:
        told = await _told(listener, 1)
    listener.settimeout(1)
    with pytest.raises(TimeoutError):
        await _told(listener, 1)
    informing.cancel()


@pytest.mark.parametrize(("address", "pid"), [("", ""), ("relative/path", "")])
def test_nobody_to_tell(monkeypatch: pytest.MonkeyPatch, address: str, pid: str) -> None:
    """No variable, or none that sd_notify(3) allows."""
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    assert ServiceManager.from_environment() is None


def test_the_watchdog_of_another_process(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """WATCHDOG_PID says whose it is."""
    monkeypatch.setenv("WATCHDOG_USEC", "400000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    manager = ServiceManager.from_environment()
    assert manager is not None
    assert manager.watchdog_seconds is None


def test_a_service_manager_that_is_gone(tmp_path: Path) -> None:
    """Hurts nobody."""
    ServiceManager(str(tmp_path / "nothing"), None).say_stopping()
