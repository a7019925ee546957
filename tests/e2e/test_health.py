"""`--health-port` and systemd's socket: what a worker, or a supervisor for all of its processes, says of itself."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from holdfast import App
from tests.crew.waiting import wait_for
from tests.e2e.conftest import CommandLine, Running

_BRISK = ("--heartbeat=300ms", "--dead-after=2s", "--lease=4s", "--renew=1s")
BOTH_SHAPES = pytest.mark.parametrize("shape", [(), ("--processes=2",)], ids=["alone", "supervised"])


def _address(worker: Running) -> str:
    found = re.search(r"health at (http://\S+)/live", worker.expect("health at"))
    assert found is not None
    return found[1]


def _ask(address: str, question: str) -> tuple[int, dict[str, object]]:
    try:
        with urllib.request.urlopen(f"{address}/{question}", timeout=5) as answer:  # noqa: S310 - our own server
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def _serving(worker: Running, count: int) -> list[int]:
    lines = [worker.expect("serves") for _ in range(count)]
    return [int(found[1]) for line in lines if (found := re.search(r"-(\d+)-\w+ serves", line))]


@BOTH_SHAPES
def test_from_start_to_stop(command: CommandLine, url: str, app: App, shape: tuple[str, ...]) -> None:
    """Ready once it claims, not ready while it drains, live all the time."""
    worker = command.start(
        "worker", "shop:make_app", "--health-port=0", "--stop-deadline=60", "--concurrency=1", *shape, HOLDFAST_URL=url
    )
    address = _address(worker)
    _serving(worker, 2 if shape else 1)
    wait_for(lambda: _ask(address, "ready")[0] == 200, "ready")
    status, body = _ask(address, "live")
    assert (status, body["live"], body["ready"]) == (200, True, True)
    wait_for(lambda: _ask(address, "leader")[0] == 200, "there is nobody else to lead")
    assert _ask(address, "nothing")[0] == 404
    with app.client() as client:
        client.enqueue(app.call("nap", seconds=50))
        worker.expect("napping")
        worker.signal()
        wait_for(lambda: _ask(address, "ready")[0] == 503, "not ready while it stops")
        assert _ask(address, "live")[0] == 200
        wait_for(lambda: _ask(address, "leader")[0] == 503, "it does not lead while it stops")
        worker.signal()
        assert worker.exit_code() == 0
    app.close()


@BOTH_SHAPES
def test_a_worker_that_is_not_heard_is_not_live(
    command: CommandLine, new_postgres_url: str, shape: tuple[str, ...]
) -> None:
    """Its heartbeats wait for a lock: after --dead-after it is neither live nor ready; heard again, it is both."""
    worker = command.start("worker", "shop:make_app", "--health-port=0", *_BRISK, *shape, HOLDFAST_URL=new_postgres_url)
    address = _address(worker)
    _serving(worker, 2 if shape else 1)
    wait_for(lambda: _ask(address, "ready")[0] == 200, "ready")
    with psycopg.connect(new_postgres_url) as connection:
        connection.execute("LOCK TABLE holdfast.worker IN SHARE ROW EXCLUSIVE MODE")
        wait_for(lambda: _ask(address, "live")[0] == 503, "not live")
        wait_for(lambda: _ask(address, "ready")[0] == 503, "no process is ready")
    wait_for(lambda: _ask(address, "ready")[0] == 200, "ready again")
    wait_for(lambda: _ask(address, "live")[0] == 200, "live again")
    worker.signal()
    assert worker.exit_code() == 0


def test_a_frozen_process_is_not_live(command: CommandLine, url: str) -> None:
    """The supervisor answers, and says so of a process that does not report any more."""
    worker = command.start("worker", "shop:make_app", "--health-port=0", *_BRISK, "--processes=2", HOLDFAST_URL=url)
    address = _address(worker)
    frozen = _serving(worker, 2)[1]
    wait_for(lambda: "2 of 2" in str(_ask(address, "ready")[1]["summary"]), "both ready")
    os.kill(frozen, signal.SIGSTOP)
    wait_for(lambda: _ask(address, "live")[0] == 503, "not live")
    assert "1 of 2" in str(_ask(address, "ready")[1]["summary"])
    os.kill(frozen, signal.SIGCONT)
    wait_for(lambda: _ask(address, "live")[0] == 200, "live again")
    worker.signal()
    assert worker.exit_code() == 0


@BOTH_SHAPES
def test_a_taken_port_is_refused(command: CommandLine, url: str, shape: tuple[str, ...]) -> None:
    """One line with the way out, exit code 1; with a supervisor nothing is started."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        ended = command.run("worker", "shop:make_app", f"--health-port={port}", *shape, HOLDFAST_URL=url)
    assert ended.returncode == 1
    assert "choose another --health-port" in ended.stderr.splitlines()[-1]
    assert ended.stderr.splitlines()[-1].startswith("error: cannot answer health questions on 127.0.0.1:")
    assert "started" not in ended.stderr


