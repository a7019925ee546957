"""Handlers in processes of their own: one call each at a time, killed when their time is up, replaced when they die."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial

from holdfast.errors import HandlerProcessDied
from holdfast.worker.attempt import Attempt, Ending
from holdfast.worker.equipment import AsyncEquipment
from holdfast.worker.executors import wire
from holdfast.worker.executors.base import Done
from holdfast.worker.executors.calling import call_begins
from holdfast.worker.executors.process_line import ProcessLine, ProcessPlan, spawn
from holdfast.worker.handler import Handler
from holdfast.worker.hooks import ErrorHook

_log = logging.getLogger("holdfast.worker")


class ProcessExecutor:
    """Grows to as many processes as calls run at once; one that dies takes its own call with it and no other."""

    is_interruptible = True

    def __init__(
        self,
        plan: ProcessPlan,
        equipment: AsyncEquipment,
        hook: ErrorHook,
        began: Callable[[Sequence[Attempt]], None],
        done: Done,
    ) -> None:
        self._plan = plan
        self._equipment = equipment
        self._hook = hook
        self._began = began
        self._done = done
        self._living: set[ProcessLine] = set()
        self._idle: list[ProcessLine] = []
        self._running: dict[Attempt, ProcessLine] = {}
        self._calls: dict[Attempt, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)
        self._is_closed = False

    def start(self, attempts: Sequence[Attempt], handler: Handler) -> None:
        call = asyncio.create_task(self._call(attempts, handler), name="holdfast-process-call")
        self._calls |= dict.fromkeys(attempts, call)

    def tell(self, attempt: Attempt) -> None:
        if attempt.cancelled is not None and (process := self._running.get(attempt)) is not None:
            process.send(wire.Told(attempt.job.id, attempt.cancelled))

    def interrupt(self, attempt: Attempt) -> None:
        if not attempt.is_call_unwanted:
            return
        if (process := self._running.get(attempt)) is not None:
            process.interrupt()
        elif attempt in self._calls:
            # Not at once: a task that is cancelled before its first step never gets to the end of its call.
            asyncio.get_running_loop().call_soon(self._call_off, attempt)

    def _call_off(self, attempt: Attempt) -> None:
        """Its process is not ready yet: nothing has been called; where it is by now, that was told at once."""
        if attempt not in self._running and (call := self._calls.get(attempt)) is not None:
            call.cancel()

    def time_out(self, attempt: Attempt) -> float:
        self.tell(attempt)
        if attempt.is_call_unwanted and (process := self._running.get(attempt)) is not None:
            process.kill()
        return 0.0

    async def close(self) -> None:
        self._is_closed = True
        calls = set(self._calls.values())
        for call in calls:
            call.cancel()
        idle, self._idle = self._idle, []
        await asyncio.gather(*calls, *(process.leave() for process in idle), return_exceptions=True)
        for process in self._living:
            process.kill()
        await asyncio.gather(*(process.is_gone() for process in self._living))

    async def _call(self, attempts: Sequence[Attempt], handler: Handler) -> None:
        endings: Sequence[Ending]
        try:
            if attempts[0].is_call_unwanted:
                raise asyncio.CancelledError  # noqa: TRY301 - as if it had come a moment later
            endings = await self._run(attempts, handler)
        except HandlerProcessDied as error:
            endings = [self._ending_of_death(attempt, error) for attempt in attempts]
        except asyncio.CancelledError:
            # By us, before the handler was called or because nobody waits for it any more.
            endings = [_ending_of_cancelled(attempt) for attempt in attempts]
        except Exception as error:  # noqa: BLE001 - no process to be had, perhaps: the attempts must end all the same
            _log.exception("a handler's process cannot be used")
            death = HandlerProcessDied(f"{type(error).__name__}: {error}")
            endings = [self._ending_of_death(attempt, death) for attempt in attempts]
        for attempt in attempts:
            del self._calls[attempt]
        self._done(attempts, endings)

    async def _run(self, attempts: Sequence[Attempt], handler: Handler) -> Sequence[Ending]:
        run = wire.Run(
            next(self._numbers),
            _module(handler),
            handler.function.__qualname__,
            attempts[0].worker_id,
            [tuple(attempt.job) for attempt in attempts],
        )
        while True:
            is_spare = bool(self._idle)
            process = self._idle.pop() if is_spare else await self._spawn()
            call_begins(attempts)
            try:
                ended = await process.call(run, partial(self._begin, attempts, process))
                break
            except HandlerProcessDied as error:
                if not is_spare or attempts[0] in self._running:
                    raise
                # While it waited for work, which is no job's fault.
                _log.warning("a handler's process died while it waited for work: %s", error)
            finally:
                for attempt in attempts:
                    self._running.pop(attempt, None)
        if self._is_closed:
            await process.leave()
        else:
            self._idle.append(process)
        return [wire.unpack(attempt, one) for attempt, one in zip(attempts, ended, strict=True)]

    async def _spawn(self) -> ProcessLine:
        process = await spawn(self._plan, self._equipment)
        self._living.add(process)
        process.gone.add_done_callback(lambda _: self._living.discard(process))
        await process.set_up(self._plan)
        return process

    def _begin(self, attempts: Sequence[Attempt], process: ProcessLine) -> None:
        """The handler is about to be called."""
        self._running |= dict.fromkeys(attempts, process)
        self._began(attempts)
        for attempt in attempts:
            self.tell(attempt)  # what was said while it started
            self.interrupt(attempt)

    def _ending_of_death(self, attempt: Attempt, error: HandlerProcessDied) -> Ending:
        if attempt.is_over or attempt.cancelled is not None:
            return _ending_of_cancelled(attempt)
        ending = attempt.failure(error)
        self._hook(attempt, ending, error)
        return ending


def _ending_of_cancelled(attempt: Attempt) -> Ending:
    return None if attempt.is_over else attempt.ending_of_cancelled(attempt.cancellation_error())


def _module(handler: Handler) -> str:
    """Where the process finds the function; what `python -m` runs has a name that can be imported."""
    name = handler.function.__module__
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec.name if name == "__main__" and spec is not None else name
