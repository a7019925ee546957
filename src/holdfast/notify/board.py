"""Who in this process waits for which hint: where direct signals and those of every transport arrive.

Whatever is put up may come from any thread; each subscriber is woken on its own event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Protocol

from holdfast.model.fork import forget_after_fork

_log = logging.getLogger("holdfast.notify")

#: how often somebody looks who would not hear a hint
DEAF_SECONDS = 1.0
#: how long the last one who leaves waits for connections to be closed
_LEAVING_SECONDS = 2.0


class Subscriber(Protocol):
    """Somebody who is told; what it raises is logged, and hurts nobody else."""

    def hear_work(self, queue: str) -> None:
        """There is work in a queue that it serves."""

    def hear_lease(self, worker_id: str) -> None:
        """Something has happened to a job of this worker."""

    def hear_chain(self, chain_id: str) -> None:
        """This chain has ended."""

    def hear_anything(self) -> None:
        """Anything may have happened: hints may have been missed."""

    @property
    def queues(self) -> frozenset[str]:
        """Whose hints of work it wants."""
        ...


class Board:
    """The subscribers of one process.

    - `changed` is called when somebody comes or goes.
    - `waiting_changed` is called when somebody begins or ends to wait.
    """

    def __init__(
        self, changed: Callable[[], None] = lambda: None, waiting_changed: Callable[[], None] = lambda: None
    ) -> None:
        self.changed = changed
        self._waiting_changed = waiting_changed
        #: set when what listened for the last subscriber has ended
        self.ending: Callable[[], Future[None] | None] = lambda: None
        #: hints may not arrive: look more often
        self.is_deaf = False
        self._lock = threading.Lock()
        self._subscribers: list[Subscriber] = []
        #: those who wait, in the order in which they began
        self._idle: dict[Subscriber, None] = {}
        forget_after_fork(self)

    def after_fork(self) -> None:
        self._lock, self._subscribers, self._idle = threading.Lock(), [], {}

    def subscribe(self, subscriber: Subscriber) -> None:
        """Idempotent, as `unsubscribe` is."""
        with self._lock:
            if subscriber in self._subscribers:
                return
            self._subscribers.append(subscriber)
        self.changed()

    def unsubscribe(self, subscriber: Subscriber) -> None:
        with self._lock:
            if subscriber not in self._subscribers:
                return
            self._subscribers.remove(subscriber)
            self._idle.pop(subscriber, None)
        self.changed()

    def begin_to_wait(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._idle[subscriber] = None
        self._waiting_changed()

    def end_to_wait(self, subscriber: Subscriber) -> None:
        with self._lock:
            self._idle.pop(subscriber, None)
        self._waiting_changed()

    @property
    def is_empty(self) -> bool:
        return not self._subscribers

    @property
    def has_idle(self) -> bool:
        return bool(self._idle)

    @property
    def queues(self) -> frozenset[str]:
        """Those that somebody here serves."""
        with self._lock:
            return frozenset().union(*(subscriber.queues for subscriber in self._subscribers))

    @property
    def idle_queues(self) -> frozenset[str]:
        """Those for which somebody here waits."""
        with self._lock:
            return frozenset().union(*(subscriber.queues for subscriber in self._idle))

    def tell_work(self, queue: str, count: int | None = None) -> None:
        """Wake as many as there are jobs; without a count everybody who serves the queue.

        Who does not wait looks once more before it does: it may have looked just before the jobs came.
        """
        with self._lock:
            if not self._subscribers:
                return
            chosen = [subscriber for subscriber in self._subscribers if queue in subscriber.queues]
            if count is not None:
                idle = [subscriber for subscriber in self._idle if queue in subscriber.queues]
                busy = [subscriber for subscriber in chosen if subscriber not in self._idle]
                chosen = idle[:count] if len(idle) >= count else [*idle, *busy]
            for subscriber in chosen:
                self._idle.pop(subscriber, None)
        self._tell(chosen, lambda subscriber: subscriber.hear_work(queue))

    def offer_work(self, queue: str) -> bool:
        """Wake one who waits for it; whether there was one."""
        with self._lock:
            idle = next((subscriber for subscriber in self._idle if queue in subscriber.queues), None)
            if idle is None:
                return False
            del self._idle[idle]
        self._tell([idle], lambda subscriber: subscriber.hear_work(queue))
        return True

    def tell_lease(self, worker_id: str) -> None:
        self._tell(self._everybody(), lambda subscriber: subscriber.hear_lease(worker_id))

    def tell_chain(self, chain_id: str) -> None:
        self._tell(self._everybody(), lambda subscriber: subscriber.hear_chain(chain_id))

    def tell_anything(self) -> None:
        """Somebody who waits for a hint that has been missed would wait too long."""
        self._tell(self._everybody(), lambda subscriber: subscriber.hear_anything())

    def fall_deaf(self) -> None:
        """From now on hints may not arrive; who waits for one already looks now, and then more often."""
        if not self.is_deaf:
            self.is_deaf = True
            self.tell_anything()

    def patience(self, timeout: float) -> float:
        """How long to wait for a hint."""
        if not self.is_deaf:
            return timeout
        return min(timeout, DEAF_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311 - jitter

    def _everybody(self) -> list[Subscriber]:
        with self._lock:
            return list(self._subscribers)

    @staticmethod
    def _tell(chosen: Iterable[Subscriber], what: Callable[[Subscriber], None]) -> None:
        for subscriber in chosen:
            try:
                what(subscriber)
            except Exception:  # noqa: BLE001 - one who fails must not keep the others from hearing
                _log.exception("a hint could not be passed on")


class _Ear:
    """Somebody who is woken by any thread and waits on one event loop; deaf to everything but `hear_anything`."""

    queues: frozenset[str] = frozenset()

    def __init__(self, board: Board) -> None:
        self._board = board
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._is_poked = False
        self._sleep: asyncio.Future[None] | None = None

    def start(self) -> None:
        """Begin to be told; after `close`, anew."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._thread = threading.get_ident()
        self._board.subscribe(self)

    def poke(self) -> None:
        if self._loop is None or self._thread == threading.get_ident():
            self._poke()
            return
        with contextlib.suppress(RuntimeError):  # its loop has closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._poke)

    def _poke(self) -> None:
        self._is_poked = True
        self._end_sleep()

    def _end_sleep(self, _: object = None) -> None:
        if self._sleep is not None and not self._sleep.done():
            self._sleep.set_result(None)

    async def wait(self, timeout: float, beside: asyncio.Future[Any] | None = None) -> bool:
        self.start()
        self._board.begin_to_wait(self)
        try:
            if not self._is_poked:
                await self._until_poked(self._board.patience(timeout), beside)
        finally:
            self._board.end_to_wait(self)
        is_poked, self._is_poked = self._is_poked, False
        return is_poked

    async def _until_poked(self, timeout: float, beside: asyncio.Future[Any] | None) -> None:
        # One future for all that may end it: less to do between a hint and its claim than with an event and a timeout.
        loop = asyncio.get_running_loop()
        self._sleep = loop.create_future()
        timer = loop.call_later(timeout, self._end_sleep)
        if beside is not None:
            beside.add_done_callback(self._end_sleep)
        try:
            await self._sleep
        finally:
            timer.cancel()
            if beside is not None:
                beside.remove_done_callback(self._end_sleep)
            self._sleep = None

    async def close(self) -> None:
        self._board.unsubscribe(self)
        ending = self._board.ending()
        if ending is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVING_SECONDS):
                    await asyncio.wrap_future(ending)

    def hear_work(self, queue: str) -> None:
        """Serves no queue."""

    def hear_lease(self, worker_id: str) -> None:
        """Holds no job."""

    def hear_chain(self, chain_id: str) -> None:
        """Waits for no chain."""

    def hear_anything(self) -> None:
        self.poke()


