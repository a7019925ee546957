"""Whether this code runs inside a handler: some things are refused there."""

from __future__ import annotations

from contextvars import ContextVar, Token
from types import TracebackType

#: the id of the job whose handler runs in this context; copied into tasks and `asyncio.to_thread`
_running: ContextVar[str | None] = ContextVar("holdfast_running_job", default=None)


class running:  # noqa: N801 - reads as a sentence: with running(job.id)
    """Around a handler, in the thread that runs it.

    A class, because every job goes through it and a generator takes three times as long.
    """

    __slots__ = ("_job_id", "_token")

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def __enter__(self) -> None:
        self._token: Token[str | None] = _running.set(self._job_id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _running.reset(self._token)


def mark_running(job_id: str) -> None:
    """From here on, in a task that runs one handler and nothing after it: its context ends with it."""
    _running.set(job_id)


def running_job() -> str | None:
    """The id of the job whose handler this code runs in, or None."""
    return _running.get()
