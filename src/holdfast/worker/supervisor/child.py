"""One supervised process, as its supervisor sees it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence

import msgspec

from holdfast.worker.supervisor.leash import VARIABLE
from holdfast.worker.vitals import Vitals

_REPORTS = msgspec.json.Decoder(Vitals)
_LAST_WORDS_SECONDS = 0.5


class Child:
    """A fresh interpreter, in a session of its own: Ctrl-C reaches the supervisor alone, which passes it on."""

    def __init__(
        self, number: int, process: asyncio.subprocess.Process, line: socket.socket, became_ready: Callable[[], None]
    ) -> None:
        self.number = number
        self._process = process
        self._line = line
        self._started_at = time.monotonic()
        self._reported_at = time.monotonic()
        self.vitals: Vitals | None = None
        self.is_killed = False
        self._reading = asyncio.create_task(self._read(became_ready), name=f"holdfast-process-{number}")

    @classmethod
    async def start(cls, number: int, command: Sequence[str], became_ready: Callable[[], None]) -> Child:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=asyncio.subprocess.DEVNULL,
                    env={**os.environ, VARIABLE: str(theirs.fileno())},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        ours.settimeout(0)
        return cls(number, process, ours, became_ready)

    def __str__(self) -> str:
        return f"process {self.number} (pid {self._process.pid})"

    @property
    def lived_seconds(self) -> float:
        return time.monotonic() - self._started_at

    @property
    def report_age(self) -> float:
        return time.monotonic() - self._reported_at

    async def wait(self) -> int:
        """The exit code; negative for the signal that killed it."""
        code = await self._process.wait()
        # Its last reports are heard out: it may have worked before it died. Only a program that it started could keep
        # the line open.
        await asyncio.wait([self._reading], timeout=_LAST_WORDS_SECONDS)
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading
        self._line.close()
        return code

    def order(self, word: bytes) -> None:
        """By the line, not by a signal: whoever signals everything at once (systemd) has signalled it already."""
        with contextlib.suppress(OSError):  # it is gone, or so deaf that the line is full
            self._line.send(word)

    def kill(self) -> None:
        if self._process.returncode is None:
            self.is_killed = True
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)

    async def _read(self, became_ready: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        unread = b""
        with contextlib.suppress(OSError):
            while received := await loop.sock_recv(self._line, 65536):
                *lines, unread = (unread + received).split(b"\n")
                for line in lines:
                    with contextlib.suppress(msgspec.DecodeError):
                        self.vitals = _REPORTS.decode(line)
                        self._reported_at = time.monotonic()
                        if self.vitals.is_ready:
                            became_ready()
