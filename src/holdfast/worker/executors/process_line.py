"""The worker's end of one handler process: what it says is heard as it comes, and its death is the end of its call."""

from __future__ import annotations

import asyncio
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
from holdfast.worker.equipment import AsyncEquipment
from holdfast.worker.executors import wire

_log = logging.getLogger("holdfast.worker")

#: how long an interrupted handler may clean up before its process is killed
_INTERRUPT_GRACE: Final = 5.0
#: how long idle processes may take to leave
_FAREWELL: Final = 5.0
#: a module that cannot be imported in so long, or a lifespan that takes longer, is taken for one that never ends
_SETUP_SECONDS: Final = 120.0
#: what a process said last may still be on its way when it is known to be dead
_LAST_WORDS_SECONDS: Final = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessPlan:
    """How to start a process that can run this app's handlers.

    - `command`: what to execute; the number of an open socket is appended.
    - `app`: settings of the app, as its constructor takes them.
    """

    command: Sequence[str]
    app: dict[str, Any]


async def spawn(plan: ProcessPlan, equipment: AsyncEquipment) -> ProcessLine:
    """A process that is being started: `set_up` comes next."""
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
    line = ProcessLine(process, equipment)
    try:
        await asyncio.get_running_loop().create_connection(lambda: line, sock=ours)
    except BaseException:
        line.kill()
        ours.close()
        raise
    return line


class ProcessLine(asyncio.Protocol):
    """One conversation at a time: a message to the process, and in the end its answer."""

    _transport: asyncio.Transport
    #: done when the process is dead
    gone: asyncio.Task[None]

    def __init__(self, process: asyncio.subprocess.Process, equipment: AsyncEquipment) -> None:
        self._process = process
        self._equipment = equipment
        self._loop = asyncio.get_running_loop()
        self._unread = bytearray()
        self._answers: set[asyncio.Task[None]] = set()
        self._killer: asyncio.TimerHandle | None = None
        self._death: HandlerProcessDied | None = None
        #: of the present conversation: how it ends, which call it is about, who wants to know that it begins
        self._over: asyncio.Future[list[wire.Ended]] | None = None
        self._number: int | None = None
        self._begin: Callable[[], None] | None = None

    def send(self, message: wire.ToProcess) -> None:
        self._transport.write(wire.framed(message))

    async def set_up(self, plan: ProcessPlan) -> None:
        """Until it waits for calls."""
        level = logging.getLogger().getEffectiveLevel()
        await self._converse(wire.Setup([os.fsencode(str(each)) for each in sys.path], _main_file(), plan.app, level))

    async def call(self, run: wire.Run, begin: Callable[[], None]) -> list[wire.Ended]:
        """Until the handler has returned; `begin` is called when it is about to be called, which may never be."""
        self._number, self._begin = run.number, begin
        return await self._converse(run)

    async def _converse(self, message: wire.Setup | wire.Run) -> list[wire.Ended]:
        if self._death is not None:
            raise self._death
        self._over = self._loop.create_future()
        patience = self._patience = self._loop.call_later(_SETUP_SECONDS, self._lose_patience)
        try:
            self.send(message)
            return await self._over
        except BaseException:
            # Nobody waits for it any more, or it could not be told: it is of no use.
            self.kill()
            self._transport.close()
            raise
        finally:
            self._over = None
            patience.cancel()
            if self._killer is not None:
                self._killer.cancel()
                self._killer = None

    def interrupt(self) -> None:
        """Ask the handler to end, and see to it that it does."""
        if self._killer is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGTERM)
            self._killer = self._loop.call_later(_INTERRUPT_GRACE, self.kill)

    def kill(self) -> None:
        """At once, with everything that it started."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def leave(self) -> None:
        """Let it go in peace, and if it does not go, not in peace."""
        self._transport.close()
        try:
            await self.is_gone()
        finally:
            self.kill()
        await self.is_gone()

    async def is_gone(self) -> None:
        """Until it is dead, or for some seconds: what waits inside the kernel cannot be killed."""
        await asyncio.wait([self.gone], timeout=_FAREWELL)

    # --- what is heard ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - of a socket
        self._transport = transport
        self.gone = asyncio.create_task(self._await_death(), name="holdfast-process-watch")

    def data_received(self, data: bytes) -> None:
        unread = self._unread
        unread += data
        start = 0
        try:
            while len(unread) >= (body := start + wire.PREFIX_BYTES):
                end = body + int.from_bytes(unread[start:body], "big")
                if len(unread) < end:
                    break
                start = end
                self._hear(wire.from_process.decode(unread[body:end]))
        except Exception as error:  # noqa: BLE001 - whatever it is, the process is of no use
            _log.exception("a handler process said what its worker cannot take")
            self._end(HandlerProcessDied(f"its worker could not take what it said: {error}"))
        del unread[:start]

    def _hear(self, message: wire.FromProcess) -> None:
        match message:
            case wire.Ready():
                self._hear_ready(message.number)
            case wire.Over():
                if message.number == self._number:
                    self._finish(message.endings)
            case wire.Ask():
                answering = asyncio.create_task(self._answer(message))
                self._answers.add(answering)
                answering.add_done_callback(self._answers.discard)
            case wire.Line():
                self._equipment.journal.write(message.lease, message.level, message.message, message.fields)
            case wire.News():
                self._equipment.hints.send(message.queues)
            case wire.Broken():
                self._end(HandlerProcessDied(message.reason))

    def _hear_ready(self, number: int | None) -> None:
        if number != self._number or self._over is None:
            return
        self._patience.cancel()
        if number is None:
            self._finish([])
        elif (begin := self._begin) is not None:
            self._begin = None
            begin()

    def _finish(self, endings: list[wire.Ended]) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(endings)

    async def _answer(self, ask: wire.Ask) -> None:
        try:
            rows = await self._equipment.store.run(lambda: _alone(ask.statement()), read_only=ask.read_only)
            answer = wire.Answer(ask.number, wire.rows_of(rows))
        except HoldfastError as error:
            answer = wire.Answer(ask.number, error=type(error).__name__, message=str(error))
        self.send(answer)

    # --- its end ------------------------------------------------------------------------------------------------------

    async def _await_death(self) -> None:
        """The end of the process is the end of the conversation: a grandchild may keep the socket open."""
        status = await self._process.wait()
        if self._over is not None:
            await asyncio.wait([self._over], timeout=_LAST_WORDS_SECONDS)
        self._end(HandlerProcessDied(_cause(status)))

    def eof_received(self) -> None:
        """Without a line it is of no use; what it died of, its status says."""
        self.kill()

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is not None:  # it was not closed by us, to let the process go
            self.kill()

    def _lose_patience(self) -> None:
        self._end(HandlerProcessDied(f"it was not ready within {_SETUP_SECONDS:g} s"))

    def _end(self, death: HandlerProcessDied) -> None:
        self._death = self._death or death
        self.kill()
        self._transport.close()
        if self._over is not None and not self._over.done():
            self._over.set_exception(self._death)


def _main_file() -> bytes | None:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return None if main is None else os.fsencode(Path(main).absolute())


def _alone(statement: Statement) -> Operation[Rows]:
    return (yield statement)


def _cause(status: int) -> str:
    if status >= 0:
        return f"it exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"it was killed by {name}"
