"""LISTEN/NOTIFY: one sending thread and one listening connection per process, both expendable."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable

from holdfast.model.fork import forget_after_fork
from holdfast.notify.board import Board, BoardListener, BoardWaker
from holdfast.notify.channels import chain_channel, lease_channel, work_channel
from holdfast.notify.letters import sorted_out
from holdfast.notify.postgres_listener import PostgresListener
from holdfast.notify.postgres_sender import PostgresSender

#: a hint inside the commit saves a round trip, but all of the server's notifying commits wait for each other, and for
#: the disk; so rides may take this share of a process's time.  Where many ride, each takes longer: they become rarer
_RIDING_SHARE = 0.1
#: but the next one comes after this at the latest: what took so long was no ride, but a lock that somebody else had
_LONGEST_PAUSE_SECONDS = 2.0
#: after one of which nobody said how it ended
_LOST_RIDE_SECONDS = 0.1


class PostgresNotifier:
    """Both ends of NOTIFY for one app.

    - `conninfo`: the ordinary way to the database, on which hints are sent.
    - `listen_conninfo` (the same): where to listen, if a pooler stands in the ordinary way.
    - `is_pooled` (found out): whether it is known that one does.
    """

    def __init__(
        self, conninfo: str, prefix: str, *, listen_conninfo: str | None = None, is_pooled: bool | None = None
    ) -> None:
        self.inner_channel = work_channel(prefix)
        self.chain_channel = chain_channel(prefix, secrets.token_hex(8))
        self._prefix = prefix
        self._conninfo = conninfo
        self._listen_conninfo = listen_conninfo
        self._is_pooled = is_pooled
        self.board = Board()
        self._riding = threading.Lock()
        self._ride_began = self._next_ride = 0.0
        self._connect()
        forget_after_fork(self)

    def _connect(self) -> None:
        self._sender = PostgresSender(self._conninfo, self.inner_channel)
        self._listener = PostgresListener(
            self.board,
            self._sender,
            work=self.inner_channel,
            lease=lease_channel(self._prefix),
            own=self.chain_channel,
            conninfo=self._listen_conninfo or self._conninfo,
            may_listen=self._listen_conninfo is not None or not self._is_pooled,
        )
        self.board.changed = self._listener.follow
        self.board.ending = self._listener.ending

    def after_fork(self) -> None:
        # A channel of its own, so that parent and child do not withdraw each other's announcements.
        self.chain_channel = chain_channel(self._prefix, secrets.token_hex(8))
        self._riding = threading.Lock()
        self._connect()

    def open_waker(self, queues: Iterable[str]) -> BoardWaker:
        return BoardWaker(self.board, queues, lease_channel(self._prefix))

    def open_chain_listener(self) -> BoardListener:
        return BoardListener(self.board)

    def may_ride_along(self) -> bool:
        now = time.monotonic()
        with self._riding:
            if now < self._next_ride:
                return False
            self._ride_began, self._next_ride = now, now + _LOST_RIDE_SECONDS
            return True

    def _end_ride(self) -> None:
        now = time.monotonic()
        with self._riding:
            pause = (now - self._ride_began) * (1 / _RIDING_SHARE - 1)
            self._next_ride = now + min(pause, _LONGEST_PAUSE_SECONDS)

    def hint(self, work: Iterable[str], *, has_ridden: bool = False) -> None:
        counts, _ = sorted_out(work)  # letters are for those who hear otherwise
        for queue, count in counts.items():
            self.board.tell_work(queue, count)
        if has_ridden:
            self._end_ride()
        elif counts:
            self._sender.send(counts)

    def close(self) -> None:
        self._sender.close()
