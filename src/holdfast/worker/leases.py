"""Heartbeats and lease renewals, in a thread of their own with a connection of its own.

A handler that blocks the event loop cannot starve them; they give up by the time since the last success, not by
counting failures.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial

from holdfast.errors import HoldfastError
from holdfast.model.settings import RetrySettings
from holdfast.operations.lease import Lease
from holdfast.operations.renew_leases import LeaseNews, check_leases, renew_leases
from holdfast.operations.statement import Operation
from holdfast.operations.worker_life import WorkerIdentity, heartbeat
from holdfast.stores import SyncStore
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.config import WorkerConfig
from holdfast.worker.moment import Moment

_log = logging.getLogger("holdfast.worker")

#: how long before others take it for dead a silent worker stops by itself
_MARGIN_SECONDS = 5.0
_TICK_SECONDS = 0.5
_BATCH = 1000


class LeaseKeeper:
    """Keeps the worker alive in the eyes of others, and tells it when it is not."""

    def __init__(
        self,
        store: SyncStore,
        identity: WorkerIdentity,
        config: WorkerConfig,
        *,
        leases: Callable[[], Iterable[Lease]],
        has_news: Callable[[], bool],
        lost: Callable[[dict[Lease, Cancellation]], None],
        asked_to_stop: Callable[[set[Lease]], None],
        silent: Callable[[], None],
        heard: Callable[[], None],
        leaderless: Callable[[], None],
        set_for_retries: Callable[[RetrySettings], None] = lambda _: None,
    ) -> None:
        self._store = store
        self._identity = identity
        self._config = config
        self._leases = leases
        self._has_news = has_news
        self._lost = lost
        self._asked_to_stop = asked_to_stop
        self._silent = silent
        self._heard = heard
        self._leaderless = leaderless
        self._set_for_retries = set_for_retries
        self._settings: str | None = None
        self._interrupted: Moment | None = None
        self._stop = threading.Event()
        #: could not be renewed because somebody else has locked their rows; tried again at every tick
        self._locked: set[Lease] = set()
        self._judging = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="holdfast-leases", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="holdfast-watch", daemon=True)
        self.is_draining = False
        self._last_heard = Moment()
        #: when the database was last reached after not being reached
        self._recovered = Moment()
        self._is_silent = False

    def start(self) -> None:
        """The caller has just registered the worker: that was the first heartbeat."""
        self._last_heard = self._recovered = Moment()
        self._thread.start()
        self._watcher.start()

    @property
    def is_steady(self) -> bool:
        """Whether we have been heard without a gap for `dead_after`: then whoever was not is silent by himself."""
        dead_after = self._config.dead_after.total_seconds()
        return self._last_heard.age <= dead_after / 2 and self._recovered.age >= dead_after

    @property
    def is_heard(self) -> bool:
        """Whether we have been heard of late."""
        return not self._was_away

    @property
    def silent_seconds(self) -> float:
        """Since the last heartbeat that was acknowledged."""
        return self._last_heard.age

    def close(self) -> None:
        self._stop.set()
        self._watcher.join(timeout=5)
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        next_beat = time.monotonic() + self._config.heartbeat.total_seconds()
        next_renewal = time.monotonic() + self._config.renew.total_seconds()
        tick = min(_TICK_SECONDS, self._config.heartbeat.total_seconds() / 4)
        while not self._stop.wait(tick):
            now = time.monotonic()
            if self._was_away:
                next_beat = next_renewal = now
            if now >= next_beat:
                next_beat = now + (self._config.heartbeat.total_seconds() if self._beat() else tick)
            if now >= next_renewal:
                next_renewal = now + (self._config.renew.total_seconds() if self._renew(self._leases()) else tick)
            elif self._locked:
                self._renew(lease for lease in self._leases() if lease in self._locked)
            if self._has_news():
                self._look()

    def _watch(self) -> None:
        """Beside the thread that may be waiting for a database which does not answer."""
        tick = min(_TICK_SECONDS, self._config.heartbeat.total_seconds() / 4)
        while not self._stop.wait(tick):
            self._judge()

    def _beat(self) -> bool:
        try:
            pulse = self._store.run(
                lambda: heartbeat(self._identity, self._config.dead_after, is_draining=self.is_draining)
            )
        except HoldfastError as error:
            _log.warning("heartbeat failed: %s", error)
            return False
        with self._judging:
            # Now, not when it was sent: the heartbeat itself may have waited out an outage.
            if self._is_silent or self._was_away:
                self._recovered = Moment()
            self._last_heard = Moment()
            was_silent, self._is_silent = self._is_silent, False
        if was_silent:
            self._heard()
        if not pulse.has_leader:
            self._leaderless()
        if pulse.settings != self._settings:
            self._settings = pulse.settings
            self._set_for_retries(pulse.retry_settings)
        return True

    def _renew(self, held: Iterable[Lease]) -> bool:
        locked = self._ask(held, lambda batch: renew_leases(batch, self._config.lease))
        if locked is None:
            return False
        self._locked = locked
        return True

    def _look(self) -> None:
        """Something may have happened to a job of ours: its handler need not wait for the next renewal."""
        self._ask(self._leases(), check_leases, read_only=True)

    def _ask(
        self,
        held: Iterable[Lease],
        verb: Callable[[list[Lease]], Operation[LeaseNews]],
        *,
        read_only: bool = False,
    ) -> set[Lease] | None:
        """Pass on what the database says of our leases; returns those that are locked, None if it did not answer."""
        leases, replaced = _newest(held)
        lost = dict.fromkeys(replaced, Cancellation.LEASE_LOST)
        asked_to_stop: set[Lease] = set()
        locked: set[Lease] = set()
        try:
            for start in range(0, len(leases), _BATCH):
                batch = leases[start : start + _BATCH]
                news = self._store.run(partial(verb, batch), read_only=read_only)
                lost |= {lease: Cancellation(news.reasons[lease.id]) for lease in batch if lease.id in news.lost}
                asked_to_stop |= {lease for lease in batch if lease.id in news.cancel_requested}
                locked |= {lease for lease in batch if lease.id in news.locked}
        except HoldfastError as error:
            _log.warning("lease renewal failed: %s", error)
            return None
        if lost:
            self._lost(lost)
        if asked_to_stop:
            self._asked_to_stop(asked_to_stop)
        return locked

    def _judge(self) -> None:
        patience = max(
            self._config.dead_after.total_seconds() - _MARGIN_SECONDS, self._config.dead_after.total_seconds() / 2
        )
        with self._judging:
            is_newly_silent = not self._is_silent and self._last_heard.age > patience
            self._is_silent |= is_newly_silent
        if is_newly_silent:
            self._silent()
        if self._is_silent and (self._interrupted is None or self._interrupted.age > patience):
            # Connections may be half open: whoever waits for an answer on one waits for ever.
            self._interrupted = Moment()
            self._store.interrupt()

    @property
    def _was_away(self) -> bool:
        """A long gap means that we were suspended, stopped or cut off, even if no heartbeat failed."""
        return self._last_heard.age > self._config.dead_after.total_seconds() / 2


def _newest(held: Iterable[Lease]) -> tuple[list[Lease], set[Lease]]:
    """Of each job the newest lease, and those it replaces: a thread may still run under a lease that was lost."""
    newest: dict[str, Lease] = {}
    replaced: set[Lease] = set()
    for lease in sorted(held, key=lambda lease: lease.lease_generation):
        if lease.id in newest:
            replaced.add(newest[lease.id])
        newest[lease.id] = lease
    return list(newest.values()), replaced - {*newest.values()}
