"""What a handler may raise to say how its attempt ends, where that is neither success nor a plain failure."""

from __future__ import annotations

from datetime import datetime

from holdfast.errors import HoldfastError, InvalidOption
from holdfast.model.clock import Duration, checked_duration, checked_instant, iso


class AttemptEnding(HoldfastError):
    """Root of what ends an attempt in a special way; meant for the worker, so let it pass."""


class Snooze(AttemptEnding):
    """Not now: the job runs again after `delay` or at `until`, and this attempt does not count.

    if not shop.is_open():
        raise Snooze(timedelta(minutes=10))
    """

    def __init__(self, delay: Duration | None = None, *, until: datetime | None = None) -> None:
        if (delay is None) == (until is None):
            raise InvalidOption("delay", delay, "or until= must be given, and not both")
        self.delay = None if delay is None else checked_duration("delay", delay)
        self.until = None if until is None else checked_instant("until", until)
        when = f"for {self.delay}" if self.until is None else f"until {iso(self.until)}"
        super().__init__(f"put off {when}")


class RetryAt(AttemptEnding):
    """This attempt has failed; the next one, if one is left, is at exactly `when`.

    raise RetryAt(response.retry_after) from error
    """

    def __init__(self, when: datetime) -> None:
        self.when = checked_instant("when", when)
        super().__init__(f"to be tried again at {iso(self.when)}")


class Cancel(AttemptEnding):
    """The job is to end as cancelled: nobody needs it any more."""

    def __init__(self, reason: str = "cancelled by its handler") -> None:
        super().__init__(reason)
        self.reason = reason


class DeadLetter(AttemptEnding):
    """The job is to end as a dead letter at once, whatever attempts are left."""

    def __init__(self, reason: str = "given up by its handler") -> None:
        super().__init__(reason)
        self.reason = reason


class Suspended(BaseException):
    """Ends a handler's run where it waits durably: `ctx.sleep`, `ctx.wait_signal` and `ctx.gather` raise it.

    The job goes on later, from its beginning and through its saved steps. Not an Exception, so that `except Exception`
    lets it pass; whoever catches more than that cleans up and raises it again.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"this run ends here: the job waits for {what}")


def is_suspended(error: BaseException) -> bool:
    """Whether a handler's exception says that it waits, and nothing else."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_suspended(each) for each in error.exceptions)
    return isinstance(error, Suspended)
