"""Threads for `def` handlers: they pull jobs from a queue, so no job pays for a hand-over by the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from holdfast.worker.attempt import Attempt

Work = Callable[[], Any]
Done = Callable[[Attempt, Any, BaseException | None], None]


class ThreadRunner:
    """Grows to as many threads as jobs run at once; daemon threads, so that a stuck handler cannot keep the process."""

    def __init__(self, limit: int, done: Done) -> None:
        self._limit = limit
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._inbox: SimpleQueue[tuple[Attempt, Work] | None] = SimpleQueue()
        self._outbox: deque[tuple[Attempt, Any, BaseException | None]] = deque()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._is_scheduled = False

    def start(self, attempt: Attempt, work: Work) -> None:
        self._busy += 1
        if self._busy > len(self._threads) and len(self._threads) < self._limit:
            thread = threading.Thread(target=self._serve, name=f"holdfast-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._inbox.put((attempt, work))

    def close(self) -> None:
        for _ in self._threads:
            self._inbox.put(None)

    def _serve(self) -> None:
        while (item := self._inbox.get()) is not None:
            attempt, work = item
            try:
                result, error = work(), None
            except BaseException as caught:  # noqa: BLE001 - SystemExit in a handler fails the job, not the worker
                result, error = None, caught
            self._outbox.append((attempt, result, error))
            # Many results, one wake-up: the flag is set by threads and cleared by the loop before it empties the box.
            if not self._is_scheduled:
                self._is_scheduled = True
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:
                    return  # the loop is closed: an abandoned thread outlived its worker

    def _collect(self) -> None:
        self._is_scheduled = False
        while self._outbox:
            attempt, result, error = self._outbox.popleft()
            self._busy -= 1
            self._done(attempt, result, error)
