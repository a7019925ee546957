"""The silhouette of a maintenance service, and the loop around it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol, TypeVar

from holdfast.errors import HoldfastError
from holdfast.operations.statement import Verb

_log = logging.getLogger("holdfast.maintenance")

#: one that walks in pages does not wait for its interval between them: so many seconds, and times what a page took
_SHORTEST_PAUSE = 0.1
_PAUSE_PER_WORK = 10

T = TypeVar("T")


class VerbRunner(Protocol):
    """A service's way to the database."""

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T: ...


class Service(Protocol):
    """Something to be done again and again.

    One that walks in pages has `is_amid` too: while that is true, the next page does not wait for the interval.
    """

    @property
    def name(self) -> str: ...
    @property
    def interval(self) -> timedelta: ...
    @property
    def timeout(self) -> timedelta: ...

    async def run_once(self) -> Mapping[str, int]:
        """Do it once; the counts say what was done."""
        ...


class ServiceLoop:
    """Runs a service for ever; a failure or a timeout is logged and the next round comes all the same."""

    def __init__(self, service: Service) -> None:
        self.service = service
        #: by the monotonic clock; None before the first
        self.last_success: float | None = None

    async def run(self) -> None:
        pause = self.service.interval.total_seconds()
        while True:
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            pause = self.service.interval.total_seconds()
            began = time.monotonic()
            try:
                async with asyncio.timeout(self.service.timeout.total_seconds()):
                    counts = await self.service.run_once()
            except (HoldfastError, TimeoutError) as error:
                _log.warning("%s: %s: %s", self.service.name, type(error).__name__, error)
            except Exception:  # noqa: BLE001 - the next round comes all the same
                # A fault of ours or of a row that somebody wrote by hand: the other services and the jobs go on.
                _log.exception("%s: an error that nobody expected", self.service.name)
            else:
                if getattr(self.service, "is_amid", False):
                    # The next page, without taking a core from the jobs.
                    pause = min(pause, max(_SHORTEST_PAUSE, _PAUSE_PER_WORK * (time.monotonic() - began)))
                self.last_success = time.monotonic()
                if any(counts.values()):
                    _log.info("%s: %s", self.service.name, ", ".join(f"{key} {value}" for key, value in counts.items()))
