"""Small servers for tests: a process with a scratch directory, gone when the test run is, however it ends."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast.testing.postgres_server import free_port, unprivileged_account

START_TIMEOUT_SECONDS = 20
STOP_TIMEOUT_SECONDS = 10

# Reads until the pipe closes, which happens however the parent ends; `exec` would lose that.
_LEASH = """
"$@" </dev/null &
child=$!
read -r _
kill -KILL "$child"
"""


class ProgramUnavailable(RuntimeError):
    pass


class Program(ABC):
    """A server on a port of 127.0.0.1 that stays the same from start to start."""

    name = "program"
    #: it refuses to run as root
    needs_a_user = False

    def __init__(self) -> None:
        self._account = unprivileged_account() if self.needs_a_user else None
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"holdfast-{self.name}-"))
        if self._account is not None:
            os.chown(self.directory, self._account.pw_uid, self._account.pw_gid)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """What to run; files that it needs have been written when this returns."""

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    @property
    def log(self) -> str:
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / "server.log").read_text(errors="replace")
        return ""

    def start(self) -> Self:
        atexit.register(self.stop)
        account = self._account
        identity = {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _LEASH, "sh", *self.command()],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                env=self.environment(),
                **identity,  # type: ignore[call-overload]  # the options of Popen, by name
            )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ProgramUnavailable(f"{self.name} did not start:\n{self.log[-2000:]}")
            time.sleep(0.005)
        return self

    def kill(self) -> None:
        """SIGKILL for all of it; `start` comes back on the same port, empty."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate(timeout=STOP_TIMEOUT_SECONDS)

    def stop(self) -> None:
        atexit.unregister(self.stop)
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False
