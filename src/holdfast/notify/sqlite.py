"""SQLite: other processes' commits are seen in `PRAGMA data_version`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from concurrent.futures import Future

from holdfast.model.fork import forget_after_fork
from holdfast.notify.base import counted
from holdfast.notify.board import Board, BoardListener, BoardWaker
from holdfast.notify.file_events import FileEvents
from holdfast.notify.file_watch import FileWatch, Lookout

#: how far hints are apart
_INTERVAL = 0.004


class FileNotifier:
    """Direct signals inside the process, and one thread that watches the file while anybody waits."""

    inner_channel: str | None = None
    #: nobody needs to tell: whatever is committed is seen
    chain_channel: str | None = None

    def __init__(self, path: str) -> None:
        self.path = path
        self._make_board()
        forget_after_fork(self)

    def _make_board(self) -> None:
        self.board = Board(self._follow, self._follow)
        self.board.ending = lambda: self._ended if self._watch is None else None
        self._wake = threading.Condition()
        self._watch: FileWatch | None = None
        self._events: FileEvents | None = None
        self._ended: Future[None] | None = None

    def after_fork(self) -> None:
        self._make_board()

    def open_waker(self, queues: Iterable[str]) -> FileWaker:
        return FileWaker(self.board, queues, self.path)

    def open_chain_listener(self) -> BoardListener:
        return FileListener(self.board)

    def hint(self, work: Iterable[str], *, has_ridden: bool = False) -> None:  # noqa: ARG002 - nothing rides
        for queue, count in counted(work).items():
            self.board.tell_work(queue, count)

    def may_ride_along(self) -> bool:
        return False

    def close(self) -> None:
        """What listens ends with the last who is told."""

    def _follow(self) -> None:
        with self._wake:
            if self._watch is None and not self.board.is_empty:
                self._watch = FileWatch(self.path)
                # Now, not in the thread: what is committed from here on is news.
                self._watch.has_changed()
                self._ended = Future()
                self._ended.set_running_or_notify_cancel()  # so that nobody who gives up waiting for it cancels it
                threading.Thread(
                    target=self._serve, args=(self._watch, self._ended), name="holdfast-file-watch", daemon=True
                ).start()
            elif self.board.is_empty and self._watch is not None:
                self._watch = None
                if self._events is not None:
                    # Under the lock: its thread closes it only when it has been here.
                    self._events.interrupt()
                    self._events = None
            self._wake.notify()

    def _serve(self, watch: FileWatch, ended: Future[None]) -> None:
        events = FileEvents.of([self.path, f"{self.path}-wal", f"{self.path}-journal"])
        lookout = Lookout(watch, events)
        while True:
            with self._wake:
                while self._watch is watch and not self.board.has_idle:
                    self._wake.wait()
                if self._watch is not watch:
                    break
                self._events = events
            if lookout.sees_change():
                self.board.tell_anything()
                time.sleep(_INTERVAL)
        watch.close()
        if events is not None:
            events.close()
        ended.set_result(None)


class FileWaker(BoardWaker):
    """Sees every commit; which one touched a job of its worker the file does not say."""

    def __init__(self, board: Board, queues: Iterable[str], path: str) -> None:
        super().__init__(board, queues)
        # Of its own: the other watch looks only while somebody waits, and a busy worker holds leases too.
        self._leases = FileWatch(path)

    def start(self) -> None:
        if self._loop is None:
            # Now, not at the first question: what happens until then is news.
            self._leases.has_changed()
        super().start()

    def has_lease_news(self, worker_id: str) -> bool:  # noqa: ARG002 - as above
        return self._leases.has_changed()

    async def close(self) -> None:
        await super().close()
        self._leases.close()


class FileListener(BoardListener):
    """Takes every commit for the possible end of any chain; listens from the beginning."""

    def __init__(self, board: Board) -> None:
        super().__init__(board)
        self.start()
