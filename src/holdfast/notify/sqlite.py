"""SQLite: other processes' commits are seen in `PRAGMA data_version`."""

from __future__ import annotations

import asyncio
import sqlite3
import time

#: how often an idle worker looks; a look costs some microseconds
_INTERVAL = 0.005


class _FileWatch:
    """A connection that sees whether anybody, this process included, has committed since it last looked."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._seen: int | None = None
        self._is_closed = False

    def has_changed(self) -> bool:
        if self._is_closed:
            return False
        try:
            if self._connection is None:
                # Looked through by one thread at a time; the one that closes it may be another.
                self._connection = sqlite3.connect(self._path, isolation_level=None, timeout=0, check_same_thread=False)
            version: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return False  # the poll goes on, and whoever really needs the file reports what is wrong with it
        changed = self._seen is not None and version != self._seen
        self._seen = version
        return changed

    def close(self) -> None:
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class DataVersionWaker:
    """Watches the file only while somebody waits; a busy worker costs nothing."""

    def __init__(self, path: str) -> None:
        self._event = asyncio.Event()
        self._watch = _FileWatch(path)
        self._lease_watch = _FileWatch(path)

    #: nobody needs to tell: whatever is committed is seen
    lease_channel: str | None = None

    def start(self) -> None:
        """Watching begins with the first look."""

    def has_lease_news(self, worker_id: str) -> bool:  # noqa: ARG002 - the file does not say whose job it was
        return self._lease_watch.has_changed()

    async def wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self._event.is_set() and (left := deadline - time.monotonic()) > 0:
            if self._has_changed():
                break
            try:
                async with asyncio.timeout(min(_INTERVAL, left)):
                    await self._event.wait()
            except TimeoutError:
                pass
        self._event.clear()

    def poke(self) -> None:
        self._event.set()

    async def close(self) -> None:
        self._watch.close()
        self._lease_watch.close()

    def _has_changed(self) -> bool:
        return self._watch.has_changed()


class FileListener(DataVersionWaker):
    """Takes every commit for the possible end of any chain."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._is_news = False
        self._has_changed()

    def news(self) -> set[str] | None:
        is_news, self._is_news = self._is_news, False
        return None if is_news else set()

    def _has_changed(self) -> bool:
        changed = super()._has_changed()
        self._is_news |= changed
        return changed
