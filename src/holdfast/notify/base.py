"""What a notifier is: both ends of a hint, for one process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, Protocol


class Hinter(Protocol):
    """The sending end: from any thread, without waiting, without failing."""

    @property
    def inner_channel(self) -> str | None:
        """On which a statement can notify of work inside its own transaction; None if nobody listens there."""
        ...

    def hint(self, work: Iterable[str], *, has_ridden: bool = False) -> None:
        """There is work in these queues; a mapping says how much.  Sent soon, many hints as one.

        With `has_ridden`, other processes were told by the commit itself.
        """

    def may_ride_along(self) -> bool:
        """Whether the next hint should go out with the commit of the work itself; seldom."""
        ...

    def close(self) -> None:
        """Send what is left; idempotent."""


class Waker(Protocol):
    """The receiving end of a worker, on its event loop."""

    @property
    def lease_channel(self) -> str | None:
        """Where a worker can be told that something has happened to a job it holds; None if nowhere."""
        ...

    def start(self) -> None:
        """Begin to listen; `wait` does so too."""

    def has_lease_news(self, worker_id: str) -> bool:
        """Whether a job that the worker holds may have been touched since the last call; from one thread, any one."""
        ...

    async def wait(self, timeout: float, beside: asyncio.Future[Any] | None = None) -> bool:
        """Return when there may be work, after `timeout` seconds or less, or when `beside` is done.

        Whether somebody has said that there is work.
        """
        ...

    def poke(self) -> None:
        """Make the present or next `wait` return at once."""

    async def close(self) -> None:
        """Stop listening; idempotent."""


class ChainListener(Protocol):
    """The receiving end for ends of chains; `wait` returns when one may have ended."""

    async def wait(self, timeout: float) -> bool:
        """Return when a chain may have ended, or after `timeout` seconds or less; whether somebody has said so."""
        ...

    def poke(self) -> None:
        """Make the present or next `wait` return at once."""

    async def close(self) -> None:
        """Stop listening; idempotent."""

    def news(self) -> set[str] | None:
        """The chains that were told of since the last call; None = any chain may have ended."""


class Notifier(Hinter, Protocol):
    """One per app and process: whoever sends and whoever listens shares its connections."""

    @property
    def chain_channel(self) -> str | None:
        """Where the ends of chains are told to this process and nobody else; None if they need no telling."""
        ...

    def open_waker(self, queues: Iterable[str]) -> Waker:
        """For a worker of these queues; made and used on one event loop."""
        ...

    def open_chain_listener(self) -> ChainListener:
        """For those who wait for chains; made and used on one event loop."""
        ...


class Silence:
    """A hinter that says nothing: hints are switched off."""

    inner_channel: str | None = None

    def hint(self, work: Iterable[str], *, has_ridden: bool = False) -> None:
        """Nothing to do."""

    def may_ride_along(self) -> bool:
        """Nothing rides."""
        return False

    def close(self) -> None:
        """Nothing to do."""


def counted(work: Iterable[str]) -> dict[str, int]:
    """How much work is in which queue: one where nobody has counted."""
    return dict(work) if isinstance(work, (dict, Mapping)) else dict.fromkeys(work, 1)
