"""The receiving end of NOTIFY: one connection for everybody in the process who waits for anything."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future

import psycopg

from holdfast.model.fork import forget_after_fork
from holdfast.notify.board import DEAF_SECONDS, Board
from holdfast.notify.loop_thread import LoopThread
from holdfast.notify.postgres_sender import PostgresSender

_log = logging.getLogger("holdfast.notify")

_PING_SECONDS = 15.0
_FIRST_BACKOFF, _LONGEST_BACKOFF = 0.1, 5.0
#: how long a probe may take; and after how long the next one follows, if it was heard and if not
_PROBE_SECONDS = 5.0
_PROBE_AGAIN_SECONDS, _DEAF_AGAIN_SECONDS = 300.0, 60.0
_PROBE = "probe "


class PostgresListener:
    """Listens while somebody is subscribed, and knows whether it hears.

    A notification that a pooler swallows is not missed by anybody who does not know of it.  So the listener sends
    itself a probe in the way that all hints are sent: if that is not heard, everybody looks more often.
    """

    def __init__(
        self,
        board: Board,
        sender: PostgresSender,
        *,
        work: str,
        lease: str,
        own: str,
        conninfo: str,
        may_listen: bool,
    ) -> None:
        self._board = board
        self._sender = sender
        self._work, self._lease, self._own = work, lease, own
        self._conninfo = conninfo
        self._may_listen = may_listen
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        self._ending: Future[None] | None = None
        self._has_workers = False
        self._has_complained = False
        # Of the thread's loop:
        self._has_changed = False
        #: what has been sent to itself and not been heard yet
        self._probe: str | None = None
        self._stir = asyncio.Event()
        forget_after_fork(self)

    def after_fork(self) -> None:
        self._lock, self._thread, self._ending = threading.Lock(), None, None

    def follow(self) -> None:
        """Somebody has come or gone; from any thread."""
        is_wanted, has_workers = not self._board.is_empty, bool(self._board.queues)
        with self._lock:
            if is_wanted == (self._thread is not None) and has_workers == self._has_workers:
                return
            self._has_workers = has_workers
            if not is_wanted and self._thread is not None:
                self._ending, self._thread = self._thread.stop(), None
            elif is_wanted and self._thread is None:
                if not self._may_listen:
                    self._fall_deaf("App(pooled=True) says that a pooler is between")
                    return
                self._has_changed, self._stir = False, asyncio.Event()
                self._thread = LoopThread("holdfast-listener", self._serve)
            elif self._thread is not None:
                self._thread.call(self._change)

    def ending(self) -> Future[None] | None:
        return self._ending if self._thread is None else None

    async def _serve(self) -> None:
        backoff = _FIRST_BACKOFF
        failures = 0
        while True:
            try:
                async with await psycopg.AsyncConnection.connect(
                    self._conninfo, autocommit=True, prepare_threshold=None, connect_timeout=5
                ) as connection:
                    connection.add_notify_handler(self._hear_beside)
                    await self._listen(connection)
                    backoff, failures = _FIRST_BACKOFF, 0
                    await self._receive(connection)
            except _Unheard:
                backoff = _DEAF_AGAIN_SECONDS
            except (psycopg.Error, OSError, TimeoutError) as error:
                _log.debug("listener: %s; again in %.1f s", error, backoff)
                self._board.fall_deaf()
                failures += 1
                if failures == _PATIENT_FAILURES:
                    self._fall_deaf(" ".join(str(error).split()) or type(error).__name__)
            await asyncio.sleep(backoff * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
            backoff = min(backoff * 2, _LONGEST_BACKOFF)

    async def _listen(self, connection: psycopg.AsyncConnection) -> None:
        pid = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
        if pid is None or pid[0] != connection.info.backend_pid:
            # A pooler.  One that gives us a session is good; any other leaves what we listen to with a stranger, so
            # before we know it is a channel on which nobody but ourselves ever says anything.
            self._board.fall_deaf()
            await self._listen_to(connection, [self._own])
            if not await self._hears_itself(connection):
                self._fall_deaf("a pooler swallows them")
                raise _Unheard
        await self._listen_to(connection, self._wanted())
        # After a complaint only a probe that is heard makes it good.
        self._board.is_deaf = self._has_complained
        # Hints sent while nobody listened are lost: look once.
        self._board.tell_anything()

    async def _receive(self, connection: psycopg.AsyncConnection) -> None:
        """Pass hints on; a silent connection is pinged, because a half-open one stays silent for ever."""
        loop = asyncio.get_running_loop()
        next_probe = loop.time()
        while True:
            if self._has_changed:
                self._has_changed = False
                await self._listen_to(connection, self._wanted())
                self._board.tell_anything()
            if loop.time() >= next_probe:
                is_heard = await self._hears_itself(connection)
                self._be_heard() if is_heard else self._fall_deaf("nothing that is sent arrives")
                next_probe = loop.time() + (_PROBE_AGAIN_SECONDS if is_heard else _DEAF_AGAIN_SECONDS)
            if not await self._pass_on(connection, lambda: self._has_changed, _PING_SECONDS):
                async with asyncio.timeout(_PING_SECONDS):
                    await connection.execute("SELECT 1")

    def _wanted(self) -> list[str]:
        return [self._work, self._lease, self._own] if self._board.queues else [self._own]

    @staticmethod
    async def _listen_to(connection: psycopg.AsyncConnection, channels: Iterable[str]) -> None:
        statement = "; ".join(f'LISTEN "{channel}"' for channel in channels)  # checked identifiers
        async with asyncio.timeout(_PING_SECONDS):
            await connection.execute(statement.encode())

    async def _hears_itself(self, connection: psycopg.AsyncConnection) -> bool:
        """Whether what is sent in the ordinary way arrives here."""
        self._probe = _PROBE + secrets.token_hex(8)
        self._sender.send([self._probe], self._own)
        return await self._pass_on(connection, lambda: self._probe is None, _PROBE_SECONDS)

    async def _pass_on(self, connection: psycopg.AsyncConnection, is_over: Callable[[], bool], seconds: float) -> bool:
        """What comes in, until it is over or so many seconds have gone by; whether it is over.

        Reads by itself, because psycopg's generator wakes ten times a second to see whether it was interrupted.
        """
        loop = asyncio.get_running_loop()
        failures: list[Exception] = []

        def read() -> None:
            try:
                connection.pgconn.consume_input()
                while (notification := connection.pgconn.notifies()) is not None:
                    payload = notification.extra.decode(errors="replace")  # anybody may notify
                    self._take(notification.relname.decode(errors="replace"), payload, notification.be_pid)
            except psycopg.Error as error:
                failures.append(error)
                self._stir.set()

        read()
        descriptor = connection.fileno()
        loop.add_reader(descriptor, read)
        try:
            async with asyncio.timeout(seconds):
                while not is_over() and not failures:
                    self._stir.clear()
                    await self._stir.wait()
        except TimeoutError:
            pass
        finally:
            loop.remove_reader(descriptor)
        if failures:
            raise failures[0]
        return is_over()

    def _hear_beside(self, notification: psycopg.Notify) -> None:
        """What came in with the answer to a statement."""
        self._take(notification.channel, notification.payload, notification.pid)

    def _take(self, channel: str, payload: str, pid: int) -> None:
        if channel == self._work:
            # Whoever is in this process has been told by what was sent, before it was sent.
            if pid != self._sender.backend_pid:
                self._board.tell_work(payload)
        elif channel == self._lease:
            self._board.tell_lease(payload)
        elif payload == self._probe:
            self._probe = None
            self._stir.set()
        elif not payload.startswith(_PROBE):
            self._board.tell_chain(payload)

    def _change(self) -> None:
        self._has_changed = True
        self._stir.set()

    def _be_heard(self) -> None:
        self._board.is_deaf = False
        if self._has_complained:
            self._has_complained = False
            _log.info("notifications arrive again")

    def _fall_deaf(self, why: str) -> None:
        self._board.fall_deaf()
        if not self._has_complained:
            self._has_complained = True
            _log.warning(
                "notifications of PostgreSQL do not arrive (%s); looking every %g s instead. If a pooler is between, "
                "give App(listen_url=…) or HOLDFAST_LISTEN_URL an address that leads to the server itself",
                why,
                DEAF_SECONDS,
            )


#: of connecting, before it is said aloud
_PATIENT_FAILURES = 5


class _Unheard(Exception):
    """The connection is of no use; the next one may be."""
