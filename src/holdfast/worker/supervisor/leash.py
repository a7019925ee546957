"""A supervised process's end of the line to its supervisor: orders come, reports go, and its end is noticed."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from holdfast.model.payload import to_json
from holdfast.worker.parent_death import set_parent_death_signal
from holdfast.worker.vitals import TakeVitals

_log = logging.getLogger("holdfast.worker")

#: names the inherited descriptor
VARIABLE = "HOLDFAST_SUPERVISOR_FD"

STOP = b"s"
STOP_AT_ONCE = b"q"

REPORT_SECONDS = 0.5
#: how much longer than the deadline a process may live that nobody can kill any more
_ORPHAN_GRACE = 20.0


class Leash:
    """The socket, and the thread that listens to it: it hears of the supervisor's end even if the loop is blocked."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    @classmethod
    def take(cls) -> Leash | None:
        """What the supervisor left in the environment, or None for a process that has none."""
        descriptor = os.environ.pop(VARIABLE, None)
        if descriptor is None:
            return None
        line = socket.socket(fileno=int(descriptor))
        line.set_inheritable(False)
        set_parent_death_signal(signal.SIGTERM)
        return cls(line)

    def listen(self, ordered: Callable[[int], None], noted: Callable[[int], None], stop_deadline: timedelta) -> None:
        """`ordered` is called in the event loop: with 1 for a graceful stop, 2 for an immediate one.

        `noted` likewise, in the thread that listens.
        """
        loop = asyncio.get_running_loop()
        # The line tells it from now on, once; the kernel does for each thread of the supervisor that ends, and a second
        # signal means that the jobs go back at once.
        set_parent_death_signal(0)

        def order(level: int) -> None:
            noted(level)
            with contextlib.suppress(RuntimeError):  # the loop has closed: we are on our way out
                loop.call_soon_threadsafe(ordered, level)

        def serve() -> None:
            with contextlib.suppress(OSError):
                while word := self._line.recv(1):
                    order(2 if word == STOP_AT_ONCE else 1)
            _log.warning("the supervisor is gone: this process ends too")
            order(1)
            time.sleep(stop_deadline.total_seconds() + _ORPHAN_GRACE)
            os._exit(1)

        threading.Thread(target=serve, name="holdfast-leash", daemon=True).start()

    async def report(self, take_vitals: TakeVitals, started: asyncio.Event) -> None:
        """For ever, and at once when there is something to be glad of."""
        is_started_told = False
        while True:
            is_started_told = is_started_told or started.is_set()
            # A supervisor that does not read loses reports, never holds us up.
            with contextlib.suppress(OSError):
                self._line.send(to_json(take_vitals()) + b"\n", socket.MSG_DONTWAIT)
            if is_started_told:
                await asyncio.sleep(REPORT_SECONDS)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REPORT_SECONDS):
                        await started.wait()
