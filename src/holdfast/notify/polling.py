"""Waiting without hints: what lies below every notifier."""

from __future__ import annotations

import asyncio


class PollingWaker:
    """Wakes by time alone, or when poked."""

    lease_channel: str | None = None

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def start(self) -> None:
        """There is nothing to listen to."""

    def has_lease_news(self, worker_id: str) -> bool:  # noqa: ARG002 - renewals find out
        return False

    async def wait(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._event.wait()
        except TimeoutError:
            pass
        self._event.clear()

    def poke(self) -> None:
        self._event.set()

    async def close(self) -> None:
        """Nothing is open."""


class PollingListener(PollingWaker):
    """Hears nothing."""

    def news(self) -> set[str] | None:
        return set()
