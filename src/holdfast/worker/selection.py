"""Which jobs of its queues a worker claims now, and which of its queues come first."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from holdfast.errors import InvalidOption
from holdfast.model.flags import checked_flags
from holdfast.model.queue_order import Arrangement
from holdfast.model.scan_position import Lane
from holdfast.model.taste import taste
from holdfast.worker.config import WorkerConfig
from holdfast.worker.ring_keeper import RingKeeper

_log = logging.getLogger("holdfast.worker")


class Selection:
    """Asked before every claim; nothing in it asks the database."""

    def __init__(self, config: WorkerConfig, queues: Sequence[str], ring: RingKeeper) -> None:
        self._queues = queues
        self._ring = ring
        self._arrangement = Arrangement(config.queue_order, config.queues or queues)
        self._forbidden = config.forbidden_flags
        self._flags: list[str] = []
        #: the last answer, and what it was made of
        self._made_of: object = None
        self._taste: str | None = None

    @property
    def is_weighted(self) -> bool:
        """Whether its queues take turns."""
        return self._arrangement.is_weighted

    def arrange(self, lanes: Iterable[Lane]) -> list[Lane]:
        return self._arrangement.arrange(lanes)

    @property
    def taste(self) -> str | None:
        """What is left to others, as claims read it."""
        owned = {queue: buckets for queue in self._queues if (buckets := self._ring.owned(queue)) is not None}
        flags = self._forbidden_flags()
        if (flags, owned) != self._made_of:
            self._made_of = (flags, owned)
            self._taste = taste(flags, owned)
        return self._taste

    def _forbidden_flags(self) -> list[str]:
        if not callable(self._forbidden):
            return list(self._forbidden)
        try:
            self._flags = checked_flags("forbidden_flags", self._forbidden())
        except InvalidOption as error:
            _log.error("forbidden_flags: %s; those of before stay forbidden", error)
        except Exception:  # noqa: BLE001 - somebody else's function must not stop the worker
            _log.exception("forbidden_flags failed; those of before stay forbidden")
        return self._flags
