"""What the slots ask of a place where handlers run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from holdfast.worker.attempt import Attempt, Ending
from holdfast.worker.handler import Handler

#: called on the event loop when a call is over: the slot is free, and each of its attempts has an ending
Done = Callable[[Sequence[Attempt], Sequence[Ending]], None]


class Executor(Protocol):
    """Runs calls. The attempts of one call are one job, or the jobs of a batch."""

    #: whether `interrupt` can do anything
    is_interruptible: bool

    def start(self, attempts: Sequence[Attempt], handler: Handler) -> None:
        """Begin, and return; `Done` is called once, now or later."""

    def tell(self, attempt: Attempt) -> None:
        """`attempt.cancelled` has been set: see to it that the handler can see it."""

    def interrupt(self, attempt: Attempt) -> None:
        """End the call as soon as its handler lets us; a batch only when none of its jobs is wanted any more."""

    def time_out(self, attempt: Attempt) -> float:
        """The attempt's time is up; returns for how many seconds the handler may still clean up."""
        ...

    async def close(self) -> None:
        """Nothing is started any more; idempotent."""
