"""The `holdfast` command as a user runs it: a process of its own, in a directory of its own."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest

from holdfast import App
from tests.crew.fixtures import no_leaks
from tests.crew.traces import end_processes, processes
from tests.crew.waiting import wait_for
from tests.e2e import shop
from tests.e2e.warm_command import COLD, run_warm
from tools.postgres_server import PostgresAddress

__all__ = ["no_leaks"]

_PATIENCE = 30.0


@dataclass
class Running:
    """A command under way, whose lines can be waited for."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    _inbox: queue.Queue[tuple[int, str]] = field(default_factory=queue.Queue)
    #: what has come of each stream and was not waited for yet; between the two there is no order
    _unread: tuple[list[str], list[str]] = field(default_factory=lambda: ([], []))

    def __post_init__(self) -> None:
        for number, stream in enumerate((self.process.stdout, self.process.stderr)):
            assert stream is not None
            threading.Thread(target=self._read, args=(number, stream), daemon=True).start()

    def _read(self, number: int, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._inbox.put((number, line.rstrip("\n")))

    def expect(self, text: str) -> str:
        """The next line, of either stream, that contains `text`."""
        deadline = time.monotonic() + _PATIENCE
        while (found := self._find(text)) is None:
            try:
                number, line = self._inbox.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{text!r} was not printed; what was:\n" + "\n".join(self.lines)) from None
            self.lines.append(line)
            self._unread[number].append(line)
        return found

    def _find(self, text: str) -> str | None:
        for unread in self._unread:
            for place, line in enumerate(unread):
                if text in line:
                    del unread[: place + 1]
                    return line
        return None

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        return self.process.wait(_PATIENCE)


@dataclass
class CommandLine:
    """Runs `python -m holdfast` in `directory`, with no HOLDFAST_* variable but those given."""

    directory: Path
    started: list[Running] = field(default_factory=list)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = self._environment(variables)
        if arguments and arguments[0] not in COLD:
            return run_warm(arguments, self.directory, environment, _PATIENCE * 2)
        return subprocess.run(
            self._command(arguments),
            cwd=self.directory,
            env=environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=_PATIENCE * 2,
        )

    def start(self, *arguments: str, **variables: str) -> Running:
        """In a session of its own, so that a test can signal all of it as a terminal does."""
        process = subprocess.Popen(
            self._command(arguments),
            cwd=self.directory,
            env=self._environment(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running = Running(process)
        self.started.append(running)
        return running

    @staticmethod
    def _command(arguments: tuple[str, ...]) -> list[str]:
        return [sys.executable, "-m", "holdfast", *arguments]

    def _environment(self, variables: dict[str, str]) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        return {**inherited, "TEST_MARK": self.mark, **variables}


@pytest.fixture
def command(tmp_path: Path) -> Iterator[CommandLine]:
    directory = tmp_path / "user"
    directory.mkdir()
    shutil.copy(shop.__file__, directory / "shop.py")
    command_line = CommandLine(directory)
    yield command_line
    for running in command_line.started:
        running.process.kill()
        running.process.wait()
    try:
        wait_for(lambda: not processes(command_line.mark), "no process is left of what the test started")
    finally:
        end_processes(command_line.mark)


@pytest.fixture
def new_postgres_url(postgres_addresses: dict[int, PostgresAddress], worker_id: str) -> Iterator[str]:
    """An empty database on the newest server: the command line is the same on all."""
    address = postgres_addresses[max(postgres_addresses)]
    name = f"e2e_{worker_id}_{time.monotonic_ns()}"
    yield address.create_database(name)
    address.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, sqlite_path: Path) -> str:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{sqlite_path}"
    found = request.getfixturevalue("new_postgres_url")
    assert isinstance(found, str)
    return found


@pytest.fixture
def app(url: str) -> App:
    """The same app in the test's own process, to enqueue and to look."""
    return shop.make_app(url)
