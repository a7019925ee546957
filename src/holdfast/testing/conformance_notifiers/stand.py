"""What a case may do with a notifier: whoever runs the suite brings it."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

from holdfast.notify.base import Notifier, Waker

#: far longer than any hint takes
PATIENCE: Final = 10.0
#: long enough for a hint to arrive that should not
QUIET: Final = 0.4

ALL_KINDS: Final = frozenset({"work", "chain", "lease"})


class Stand(ABC):
    """A place where hints travel, and several processes that share it.

    - `kinds` (all): which hints it carries.
    - `is_shared` (yes): whether hints reach other processes.
    - `names_subjects` (yes): whether a hint says which queue, chain or worker it is about.
    - `is_counting` (no): whether a hint of n jobs wakes about n of those who wait.
    """

    kinds = ALL_KINDS
    is_shared = True
    names_subjects = True
    is_counting = False

    @abstractmethod
    def join(self) -> Notifier:
        """A notifier as another process would have it; where nothing is shared, the one there is."""

    @abstractmethod
    async def tell_work(self, by: Notifier, work: Iterable[str]) -> None:
        """Jobs have been committed, and `by` says so."""

    @abstractmethod
    async def tell_chain(self, by: Notifier, to: Notifier, chain_id: str) -> None:
        """A chain that somebody at `to` waits for has ended."""

    @abstractmethod
    async def tell_lease(self, by: Notifier, to: Notifier, worker_id: str) -> None:
        """Something has happened to a job of a worker at `to`."""

    @abstractmethod
    async def subscriptions(self) -> int:
        """How many physical subscriptions there are, of all processes."""


class RestartableStand(Stand):
    """One whose server can go away and come back: the cases about outages are for these."""

    @abstractmethod
    async def take_away(self) -> None:
        """The server dies."""

    @abstractmethod
    async def bring_back(self) -> None:
        """It is there again, and remembers nothing."""


async def asleep(waker: Waker, timeout: float = PATIENCE) -> asyncio.Task[float]:
    """Somebody who waits, heard by the server by now; the task says for how long it waited."""
    # The first waits are for what may have been missed before.
    while await waited(waker, QUIET) < QUIET * 0.75:
        pass
    task = asyncio.create_task(waited(waker, timeout))
    await asyncio.sleep(QUIET / 4)
    return task


async def waited(waker: Waker, timeout: float) -> float:
    """For how many seconds."""
    began = time.monotonic()
    await waker.wait(timeout)
    return time.monotonic() - began


async def woken(tasks: Iterable[asyncio.Task[float]], seconds: float = QUIET) -> int:
    """How many have been woken after so long."""
    done, _ = await asyncio.wait(list(tasks), timeout=seconds, return_when=asyncio.ALL_COMPLETED)
    return len(done)


async def cancelled(tasks: Iterable[asyncio.Task[float]]) -> None:
    for task in tasks:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
