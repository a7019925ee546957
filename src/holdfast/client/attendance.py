"""Those of a process who wait for chains: one thread looks after all of them, for as long as there are any.

It asks for all of them in one statement, at growing intervals, and at once when it hears that one has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

from holdfast.errors import DatabaseUnavailable, StoreError
from holdfast.model.fork import forget_after_fork
from holdfast.notify import ChainListener
from holdfast.operations.announce_waiters import announce_waiters, withdraw_waiters
from holdfast.operations.look_at_chains import Sight, look_at_chains
from holdfast.stores import AsyncStore

T = TypeVar("T")

_log = logging.getLogger("holdfast.client")

#: without notifications a waiter is late by at most a tenth of the time that he waited, and by a second
_POLL_SHARE, _SHORTEST_POLL, _LONGEST_POLL = 0.1, 0.02, 1.0
#: a hint that names no chain is every commit on SQLite: looks that follow one keep this distance
_HINT_SHARE, _SHORTEST_GAP, _LONGEST_GAP = 0.02, 0.005, 0.1
#: announcements are good for an hour
_ANNOUNCE_AGAIN = 600.0
_WITHDRAW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the thread needs; opened in it and closed before it ends.

    - `channel`: on which ends of chains are announced; None where nobody announces them.
    """

    open_store: Callable[[], AsyncStore]
    open_listener: Callable[[], ChainListener]
    channel: str | None


class Ticket:
    """One who waits for a chain."""

    __slots__ = ("chain_id", "desk", "last", "sight")

    def __init__(self, chain_id: str, desk: _Desk) -> None:
        self.chain_id = chain_id
        self.desk = desk
        #: the chain when it was over
        self.sight: Future[Sight] = Future()
        # Now nobody can cancel it: an event loop would, when its task gives up.
        self.sight.set_running_or_notify_cancel()
        #: the chain when it was last seen
        self.last: Sight | None = None


class Attendance:
    """Where waiters of any thread or event loop sign on and off."""

    def __init__(self, make_surroundings: Callable[[], Surroundings]) -> None:
        self._make_surroundings = make_surroundings
        self._lock = threading.Lock()
        self._desk: _Desk | None = None
        self.crowd = 0
        forget_after_fork(self)

    def after_fork(self) -> None:
        self._lock, self._desk, self.crowd = threading.Lock(), None, 0

    @contextlib.contextmanager
    def present(self) -> Iterator[None]:
        """Count somebody who waits, whether at the desk or by himself."""
        with self._lock:
            self.crowd += 1
        try:
            yield
        finally:
            with self._lock:
                self.crowd -= 1

    def join(self, chain_id: str) -> Ticket:
        """Have a chain watched; `leave` with the ticket, whatever happens."""
        with self._lock:
            if self._desk is None or self._desk.ended.done():
                self._desk = _Desk(self._make_surroundings(), self._lock)
            ticket = Ticket(chain_id, self._desk)
            self._desk.tickets.add(ticket)
            self._desk.call(self._desk.admit, ticket)
            return ticket

    def leave(self, ticket: Ticket) -> Future[None] | None:
        """Nobody waits with this ticket any more; of the last one, what comes back tells when the thread has ended."""
        desk = ticket.desk
        with self._lock:
            desk.tickets.discard(ticket)
            if desk.tickets:
                desk.call(desk.dismiss, ticket)
                return None
            if self._desk is desk:
                self._desk = None
        desk.call(desk.stop)
        return desk.ended


class _Watch:
    """A chain that somebody waits for."""

    __slots__ = ("began", "due", "looked_at", "slack", "tickets")

    def __init__(self) -> None:
        self.tickets: list[Ticket] = []
        self.began = self.due = self.looked_at = time.monotonic()
        self.slack = 0.0

    def looked(self, now: float) -> None:
        """Again later; with others whose time is nearly there, so that they end up in one statement."""
        pause = _clamp(_POLL_SHARE * (now - self.began), _SHORTEST_POLL, _LONGEST_POLL)
        self.looked_at, self.due, self.slack = now, now + pause, pause / 2

    def hurry(self, now: float) -> None:
        """It may have ended."""
        gap = _clamp(_HINT_SHARE * (now - self.began), _SHORTEST_GAP, _LONGEST_GAP)
        self.due = min(self.due, self.looked_at + gap)


def _clamp(value: float, least: float, most: float) -> float:
    return max(least, min(value, most))


