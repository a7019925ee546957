"""The silhouette of a maintenance service, and the loop around it."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Protocol

from holdfast.errors import HoldfastError

_log = logging.getLogger("holdfast.maintenance")


class Service(Protocol):
    """Something to be done again and again."""

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
        self.last_success: float | None = None

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self.service.interval.total_seconds() * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            try:
                async with asyncio.timeout(self.service.timeout.total_seconds()):
                    counts = await self.service.run_once()
            except (HoldfastError, TimeoutError) as error:
                _log.warning("%s: %s: %s", self.service.name, type(error).__name__, error)
            else:
                self.last_success = time.monotonic()
                if any(counts.values()):
                    _log.info("%s: %s", self.service.name, ", ".join(f"{key} {value}" for key, value in counts.items()))
