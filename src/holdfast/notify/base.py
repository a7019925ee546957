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

    async def wait(self, timeout: float) -> None:
        """Return when there may be work, or after `timeout` seconds."""

    def poke(self) -> None:
        """Make the present or next `wait` return at once."""

    async def close(self) -> None:
        """Stop listening; idempotent."""


class ChainListener(Waker, Protocol):
    """The receiving end for ends of chains; `wait` returns when one may have ended."""

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
