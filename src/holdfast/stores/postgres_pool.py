"""The connections of one event loop: who asks for one gets the oldest that is free."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

#: how long somebody waits for a connection
PATIENCE_SECONDS = 10.0
#: between tries to connect, doubling
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 2.0
#: what nobody has needed for so long is closed, and what is so old too: settings and libraries of the server change
_IDLE_SECONDS = 600.0
_LIFE_SECONDS = 3600.0

Connection = psycopg.AsyncConnection[Any]


class NoConnection(Exception):
    """There was none in time."""


class PoolClosed(Exception):
    """There is none any more."""


class PostgresPool:
    """At most `size` connections, opened one after the other when somebody waits.

    The pool of psycopg hands them out in turns.  Here it is always the oldest that is free: its plans are made, which
    takes six executions, its server process is warm, and those that only a rush has needed can be closed.  Nor does
    anybody wait for the event loop where one lies ready, or when it goes back: that is between a claim and its jobs.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], size: int) -> None:
        self._connect = connect
        self._size = size
        #: open, or being opened
        self._count = 0
        #: and the times at which they came back
        self._idle: dict[Connection, float] = {}
        #: when each was opened, and when it is too old
        self._lives: dict[Connection, tuple[float, float]] = {}
        self._waiting: deque[asyncio.Future[Connection]] = deque()
        self._opening: asyncio.Task[None] | None = None
        self._is_closed = False

    async def take(self) -> Connection:
        """Who takes one gives it back, whatever happens."""
        if self._is_closed:
            raise PoolClosed
        while self._idle:
            connection = min(self._idle, key=self._lives.__getitem__)
            del self._idle[connection]
            if not connection.closed:
                return connection
            self._discard(connection)
        return await self._wait()

    async def _wait(self) -> Connection:
        waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        self._grow()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await waiter
        except TimeoutError:
            self._leave(waiter)
            raise NoConnection from None
        except asyncio.CancelledError:
            self._leave(waiter)
            raise

    def _leave(self, waiter: asyncio.Future[Connection]) -> None:
        """Who is cancelled may have been given one just before."""
        with contextlib.suppress(ValueError):
            self._waiting.remove(waiter)
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self.give_back(waiter.result())

    def give_back(self, connection: Connection) -> None:
        """One that is not idle, because somebody was cancelled or lost it, is closed."""
        is_idle = connection.pgconn.transaction_status == TransactionStatus.IDLE
        if self._is_closed or not is_idle or time.monotonic() >= self._lives[connection][1]:
            self._discard(connection)
        else:
            self._lay_down(connection)
        self._discard_unused()

    def _lay_down(self, connection: Connection) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._idle[connection] = time.monotonic()

    def _discard_unused(self) -> None:
        if len(self._idle) > 1:
            youngest = max(self._idle, key=self._lives.__getitem__)
            if time.monotonic() - self._idle[youngest] > _IDLE_SECONDS:
                del self._idle[youngest]
                self._discard(youngest)

    def _discard(self, connection: Connection) -> None:
        connection.pgconn.finish()
        del self._lives[connection]
        self._count -= 1
        self._grow()

    def _grow(self) -> None:
        is_wanted = bool(self._waiting) and self._count < self._size
        if is_wanted and (self._opening is None or self._opening.done()):
            self._opening = asyncio.create_task(self._open(), name="holdfast-connecting")

    async def _open(self) -> None:
        """One after the other: those who wait may be served by one that comes back before the next is there."""
        pause = _FIRST_PAUSE_SECONDS
        while self._waiting and self._count < self._size:
            self._count += 1
            try:
                connection = await self._connect()
            except (psycopg.Error, OSError):
                self._count -= 1
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
                pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)
            except BaseException:
                self._count -= 1
                raise
            else:
                pause = _FIRST_PAUSE_SECONDS
                now = time.monotonic()
                self._lives[connection] = (now, now + _LIFE_SECONDS * random.uniform(0.95, 1))  # noqa: S311 - as above
                self.give_back(connection)

    async def check(self) -> None:
        """Close those that lie idle and do not answer."""
        unchecked = list(self._idle)
        self._idle.clear()
        # All at once: what does not answer is waited for until the system gives it up.
        await asyncio.gather(*map(self._check, unchecked))

    async def _check(self, connection: Connection) -> None:
        try:
            with contextlib.suppress(psycopg.Error, OSError):
                await connection.execute(b"")
        finally:
            self.give_back(connection)

    async def close(self) -> None:
        """Those that are in use are closed when they come back."""
        self._is_closed = True  # nobody waits any more, so none is opened either
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(PoolClosed())
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
            self._opening = None  # it remembers how it was cancelled, and with that a connection that is half made
        while self._idle:
            connection, _ = self._idle.popitem()
            self._discard(connection)