class _Desk:
    """The thread and its event loop; everything but `tickets`, `call` and `ended` belongs to that loop."""

    def __init__(self, surroundings: Surroundings, lock: threading.Lock) -> None:
        self._surroundings = surroundings
        self._lock = lock
        #: who has not left yet, under the lock
        self.tickets: set[Ticket] = set()
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()
        self._watches: dict[str, _Watch] = {}
        self._announced: set[str] = set()
        self._announce_again = 0.0
        self._is_silent = surroundings.channel is None
        self._listener: ChainListener | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name="holdfast-waiting", daemon=True).start()

    def call(self, work: Callable[..., None], *arguments: object) -> None:
        """From any thread; a loop that has ended has nothing more to do."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(work, *arguments)

    def admit(self, ticket: Ticket) -> None:
        self._watches.setdefault(ticket.chain_id, _Watch()).tickets.append(ticket)
        self._poke()

    def dismiss(self, ticket: Ticket) -> None:
        watch = self._watches.get(ticket.chain_id)
        if watch is not None and ticket in watch.tickets:
            watch.tickets.remove(ticket)
            if not watch.tickets:
                del self._watches[ticket.chain_id]
                self._poke()

    def stop(self) -> None:
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    def _poke(self) -> None:
        if self._listener is not None:
            self._listener.poke()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve())
        except BaseException as caught:  # noqa: BLE001 - told to everybody who waits
            error = caught
        with self._lock:
            self.ended.set_result(None)
            left = list(self.tickets)
        for ticket in left:
            if not ticket.sight.done():
                ticket.sight.set_exception(error or RuntimeError("the thread that watches chains has ended"))

    async def _serve(self) -> None:
        if self._is_stopped:
            return
        self._task = asyncio.current_task()
        self._listener = self._surroundings.open_listener()
        store = self._surroundings.open_store()
        try:
            while True:
                await self._announce(store)
                await self._look(store, self._due(self._listener.news()))
                await self._listener.wait(self._pause())
        except asyncio.CancelledError:
            pass  # by `stop`: nobody else knows this task
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WITHDRAW_SECONDS):
                    await self._withdraw(store, self._announced)
            await self._listener.close()
            await store.close()

    def _due(self, told: set[str] | None) -> list[str]:
        now = time.monotonic()
        for chain_id in self._watches if told is None else told & self._watches.keys():
            self._watches[chain_id].hurry(now)
        if not any(watch.due <= now for watch in self._watches.values()):
            return []
        return [chain_id for chain_id, watch in self._watches.items() if watch.due <= now + watch.slack]

    def _pause(self) -> float:
        now = time.monotonic()
        return max(0.0, min((watch.due for watch in self._watches.values()), default=now + _LONGEST_POLL) - now)

    async def _look(self, store: AsyncStore, chain_ids: list[str]) -> None:
        if not chain_ids:
            return
        sights: list[Sight] = []
        try:
            sights = await store.run(lambda: look_at_chains(chain_ids), read_only=True)
        except DatabaseUnavailable as error:
            # It may come back, and everybody who waits says himself for how long he does.
            _log.warning("waiting for %d chains, but: %s", len(chain_ids), error)
        for sight in sights:
            if sight.chain_id in self._watches:
                self._show(sight)
        now = time.monotonic()
        for chain_id in chain_ids:
            if chain_id in self._watches:
                self._watches[chain_id].looked(now)

    def _show(self, sight: Sight) -> None:
        for ticket in self._watches[sight.chain_id].tickets:
            ticket.last = sight
            if sight.is_over and not ticket.sight.done():
                ticket.sight.set_result(sight)
        if sight.is_over:
            del self._watches[sight.chain_id]

    async def _announce(self, store: AsyncStore) -> None:
        """Before the look: an end that comes after it is told."""
        if self._is_silent:
            return
        await self._withdraw(store, self._announced - self._watches.keys())
        now = time.monotonic()
        if now > self._announce_again:
            self._announced.clear()
            self._announce_again = now + _ANNOUNCE_AGAIN
        if newcomers := self._watches.keys() - self._announced:
            channel = self._surroundings.channel or ""
            if await self._tell(store, lambda: announce_waiters(channel, newcomers)):
                self._announced |= newcomers

    async def _withdraw(self, store: AsyncStore, chain_ids: Iterable[str]) -> None:
        if gone := set(chain_ids):
            channel = self._surroundings.channel or ""
            await self._tell(store, lambda: withdraw_waiters(channel, gone))
            self._announced -= gone

    async def _tell(self, store: AsyncStore, verb: Callable[[], object]) -> bool:
        """Polling goes on without: a reader without the right to write may wait too."""
        try:
            await store.run(verb)  # type: ignore[arg-type]  # one of the two verbs above
        except DatabaseUnavailable as error:
            _log.debug("waiters not announced: %s", error)
            return False
        except StoreError as error:
            _log.debug("waiters are not announced any more: %s", error)
            self._is_silent = True
            return False
        return True


def result_of(future: Future[T] | None, seconds: float | None) -> T | None:
    """What a future brings within so many seconds, or None."""
    if future is None:
        return None
    try:
        return future.result(seconds)
    except TimeoutError:
        if future.done():
            raise
        return None


async def aresult_of(future: Future[T] | None, seconds: float | None) -> T | None:
    """The same on an event loop."""
    if future is None:
        return None
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.wrap_future(future)
    except TimeoutError:
        if future.done():
            return future.result()
        return None
