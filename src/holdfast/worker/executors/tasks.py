"""Async handlers, as tasks of the worker's own event loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine, Sequence
from contextvars import copy_context
from typing import Any, Final

from holdfast.model.running import mark_running
from holdfast.operations.read_blockers import read_blockers
from holdfast.worker.attempt import Attempt, Ending
from holdfast.worker.batch import Batch, Item
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.context import Context
from holdfast.worker.equipment import AsyncEquipment
from holdfast.worker.executors.base import Done
from holdfast.worker.executors.calling import (
    acceptable,
    arguments_of,
    call_begins,
    ending_of_raise,
    endings_of_outcomes,
    giving_back,
)
from holdfast.worker.handler import Handler
from holdfast.worker.hooks import ErrorHook

#: how long a cancelled task may clean up after its timeout
_TIMEOUT_GRACE: Final = 5.0


class TaskExecutor:
    """One task per call; a call that never waits is over when `start` returns, where Python has eager tasks."""

    is_interruptible = True

    def __init__(self, equipment: AsyncEquipment, hook: ErrorHook, done: Done) -> None:
        self._equipment = equipment
        self._hook = hook
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._context = copy_context()

    def start(self, attempts: Sequence[Attempt], handler: Handler) -> None:
        run = self._run(attempts[0], handler) if handler.batch is None else self._run_batch(attempts, handler)
        task = self._create_task(run)
        if not task.done():
            for attempt in attempts:
                attempt.task = task

    def _create_task(self, run: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        # Who frees the slot is another handler, more often than not: what that one set is none of this one's business.
        context = self._context.copy()
        if sys.version_info >= (3, 12):
            # For our own tasks only: a factory of the loop would change those of the handlers too.
            return asyncio.Task(run, loop=self._loop, eager_start=True, context=context)
        return asyncio.Task(run, loop=self._loop, context=context)

    def tell(self, attempt: Attempt) -> None:
        """The handler looks at the attempt itself."""

    def interrupt(self, attempt: Attempt) -> None:
        if attempt.task is not None and attempt.is_call_unwanted:
            # Not at once: a task that is cancelled before its first step never gets to the end of its attempt.
            self._loop.call_soon(attempt.task.cancel)

    def time_out(self, attempt: Attempt) -> float:
        self.interrupt(attempt)
        return _TIMEOUT_GRACE

    async def close(self) -> None:
        """Tasks end by themselves, or by being interrupted."""

    async def _run(self, attempt: Attempt, handler: Handler) -> None:
        ending: Ending
        try:
            if attempt.cancelled is not None:
                raise asyncio.CancelledError  # noqa: TRY301 - as if it had come a moment later
            arguments = arguments_of(attempt, handler)
            context = None
            if handler.needs_context:
                if attempt.job.has_blockers:
                    await self._read_blockers(attempt)
                context = Context(attempt, self._equipment)
            attempt.is_called = True
            mark_running(attempt.job.id)
            output = await handler.invoke(context, arguments)
            # The time was up: whatever came after the cancellation does not count.
            ending = self._too_late(attempt) if attempt.is_out_of_time else attempt.ending_of_return(output)
        except asyncio.CancelledError as error:
            ending = self._ending_of_cancelled(attempt, error)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler fails the job, not the worker
            ending = ending_of_raise(attempt, error, self._hook)
        attempt.task = None
        self._done((attempt,), (ending,))

    async def _run_batch(self, attempts: Sequence[Attempt], handler: Handler) -> None:
        endings: dict[Attempt, Ending] = {}
        wanted = list(attempts)
        try:
            items = []
            for attempt, argument in acceptable(attempts, handler, endings, self._hook):
                if attempt.job.has_blockers:
                    await self._read_blockers(attempt)
                items.append(Item(argument, Context(attempt, self._equipment)))
            wanted = [attempt for attempt in attempts if attempt not in endings]
            if wanted:
                call_begins(wanted)
                mark_running(wanted[0].job.id)
                outcomes = await handler.invoke(Batch(items, self._equipment.state), {})
                late = [attempt for attempt in wanted if attempt.is_out_of_time]
                endings |= {attempt: self._too_late(attempt) for attempt in late}
                endings |= endings_of_outcomes(wanted, outcomes, self._hook)
        except asyncio.CancelledError as error:
            endings |= {attempt: self._ending_of_cancelled(attempt, error) for attempt in wanted}
        except BaseException as error:  # noqa: BLE001 - as above
            endings |= {
                attempt: ending_of_raise(attempt, error, self._hook) for attempt in wanted if attempt not in endings
            }
        for attempt in attempts:
            attempt.task = None
        self._done(attempts, [endings[attempt] for attempt in attempts])

    async def _read_blockers(self, attempt: Attempt) -> None:
        with giving_back():
            store = self._equipment.store
            attempt.blockers = await store.run(lambda: read_blockers(attempt.job.id), read_only=True)

    def _too_late(self, attempt: Attempt) -> Ending:
        attempt.cancelled = Cancellation.TIMEOUT
        error = attempt.cancellation_error()
        ending = attempt.failure(error)
        self._hook(attempt, ending, error)
        return ending

    def _ending_of_cancelled(self, attempt: Attempt, error: BaseException) -> Ending:
        if attempt.is_late:
            return self._too_late(attempt)
        # A handler may also raise this by itself, and then it is a failure like any other.
        return attempt.ending_of_cancelled(error if attempt.cancelled is None else attempt.cancellation_error())