class BoardWaker(_Ear):
    """Of a worker."""

    def __init__(self, board: Board, queues: Iterable[str], lease_channel: str | None = None) -> None:
        super().__init__(board)
        self.queues = frozenset(queues)
        self.lease_channel = lease_channel
        self._touching = threading.Lock()
        #: the workers whose jobs were touched; None = perhaps any
        self._touched: set[str] | None = set()
        self._looked_at = 0.0

    def has_lease_news(self, worker_id: str) -> bool:
        with self._touching:
            touched, self._touched = self._touched, set()
        if self._board.is_deaf and self.lease_channel is not None and time.monotonic() - self._looked_at > DEAF_SECONDS:
            touched = None
        if touched is None:
            self._looked_at = time.monotonic()
        return touched is None or worker_id in touched

    def hear_work(self, queue: str) -> None:  # noqa: ARG002 - the board has chosen by it
        self.poke()

    def hear_lease(self, worker_id: str) -> None:
        with self._touching:
            if self._touched is not None:
                self._touched.add(worker_id)

    def hear_anything(self) -> None:
        with self._touching:
            self._touched = None
        self.poke()


class BoardListener(_Ear):
    """Of those who wait for chains."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self._telling = threading.Lock()
        self._told: set[str] | None = set()

    def news(self) -> set[str] | None:
        with self._telling:
            told, self._told = self._told, set()
        return told

    def hear_chain(self, chain_id: str) -> None:
        with self._telling:
            if self._told is not None:
                self._told.add(chain_id)
        self.poke()

    def hear_anything(self) -> None:
        with self._telling:
            self._told = None
        self.poke()
