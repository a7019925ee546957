"""The two ends of a hint."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol


class Hinter(Protocol):
    """The sending end: from any thread, without waiting, without failing."""

    def hint(self, queues: Iterable[str]) -> None:
        """There is work in `queues`; sent soon, many hints as one."""

    def may_ride_along(self) -> bool:
        """Whether the next hint should go out with the commit of the work itself; seldom."""
        ...

    def close(self) -> None:
        """Send what is left; idempotent."""


class Waker(Protocol):
    """The receiving end, on a worker's event loop."""

    @property
    def lease_channel(self) -> str | None:
        """Where a worker can be told that something has happened to a job it holds; None if nowhere."""
        ...

    def start(self) -> None:
        """Begin to listen; `wait` does so too."""

    def has_lease_news(self, worker_id: str) -> bool:
        """Whether a job that the worker holds may have been touched since the last call; from one thread, any one."""
        ...

    async def wait(self, timeout: float) -> None:
        """Return when there may be work, or after `timeout` seconds."""

    def poke(self) -> None:
        """Make the present or next `wait` return at once."""

    async def close(self) -> None:
        """Stop listening; idempotent."""


class ChainListener(Protocol):
    """The receiving end for ends of chains; `wait` returns when one may have ended."""

    async def wait(self, timeout: float) -> None:
        """Return when a chain may have ended, or after `timeout` seconds."""

    def poke(self) -> None:
        """Make the present or next `wait` return at once."""

    async def close(self) -> None:
        """Stop listening; idempotent."""

    def news(self) -> set[str] | None:
        """The chains that were told of since the last call; None = any chain may have ended."""


class Silence:
    """A hinter that says nothing: hints are switched off, or the database needs none."""

    def hint(self, queues: Iterable[str]) -> None:
        """Nothing to do."""

    def may_ride_along(self) -> bool:
        """Nothing rides."""
        return False

    def close(self) -> None:
        """Nothing to do."""
