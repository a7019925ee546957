"""What Redis and NATS have in common: a hint of n jobs wakes about n of those who wait, in whatever process."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable

from holdfast.model.fork import forget_after_fork
from holdfast.notify.board import DEAF_SECONDS, Board, BoardListener, BoardWaker
from holdfast.notify.letters import Letter, new_address, read, sorted_out
from holdfast.notify.loop_thread import LoopThread
from holdfast.notify.sqlite import FileNotifier, FileWaker

_log = logging.getLogger("holdfast.notify")

#: the most workers that one hint wakes, and hints of one queue that are kept for those who will wait
MOST_TOKENS = 100
#: what is not sent by then is dropped: those it was for have looked by themselves
_MOST_LETTERS = 10_000
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.1, 5.0
_CLOSING_SECONDS = 2.0
#: how long a hint that nobody waits for is held for one who is about to
_HOLD_SECONDS, _HOLD_STEPS = 0.05, 10


class CountingNotifier(ABC):
    """One connection for all of a process, on a thread of its own; opened when there is something to say or to hear.

    - `prefix`: of all names in the server.
    - `file`: on SQLite, what sees the ends of chains and what happens to leases; the server then carries work alone.
    """

    inner_channel: str | None = None
    #: of the server, in messages
    name = "server"

    def __init__(self, url: str, prefix: str, *, file: FileNotifier | None = None) -> None:
        self._url = url
        self._prefix = prefix
        self._file = file
        self._make()
        forget_after_fork(self)

    def _make(self) -> None:
        self._address = new_address()
        self.chain_channel = None if self._file is not None else self._address
        self.board = Board(self._follow, self._follow)
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._stir = asyncio.Event()
        self._is_closing = False
        self._has_complained = False
        self._work: Counter[str] = Counter()
        self._letters: list[Letter] = []

    def after_fork(self) -> None:
        self._make()

    # --- what everybody calls -----------------------------------------------------------------------------------------

    def open_waker(self, queues: Iterable[str]) -> BoardWaker:
        if self._file is not None:
            return FileWaker(self.board, queues, self._file.path)
        return BoardWaker(self.board, queues, self._address)

    def open_chain_listener(self) -> BoardListener:
        return BoardListener(self.board) if self._file is None else self._file.open_chain_listener()

    def may_ride_along(self) -> bool:
        return False

    def hint(self, work: Iterable[str], *, has_ridden: bool = False) -> None:  # noqa: ARG002 - nothing rides
        queues, letters = sorted_out(work)
        # Those here first: what they take, nobody else needs to be woken for.
        left: dict[str, int] = {}
        for queue, count in queues.items():
            wanted = min(count, MOST_TOKENS)
            while wanted > 0 and self.board.offer_work(queue):
                wanted -= 1
            if wanted > 0:
                left[queue] = wanted
        with self._lock:
            self._work.update(left)
            self._letters = (self._letters + letters)[-_MOST_LETTERS:]
        if left or letters:
            self._run()

    def close(self) -> None:
        with self._lock:
            self._is_closing = True
            thread = self._thread
        if thread is None:
            return
        thread.call(self._stir.set)
        if not self.board.is_empty:
            return  # it ends with the last who listens
        try:
            thread.ended.result(_CLOSING_SECONDS)
        except TimeoutError:
            thread.stop().result(_CLOSING_SECONDS)

    # --- the thread ---------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        """Somebody has come or gone, or waits or does not."""
        if not self.board.is_empty:
            self._run()
        elif self._thread is not None:
            self._thread.call(self._stir.set)

    def _run(self) -> None:
        with self._lock:
            if self._thread is None or self._thread.ended.done():
                self._stir = asyncio.Event()
                self._is_closing = False
                self._thread = LoopThread(f"holdfast-{self.name}", self._serve)
            self._thread.call(self._stir.set)

    async def _serve(self) -> None:
        backoff = _FIRST_BACKOFF
        while not self._is_over:
            try:
                await self._session()
                backoff = _FIRST_BACKOFF
            except self.errors as error:
                if not self.board.is_deaf:
                    backoff = _FIRST_BACKOFF
                self._fall_deaf(error)
                # A lost hint costs a poll interval, so it is not worth keeping.
                self._outgoing()
            if not self._is_over:
                await asyncio.sleep(backoff * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
                backoff = min(backoff * 2, _LONGEST_BACKOFF)

    @property
    @abstractmethod
    def errors(self) -> tuple[type[BaseException], ...]:
        """What a session may raise because the server is away."""

    @abstractmethod
    async def _session(self) -> None:
        """Connect, `_be_heard`, send what is outgoing and take what comes, until `_is_over`."""

    @property
    def _is_over(self) -> bool:
        return self._is_closing and self.board.is_empty and not self._work and not self._letters

    def _outgoing(self) -> tuple[Counter[str], list[Letter]]:
        with self._lock:
            work, self._work = self._work, Counter()
            letters, self._letters = self._letters, []
        return work, letters

    def _put_back(self, queue: str) -> None:
        with self._lock:
            self._work[queue] += 1
        self._stir.set()

    async def _was_taken(self, queue: str) -> bool:
        """Whether somebody here could use a hint; who has just looked may be about to wait."""
        for _ in range(_HOLD_STEPS):
            if self.board.offer_work(queue):
                return True
            await asyncio.sleep(_HOLD_SECONDS / _HOLD_STEPS)
        return False

    def _read(self, text: str) -> None:
        read(self.board, text)

    def _be_heard(self) -> None:
        self.board.is_deaf = False
        if self._has_complained:
            self._has_complained = False
            _log.info("%s is back: hints are sent and received again", self.name)
        # Hints sent while nobody listened are lost: look once.
        self.board.tell_anything()

    def _fall_deaf(self, error: BaseException) -> None:
        self.board.fall_deaf()
        if not self._has_complained:
            self._has_complained = True
            _log.warning(
                "%s does not answer (%s); looking for work every %g s meanwhile",
                self.name,
                " ".join(str(error).split()) or type(error).__name__,
                DEAF_SECONDS,
            )
