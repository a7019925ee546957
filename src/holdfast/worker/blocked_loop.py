"""Ends a worker whose event loop is blocked when it should stop: an `async def` handler that does not wait, mostly.

The loop hears of signals, cancels handlers and writes outcomes, so while it is blocked nothing of that happens, and
heartbeats go on in their thread. When the time for a stop is up, this thread gives everything back and ends it all.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections import Counter
from queue import Empty, SimpleQueue
from typing import Final

from holdfast.worker.exit_codes import ExitCode
from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")

#: how long it must have been blocked after the stop deadline, which handlers that react have to clean up
_GRACE_SECONDS: Final = 5.0
#: likewise when somebody is in a hurry
_HURRIED_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.1
#: how long giving back may take, should the database not answer
_LAST_SECONDS: Final = 5.0


class BlockedLoop:
    """The thread that looks whether the loop reacts, from the first request to stop on."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        # Signal handlers put something in while the same thread may be anywhere: this queue allows that, locks do not.
        self._requests: SimpleQueue[tuple[str, int] | None] = SimpleQueue()
        #: by source, as a signal to everybody and an order mean one stop
        self._asked: Counter[str] = Counter()
        #: for how long the loop may be blocked, and from when on that counts
        self._patience = 0.0
        self._counts_from = 0.0
        self._thread = threading.Thread(target=self._serve, name="holdfast-blocked-loop", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """The worker has ended by itself."""
        self._requests.put(None)
        self._thread.join()

    def signalled(self, number: int, _: object) -> None:
        """Handles signals; Python calls it in the middle of whatever blocks the loop.

        Of two in the same moment the kernel may give one to another thread: that one is heard when Python has a turn.
        """
        self._requests.put(("signals", 2 if number == signal.SIGQUIT else 1))

    def ordered(self, level: int) -> None:
        """By the supervisor, from any thread: 1 for a graceful stop, 2 for an immediate one."""
        self._requests.put(("orders", level))

    def _serve(self) -> None:
        is_ended = not self._hear(None)
        while not is_ended:
            reacted = threading.Event()
            looks = 0
            try:
                self._loop.call_soon_threadsafe(reacted.set)
            except RuntimeError:
                return  # it is closed: nothing blocks it any more
            while not is_ended and not reacted.is_set():
                is_ended = not self._hear(_LOOK_SECONDS)
                # Not by the time that has gone by: a process that was stopped and goes on has blocked nobody.
                looks += time.monotonic() >= self._counts_from
                if not is_ended and looks * _LOOK_SECONDS >= self._patience:
                    self._end()
            is_ended = is_ended or not self._hear(_LOOK_SECONDS)

    def _hear(self, patience: float | None) -> bool:
        """Whether it is not all over."""
        try:
            request = self._requests.get(timeout=patience)
        except Empty:
            return True
        if request is None:
            return False
        source, level = request
        before = max(self._asked.values(), default=0)
        self._asked[source] = self._asked[source] + level if source == "signals" else level
        after = max(self._asked.values())
        now = time.monotonic()
        if after > before and after > 1:
            self._patience, self._counts_from = _HURRIED_SECONDS, now
        elif after > before:
            deadline = now + self._worker.config.stop_deadline.total_seconds()
            self._patience, self._counts_from = _GRACE_SECONDS, deadline
        return True

    def _end(self) -> None:
        # Apart, and without a farewell to the streams: it may be a full pipe that blocks the loop.
        giving_back = threading.Thread(target=self._give_back, name="holdfast-last-act", daemon=True)
        giving_back.start()
        giving_back.join(_LAST_SECONDS)
        os._exit(ExitCode.STOPPED)

    def _give_back(self) -> None:
        self._worker.abandon()
        _log.error("a handler blocks the event loop; all jobs went back, and the process ends without it")
