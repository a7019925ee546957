"""Threads for `def` handlers: they pull jobs from a queue, so no job pays for a hand-over by the event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from contextvars import copy_context
from queue import SimpleQueue

from holdfast.worker.attempt import Attempt, Ending
from holdfast.worker.equipment import SyncEquipment
from holdfast.worker.executors.base import Done
from holdfast.worker.executors.calling import call, leave_if_forked
from holdfast.worker.handler import Handler
from holdfast.worker.hooks import ErrorHook

_log = logging.getLogger("holdfast.worker")

#: how soon it is tried again to start a thread where that was refused
_THREAD_SECONDS = 1.0


class ThreadExecutor:
    """Grows to as many threads as calls run at once; daemon threads, so that a stuck handler cannot keep the process.

    Nobody can stop a thread: the handler of a job that is lost, or out of time, is told and otherwise left alone. It
    keeps its slot, and the fence shuts out what it does.
    """

    is_interruptible = False

    def __init__(self, limit: int, equipment: SyncEquipment, hook: ErrorHook, done: Done) -> None:
        self._limit = limit
        self._equipment = equipment
        self._hook = hook
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._inbox: SimpleQueue[tuple[Sequence[Attempt], Handler] | None] = SimpleQueue()
        self._outbox: deque[tuple[Sequence[Attempt], Sequence[Ending]]] = deque()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        #: until it is tried again to start a thread
        self._growing: asyncio.TimerHandle | None = None
        self._is_scheduled = False

    @property
    def busy(self) -> int:
        """How many calls have not come back."""
        return self._busy

    def start(self, attempts: Sequence[Attempt], handler: Handler) -> None:
        self._busy += 1
        self._inbox.put((attempts, handler))
        if self._busy > len(self._threads) and len(self._threads) < self._limit and self._growing is None:
            self._grow()

    def _grow(self) -> None:
        """What has no thread of its own waits for one that becomes free."""
        self._growing = None
        while self._busy > len(self._threads) and len(self._threads) < self._limit:
            thread = threading.Thread(target=self._serve, name=f"holdfast-{len(self._threads)}", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system gives no more for now
                _log.warning("%s; %d run, and calls wait for these", error, len(self._threads))
                self._growing = self._loop.call_later(_THREAD_SECONDS, self._grow)
                return
            self._threads.append(thread)

    def tell(self, attempt: Attempt) -> None:
        """The handler looks at the attempt itself."""

    def interrupt(self, attempt: Attempt) -> None:
        """Cannot be."""

    def time_out(self, attempt: Attempt) -> float:  # noqa: ARG002 - the same for all
        """The attempt is over at once: waiting would change nothing."""
        return 0.0

    async def close(self) -> None:
        if self._growing is not None:
            self._growing.cancel()
        threads, self._threads = self._threads, []
        for _ in threads:
            self._inbox.put(None)

    def _serve(self) -> None:
        pid = os.getpid()
        while (item := self._inbox.get()) is not None:
            attempts, handler = item
            endings: Sequence[Ending]
            try:
                # What a handler sets is none of the next one's business.
                endings = copy_context().run(call, attempts, handler, self._equipment, self._hook)
            except BaseException as error:  # noqa: BLE001 - a mistake of ours must not cost a slot and a job
                _log.exception("a call in a thread failed outside its handler")
                endings = [attempt.failure(error) for attempt in attempts]
            leave_if_forked(pid)
            self._outbox.append((attempts, endings))
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
            attempts, endings = self._outbox.popleft()
            self._busy -= 1
            self._done(attempts, endings)
