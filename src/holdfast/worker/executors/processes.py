"""Handlers in processes of their own: one call each at a time, killed when their time is up, replaced when they die."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.errors import HandlerProcessDied, HoldfastError
from holdfast.operations.statement import Operation, Rows, Statement
from holdfast.worker.attempt import Attempt, Ending
from holdfast.worker.equipment import AsyncEquipment
from holdfast.worker.executors import wire
from holdfast.worker.executors.base import Done
from holdfast.worker.executors.calling import call_begins
from holdfast.worker.handler import Handler
from holdfast.worker.hooks import ErrorHook

_log = logging.getLogger("holdfast.worker")

#: how long an interrupted handler may clean up before its process is killed
_INTERRUPT_GRACE: Final = 5.0
#: how long idle processes may take to leave
_FAREWELL: Final = 5.0
#: a module that cannot be imported in so long, or a lifespan that takes longer, is taken for one that never ends
_SETUP_SECONDS: Final = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessPlan:
    """How to start a process that can run this app's handlers.

    - `command`: what to execute; the number of an open socket is appended.
    - `app`: settings of the app, as its constructor takes them.
    """

    command: Sequence[str]
    app: dict[str, Any]


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
        self._idle: list[_Process] = []
        self._running: dict[Attempt, _Process] = {}
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
        elif (call := self._calls.get(attempt)) is not None:
            call.cancel()  # its process is not ready yet: nothing has been called

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

    async def _call(self, attempts: Sequence[Attempt], handler: Handler) -> None:
        endings: Sequence[Ending]
        try:
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
        process = await self._ready_process(run, attempts)
        self._running |= dict.fromkeys(attempts, process)
        try:
            self._began(attempts)
            for attempt in attempts:
                self.tell(attempt)  # what was said while it started
                self.interrupt(attempt)
            ended = await process.ended(run.number)
        finally:
            for attempt in attempts:
                del self._running[attempt]
        if self._is_closed:
            await process.leave()
        else:
            self._idle.append(process)
        return [wire.unpack(attempt, one) for attempt, one in zip(attempts, ended, strict=True)]

    async def _ready_process(self, run: wire.Run, attempts: Sequence[Attempt]) -> _Process:
        """One that is about to call the handler; those that waited may have died of it, and that is no job's fault."""
        while self._idle:
            process = self._idle.pop()
            call_begins(attempts)
            try:
                await process.begin(run)
            except HandlerProcessDied as error:
                _log.warning("a handler's process died while it waited for work: %s", error)
            else:
                return process
        process = await _Process.spawn(self._plan, self._equipment)
        call_begins(attempts)
        await process.begin(run)
        return process

    def _ending_of_death(self, attempt: Attempt, error: HandlerProcessDied) -> Ending:
        if attempt.is_over or attempt.cancelled is not None:
            return _ending_of_cancelled(attempt)
        ending = attempt.failure(error)
        self._hook(attempt, ending, error)
        return ending


