"""What handlers write with `ctx.log`, on its way to the database: from any thread, in batches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from functools import partial
from typing import NamedTuple

from msgspec import Raw

from holdfast.errors import HoldfastError
from holdfast.operations.lease import Lease
from holdfast.operations.write_logs import LogLine, write_logs
from holdfast.worker.backoff import Backoff
from holdfast.worker.patient_store import PatientStore

_log = logging.getLogger("holdfast.worker")

_BATCH = 500
#: a database that cannot keep up costs lines, not memory
_MOST_WAITING = 20_000


class _Entry(NamedTuple):
    lease: Lease
    level: str
    message: str
    fields: bytes | None
    written_at: float


class Journal:
    """A bounded box, and the one task that empties it."""

    def __init__(self, store: PatientStore) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Entry] = deque(maxlen=_MOST_WAITING)
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_scheduled = False

    def write(self, lease: Lease, level: str, message: str, fields: bytes | None) -> None:
        """From any thread; never waits, never fails."""
        if len(self._waiting) == _MOST_WAITING:
            _log.warning("too many lines of ctx.log wait for the database: the oldest is dropped")
        self._waiting.append(_Entry(lease, level, message, fields, time.monotonic()))
        # The flag is set by whoever writes and cleared by the loop before it empties the box.
        if not self._is_scheduled:
            self._is_scheduled = True
            try:
                self._loop.call_soon_threadsafe(self._ring)
            except RuntimeError:
                return  # the loop is closed: an abandoned thread outlived its worker

    async def run(self) -> None:
        """Write for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._flush()
            self._empty.set()

    async def drained(self) -> None:
        """Return when everything has been written."""
        await self._empty.wait()

    def _ring(self) -> None:
        self._is_scheduled = False
        self._empty.clear()
        self._wake.set()

    async def _flush(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH))]
        backoff = Backoff()
        while True:
            now = time.monotonic()
            lines = [_line(entry, now) for entry in batch]
            try:
                await self._store.run(partial(write_logs, lines))
            except HoldfastError as error:
                if backoff.seconds >= backoff.longest:
                    _log.warning("%d lines of ctx.log are lost: %s", len(batch), error)
                    return
                await backoff.wait()
            else:
                return


def _line(entry: _Entry, now: float) -> LogLine:
    fields = None if entry.fields is None else Raw(entry.fields)
    age_ms = int((now - entry.written_at) * 1000)
    return LogLine(entry.lease.id, entry.lease.lease_generation, entry.level, entry.message, fields, age_ms)
