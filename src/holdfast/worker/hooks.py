"""What an app wants to be told: failed attempts and dead letters. For alerts, not for truth."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.model.job import Job
from holdfast.operations.fail_jobs import Failure
from holdfast.operations.get_job import find_job
from holdfast.worker.attempt import Attempt, Written
from holdfast.worker.base_context import as_job
from holdfast.worker.patient_store import PatientStore

_log = logging.getLogger("holdfast.worker")

#: hooks that cannot keep up cost calls, not memory
_MOST_WAITING = 10_000
_TIMEOUT_SECONDS = 30.0

OnError = Callable[[Job, BaseException], Awaitable[None] | None]
OnDead = Callable[[Job], Awaitable[None] | None]
#: called wherever a handler has raised, with what is written of it
ErrorHook = Callable[[Attempt, Written, BaseException], None]


def is_failure(ending: Written) -> bool:
    """Whether an attempt has failed: a cancelled one has not, nor one that is put off."""
    return isinstance(ending, Failure) and not ending.is_cancelled


class Hooks:
    """A bounded box, and the one task that empties it: no hook holds up a job."""

    def __init__(self, on_error: Sequence[OnError], on_dead: Sequence[OnDead], store: PatientStore) -> None:
        self._on_error = on_error
        self._on_dead = on_dead
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[Job | str, BaseException | None]] = deque(maxlen=_MOST_WAITING)
        self._wake = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def error(self, attempt: Attempt, ending: Written, error: BaseException) -> None:
        """From any thread; once for each attempt."""
        if self._on_error and is_failure(ending) and not attempt.is_reported:
            attempt.is_reported = True
            self._put(as_job(attempt.job, attempt.worker_id), error)

    def dead(self, job_id: str) -> None:
        """The job is a dead letter in the database."""
        if self._on_dead:
            self._put(job_id, None)

    async def run(self) -> None:
        """Call for ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                await self._call(*self._waiting.popleft())
            self._empty.set()

    async def drained(self) -> None:
        """Return when everybody has been told."""
        await self._empty.wait()

    def _put(self, subject: Job | str, error: BaseException | None) -> None:
        self._waiting.append((subject, error))
        try:
            self._loop.call_soon_threadsafe(self._ring)
        except RuntimeError:
            return  # the loop is closed: an abandoned thread outlived its worker

    def _ring(self) -> None:
        self._empty.clear()
        self._wake.set()

    async def _call(self, subject: Job | str, error: BaseException | None) -> None:
        if isinstance(subject, Job):
            for on_error in self._on_error:
                await _guarded(on_error, subject, error)
            return
        try:
            found = await self._store.run(lambda: find_job(subject), read_only=True)
        except HoldfastError as missed:
            _log.warning("on_dead is not called for job %s: %s", subject, missed)
            return
        if found is not None:
            for on_dead in self._on_dead:
                await _guarded(on_dead, found)


async def _guarded(hook: Callable[..., Any], *args: object) -> None:
    task = asyncio.current_task()
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            if inspect.iscoroutinefunction(hook):
                await hook(*args)
            else:
                await asyncio.to_thread(hook, *args)
    except BaseException as error:
        # Somebody wants us to stop; a hook that was cancelled by itself, or wants to exit, has only failed.
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        _log.exception("the hook %s failed", getattr(hook, "__qualname__", hook))


def call_inline(hooks: Sequence[OnError], attempt: Attempt, error: BaseException) -> None:
    """In a handler process, where the exception is; an event loop may be running in this thread, so not here."""
    job = as_job(attempt.job, attempt.worker_id)

    async def call_all() -> None:
        for hook in hooks:
            await _guarded(hook, job, error)

    thread = threading.Thread(target=lambda: asyncio.run(call_all()), name="holdfast-hooks", daemon=True)
    thread.start()
    thread.join(_TIMEOUT_SECONDS)