class _Process:
    """The worker's end of one handler process."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        equipment: AsyncEquipment,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._equipment = equipment
        self._loop = asyncio.get_running_loop()
        self._answers: set[asyncio.Task[None]] = set()
        self._killer: asyncio.TimerHandle | None = None

    @classmethod
    async def spawn(cls, plan: ProcessPlan, equipment: AsyncEquipment) -> _Process:
        ours, theirs = socket.socketpair()
        try:
            # A session of its own: a Ctrl-C in the terminal is for the worker, which decides what becomes of its jobs.
            process = await asyncio.create_subprocess_exec(
                *plan.command,
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)  # noqa: FBT003 - positional only
        reader, writer = await asyncio.open_connection(sock=ours, limit=wire.LARGEST)
        spawned = cls(process, reader, writer, equipment)
        level = logging.getLogger().getEffectiveLevel()
        spawned.send(wire.Setup([*map(str, sys.path)], _main_file(), plan.app, level))
        try:
            async with asyncio.timeout(_SETUP_SECONDS):
                await spawned._until(wire.Ready)
        except TimeoutError:
            raise HandlerProcessDied(f"it was not ready within {_SETUP_SECONDS:g} s") from None
        return spawned

    def send(self, message: wire.ToProcess) -> None:
        self._writer.write(wire.framed(message))

    async def begin(self, run: wire.Run) -> None:
        """Return when the handler is about to be called."""
        self.send(run)
        try:
            async with asyncio.timeout(_SETUP_SECONDS):
                while (await self._until(wire.Ready)).number != run.number:
                    pass
        except TimeoutError:
            self.kill()
            raise HandlerProcessDied(f"it was not ready within {_SETUP_SECONDS:g} s") from None

    async def ended(self, number: int) -> list[wire.Ended]:
        """When the handler has returned; a handler that has forked may say so more than once."""
        try:
            over: wire.Over = await self._until(wire.Over)
            while over.number != number:
                over = await self._until(wire.Over)
        finally:
            if self._killer is not None:
                self._killer.cancel()
                self._killer = None
        return over.endings

    def interrupt(self) -> None:
        """Ask the handler to end, and see to it that it does."""
        if self._killer is None:
            self._signal(signal.SIGTERM)
            self._killer = self._loop.call_later(_INTERRUPT_GRACE, self.kill)

    def kill(self) -> None:
        """At once, with everything that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def leave(self) -> None:
        """Let it go in peace, and if it does not go, not in peace."""
        self._writer.close()
        try:
            async with asyncio.timeout(_FAREWELL):
                await self._process.wait()
        except TimeoutError:
            pass
        self.kill()
        await self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _until(self, wanted: type[Any]) -> Any:
        """Serve the process until it says this."""
        while True:
            try:
                message = await self._receive()
            except asyncio.CancelledError:
                self.kill()
                self._writer.close()
                raise
            match message:
                case wire.Ask():
                    answering = asyncio.create_task(self._answer(message))
                    self._answers.add(answering)
                    answering.add_done_callback(self._answers.discard)
                case wire.Line():
                    self._equipment.journal.write(message.lease, message.level, message.message, message.fields)
                case wire.News():
                    self._equipment.hints.send(message.queues)
                case wire.Broken():
                    self.kill()
                    raise HandlerProcessDied(message.reason)
                case _ if isinstance(message, wanted):
                    return message
                case _:
                    _log.error("unexpected %s from a handler process", type(message).__name__)

    async def _receive(self) -> wire.FromProcess:
        dying = asyncio.ensure_future(self._process.wait())
        reading = asyncio.ensure_future(self._read())
        try:
            # A grandchild may keep the socket open: the end of the process is the end of the conversation.
            await asyncio.wait([dying, reading], return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                # What it said last may still be on its way.
                await asyncio.wait([reading], timeout=0.1)
            if reading.done() and reading.exception() is None:
                return reading.result()
        finally:
            dying.cancel()
            if not reading.done():
                reading.cancel()
        self.kill()
        self._writer.close()
        raise HandlerProcessDied(_death(await self._process.wait()))

    async def _read(self) -> wire.FromProcess:
        size = int.from_bytes(await self._reader.readexactly(wire.PREFIX_BYTES), "big")
        return wire.from_process.decode(await self._reader.readexactly(size))

    async def _answer(self, ask: wire.Ask) -> None:
        try:
            rows = await self._equipment.store.run(lambda: _alone(ask.statement()), read_only=ask.read_only)
            answer = wire.Answer(ask.number, wire.rows_of(rows))
        except HoldfastError as error:
            answer = wire.Answer(ask.number, error=type(error).__name__, message=str(error))
        self.send(answer)


def _ending_of_cancelled(attempt: Attempt) -> Ending:
    return None if attempt.is_over else attempt.ending_of_cancelled(attempt.cancellation_error())


def _module(handler: Handler) -> str:
    """Where the process finds the function; what `python -m` runs has a name that can be imported."""
    name = handler.function.__module__
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec.name if name == "__main__" and spec is not None else name


def _main_file() -> str | None:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return None if main is None else str(Path(main).absolute())


def _alone(statement: Statement) -> Operation[Rows]:
    return (yield statement)


def _death(status: int) -> str:
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"it was killed by {name}"
