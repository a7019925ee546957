"""Which jobs of its queues a worker claims now, and which of its queues come first."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

from holdfast.errors import InvalidOption
from holdfast.model.flags import checked_flags
from holdfast.model.queue_order import Arrangement
from holdfast.model.scan_position import Lane
from holdfast.model.taste import taste
from holdfast.worker.config import WorkerConfig
from holdfast.worker.ring_keeper import RingKeeper

_log = logging.getLogger("holdfast.worker")

#: how often to say that a function which names forbidden flags does not
_COMPLAIN_SECONDS = 60.0


class Selection:
    """Asked before every claim; nothing in it asks the database."""

    def __init__(self, config: WorkerConfig, queues: Sequence[str], ring: RingKeeper) -> None:
        self._queues = queues
        self._ring = ring
        self._arrangement = Arrangement(config.queue_order, config.queues or queues)
        self._forbidden = config.forbidden_flags
        #: the last good answer; one that is wrong from the start forbids nothing, and must not be taken for that
        self._flags = self._asked() if callable(self._forbidden) else list(self._forbidden)
        self._complaint, self._complained_at = "", 0.0
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
        if callable(self._forbidden):
            try:
                self._flags = self._asked()
            except InvalidOption as error:
                self._complain(error)
        return self._flags

    def _asked(self) -> list[str]:
        assert callable(self._forbidden)  # noqa: S101 - otherwise there is nobody to ask
        try:
            answer = self._forbidden()
        except Exception as error:
            raise InvalidOption(
                "forbidden_flags", self._forbidden, f"it raised {type(error).__name__}: {error}"
            ) from error
        return checked_flags("forbidden_flags", answer)

    def _complain(self, error: InvalidOption) -> None:
        """Not of every claim the same."""
        now = time.monotonic()
        if str(error) != self._complaint or now - self._complained_at >= _COMPLAIN_SECONDS:
            _log.error("%s; those of before stay forbidden", error, exc_info=error.__cause__)
            self._complaint, self._complained_at = str(error), now
