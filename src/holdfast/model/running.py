"""Whether this code runs inside a handler: some things are refused there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: the id of the job whose handler runs in this context; copied into tasks and `asyncio.to_thread`
_running: ContextVar[str | None] = ContextVar("holdfast_running_job", default=None)


@contextmanager
def running(job_id: str) -> Iterator[None]:
    """Around a handler, in the task or thread that runs it."""
    token = _running.set(job_id)
    try:
        yield
    finally:
        _running.reset(token)


def running_job() -> str | None:
    """The id of the job whose handler this code runs in, or None."""
    return _running.get()