def test_rude_clients_do_not_keep_it_from_its_work(command: CommandLine, url: str, app: App) -> None:
    """A hundred connections that say nothing or nonsense: jobs run, probes are answered in a moment, it stops."""
    worker = command.start("worker", "shop:make_app", "--health-port=0", HOLDFAST_URL=url)
    address = _address(worker)
    host, port = address.removeprefix("http://").split(":")
    worker.expect("serves")
    rude = [socket.create_connection((host, int(port)), 5) for _ in range(100)]
    for number, visitor in enumerate(rude):
        try:
            visitor.send(b"" if number % 2 else b"\x00" * 20_000)
        except OSError:
            assert number >= 64
    with app.client() as client:
        client.enqueue(app.call("greet", name="Ada"))
    worker.expect("hello Ada")

    def is_answered() -> bool:
        try:
            return _ask(address, "live")[0] == 200
        except OSError:
            return False

    wait_for(is_answered, "the silent are sent away", patience=10)
    began = time.monotonic()
    worker.signal()
    assert worker.exit_code() == 0
    assert time.monotonic() - began < 10
    for visitor in rude:
        visitor.close()
    app.close()


@pytest.fixture
def notify(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(20)
        yield listener


@BOTH_SHAPES
def test_systemd_is_told(command: CommandLine, url: str, notify: socket.socket, shape: tuple[str, ...]) -> None:
    """READY=1, WATCHDOG=1 again and again, STATUS=…, STOPPING=1: from one process, which is the service's main one."""
    notify.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    worker = command.start(
        "worker", "shop:make_app", *shape,
        HOLDFAST_URL=url, NOTIFY_SOCKET=str(notify.getsockname()), WATCHDOG_USEC="1000000",
    )  # fmt: skip
    told: list[str] = []
    senders: set[int] = set()

    def listen_for(message: str) -> None:
        while message not in told:
            data, ancillary, _, _ = notify.recvmsg(4096, socket.CMSG_SPACE(12))
            told.append(data.decode())
            senders.add(int.from_bytes(ancillary[0][2][:4], "little"))

    listen_for("READY=1")
    told.clear()
    for _ in range(3):
        told[:] = [message for message in told if message != "WATCHDOG=1"]
        listen_for("WATCHDOG=1")
    worker.signal()
    listen_for("STOPPING=1")
    assert worker.exit_code() == 0
    assert senders == {worker.process.pid}


def test_the_watchdog_does_not_hear_of_the_unheard(
    command: CommandLine, new_postgres_url: str, notify: socket.socket
) -> None:
    """While heartbeats are not acknowledged systemd hears nothing, and would restart the service."""
    worker = command.start(
        "worker", "shop:make_app", *_BRISK,
        HOLDFAST_URL=new_postgres_url, NOTIFY_SOCKET=str(notify.getsockname()), WATCHDOG_USEC="400000",
    )  # fmt: skip
    worker.expect("serves")
    with psycopg.connect(new_postgres_url) as connection:
        connection.execute("LOCK TABLE holdfast.worker IN SHARE ROW EXCLUSIVE MODE")
        while "heartbeats are not acknowledged" not in notify.recv(4096).decode():
            pass
        notify.settimeout(1)
        with pytest.raises(TimeoutError):
            notify.recv(4096)
        notify.settimeout(20)
    while notify.recv(4096) != b"WATCHDOG=1":
        pass
    worker.signal()
    assert worker.exit_code() == 0
