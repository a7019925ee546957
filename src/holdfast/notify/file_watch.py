"""Seeing that somebody has committed to a SQLite file."""

from __future__ import annotations

import sqlite3
import threading
import time

from holdfast.notify.file_events import FileEvents

#: how often somebody looks where the kernel does not tell of writes
_INTERVAL = 0.004
#: how often otherwise
_SAFETY = 0.1
#: after a write, until its commit can be seen: it has to reach the disk first
_SOON = (*(0.0001,) * 10, *(0.00025,) * 8)
_PAUSES = (*_SOON, *(0.001,) * 5, *(0.002,) * 5, *(0.004,) * 5, *(0.01,) * 4, _SAFETY)


class FileWatch:
    """A connection that sees whether anybody, this process included, has committed since it last looked."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None
        self._is_closed = False

    def has_changed(self) -> bool:
        with self._lock:
            if self._is_closed:
                return False
            try:
                if self._connection is None:
                    # Looked through by one thread at a time, not always the same.
                    self._connection = sqlite3.connect(
                        self._path, isolation_level=None, timeout=0, check_same_thread=False
                    )
                version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
            except sqlite3.Error:
                return False  # the poll goes on, and whoever really needs the file reports what is wrong with it
            changed = self._seen is not None and version != self._seen
            self._seen = version
            return changed

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class Lookout:
    """When to look: told by the kernel, who waits costs nothing; a look every 4 ms took 2 % of a core.

    A write is told of once, and its commit can be seen only some time after.  So whoever has heard of a write goes on
    looking for a while, even if he sees a change: that may have been the one before.
    """

    def __init__(self, watch: FileWatch, events: FileEvents | None) -> None:
        self._watch = watch
        self._events = events
        #: which pause is next
        self._paused = len(_PAUSES) - 1

    def sees_change(self) -> bool:
        """Look once, and pause if there is nothing to see."""
        if self._events is not None and self._events.take():
            self._paused = 0
        if self._watch.has_changed():
            self._paused = max(self._paused, len(_SOON))
            return True
        if self._events is None:
            time.sleep(_INTERVAL)
            return False
        pause = _PAUSES[self._paused]
        if self._paused < len(_SOON):
            time.sleep(pause)  # less than a millisecond, which is the least that one can wait for events
        else:
            self._events.wait(pause)
        self._paused = min(self._paused + 1, len(_PAUSES) - 1)
        return False
