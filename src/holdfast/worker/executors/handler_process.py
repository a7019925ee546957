"""A handler process, from its own side: waits for calls, makes them one at a time, and asks its worker to write."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import logging
import os
import runpy
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NoReturn, TypeVar

from holdfast.model.ids import Ids
from holdfast.operations.drive import drive
from holdfast.operations.lease import Lease
from holdfast.operations.statement import Rows, Statement, Verb
from holdfast.stores import Store, SyncStore
from holdfast.stores.borrowed import AsyncBorrowed, AsyncOwnTransaction, Borrowed, OwnTransaction
from holdfast.worker.attempt import Attempt, Ending, Written
from holdfast.worker.cancellation import Cancellation
from holdfast.worker.console import open_console
from holdfast.worker.equipment import Equipment, Hints, handlers_own
from holdfast.worker.executors import wire
from holdfast.worker.executors.calling import Interrupted, call, leave_if_forked
from holdfast.worker.executors.main_guard import importing_main
from holdfast.worker.executors.tasks import TaskExecutor
from holdfast.worker.handler import Handler
from holdfast.worker.hooks import OnError, call_inline, is_failure
from holdfast.worker.lifespan import Lifespan
from holdfast.worker.parent_death import set_parent_death_signal

_log = logging.getLogger("holdfast.worker")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Kit:
    """What the app gives its handlers in a process."""

    handlers: Mapping[str, Handler]
    store: Store
    client: Callable[[], Any]
    async_client: Callable[[], Any]
    ids: Ids
    channel: str | None
    on_error: Sequence[OnError]
    lifespan: Lifespan


#: from the settings of the worker's app, and the object that stands where the handler's name is
MakeKit = Callable[[dict[str, Any], object, types.ModuleType], Kit]


class HandlerProcess:
    """The main thread runs handlers, so that a signal can interrupt them; another one listens to the worker."""

    def __init__(self, connection: socket.socket, make_kit: MakeKit) -> None:
        self._line = _Line(connection)
        self._make_kit = make_kit
        self._inbox: SimpleQueue[wire.Setup | wire.Run | None] = SimpleQueue()
        self._attempts: dict[str, Attempt] = {}
        self._is_interruptible = False
        self._task: asyncio.Task[Any] | None = None
        self._runner = asyncio.Runner()
        self._kit: Kit | None = None
        self._settings: dict[str, Any] = {}
        self._equipment: tuple[Any, Any] = (None, None)
        self._state: Any = None
        self._failures: list[tuple[Attempt, BaseException]] = []

    def serve(self) -> None:
        """Until the worker hangs up."""
        # A handler that never lets go of the interpreter does not hear that the line is cut.
        set_parent_death_signal(signal.SIGKILL)
        # What is meant for the worker reaches the worker.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, self._on_signal)
        threading.Thread(target=self._listen, name="holdfast-listen", daemon=True).start()
        setup = self._inbox.get()
        if setup is None:
            return  # the worker has changed its mind
        assert isinstance(setup, wire.Setup)  # noqa: S101 - always said first
        open_console(setup.log_level)
        sys.path[:] = map(os.fsdecode, setup.path)
        self._settings = setup.app
        self._main = None if setup.main is None else os.fsdecode(setup.main)
        self._line.send(wire.Ready())
        with self._runner:
            while (run := self._inbox.get()) is not None:
                assert isinstance(run, wire.Run)  # noqa: S101 - nothing else comes here
                self._serve(run)
            if self._kit is not None:
                self._runner.run(self._kit.lifespan.close())

    def _serve(self, run: wire.Run) -> None:
        try:
            kit = self._kit or self._open(run)
        except Exception as error:  # noqa: BLE001 - whatever it is, the worker should know
            _log.exception("a handler process cannot be set up")
            self._line.send(wire.Broken(f"it could not be set up: {type(error).__name__}: {error}"))
            self._inbox.put(None)
            return
        attempts = [Attempt(job, kit.handlers.get(job.type_name), run.worker_id) for job in run.jobs]
        handler = attempts[0].handler
        assert handler is not None  # noqa: S101 - the worker looked it up by the same name
        self._attempts = {attempt.job.id: attempt for attempt in attempts}
        self._line.send(wire.Ready(run.number))
        endings: Sequence[Ending]
        try:
            self._is_interruptible = True
            endings = self._call(attempts, handler)
            self._is_interruptible = False
        except Interrupted:
            self._is_interruptible = False
            endings = [None] * len(attempts)
        finally:
            leave_if_forked(self._line.pid)
        self._attempts = {}
        self._line.send(wire.Over(run.number, [wire.pack(*pair) for pair in zip(attempts, endings, strict=True)]))
        # Not before: a slow hook does not hold up the outcome.
        failures, self._failures = self._failures, []
        for attempt, failure in failures:
            call_inline(kit.on_error, attempt, failure)

    def _call(self, attempts: Sequence[Attempt], handler: Handler) -> Sequence[Ending]:
        asynchronous, plain = self._equipment
        if not handler.is_async:
            return copy_context().run(call, attempts, handler, plain, self._hook)
        return self._runner.run(self._acall(attempts, handler, asynchronous))

    async def _acall(self, attempts: Sequence[Attempt], handler: Handler, equipment: Any) -> Sequence[Ending]:
        over: asyncio.Future[Sequence[Ending]] = asyncio.get_running_loop().create_future()
        executor = TaskExecutor(equipment, self._hook, lambda _, endings: over.set_result(endings))
        executor.start(attempts, handler)
        self._task = attempts[0].task
        try:
            return await over
        finally:
            self._task = None

    def _open(self, run: wire.Run) -> Kit:
        """With the first call, whose function says where the app is."""
        module = _import(run.module, self._main)
        found: object = module
        for name in run.qualname.split("."):
            found = getattr(found, name, None)
        kit = self._kit = self._make_kit(self._settings, found, module)
        self._state = self._runner.run(kit.lifespan.open())
        hints = Hints(self._line.hint, kit.channel)
        local = kit.store.sync()
        remote = _RemoteStore(self._line, local)
        aremote = _AsyncRemoteStore(remote, kit.store)
        self._equipment = (
            Equipment(handlers_own(kit.async_client()), aremote, self._line, kit.ids, hints, self._state),
            Equipment(handlers_own(kit.client()), remote, self._line, kit.ids, hints, self._state),
        )
        return kit

    def _hook(self, attempt: Attempt, ending: Written, error: BaseException) -> None:
        assert self._kit is not None  # noqa: S101 - a handler was called
        if self._kit.on_error and is_failure(ending) and not attempt.is_reported:
            self._failures.append((attempt, error))

    def _on_signal(self, *_: object) -> None:
        if not self._is_interruptible:
            return
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            return
        self._is_interruptible = False
        raise Interrupted

    def _listen(self) -> None:
        while (message := self._line.receive()) is not None:
            match message:
                case wire.Told():
                    if (attempt := self._attempts.get(message.job_id)) is not None:
                        attempt.cancelled = Cancellation(message.reason)
                        attempt.is_reported |= attempt.is_late  # by the worker, which has given it up
                case wire.Answer():
                    self._line.answered(message)
                case _:
                    self._inbox.put(message)
        if self._attempts:
            os._exit(1)  # the worker is gone: nobody renews the lease of what runs here
        self._inbox.put(None)


class _Line:
    """The socket to the worker; `write` makes it a journal."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = os.getpid()
        self._writing = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[int, SimpleQueue[wire.Answer]] = {}

    def send(self, message: wire.FromProcess) -> None:
        if os.getpid() != self.pid:  # it would not hear the answer
            raise RuntimeError("a process that a handler has forked cannot use the handler's context")
        with self._writing:
            self._connection.sendall(wire.framed(message))

    def receive(self) -> wire.ToProcess | None:
        try:
            size = int.from_bytes(self._exactly(wire.PREFIX_BYTES), "big")
            return wire.to_process.decode(self._exactly(size))
        except (EOFError, OSError):
            return None

    def ask(self, statement: Statement, *, read_only: bool) -> Rows:
        number = next(self._numbers)
        answers = self._waiting[number] = SimpleQueue()
        self.send(wire.Ask.of(number, statement, read_only=read_only))
        answer = answers.get()
        if answer.error is not None:
            raise wire.error_of(answer)
        return answer.rows

    def answered(self, answer: wire.Answer) -> None:
        if (waiting := self._waiting.pop(answer.number, None)) is not None:
            waiting.put(answer)

    def write(self, lease: Lease, level: str, message: str, fields: bytes | None) -> None:
        self.send(wire.Line(lease, level, message, fields))

    def hint(self, queues: Any) -> None:
        self.send(wire.News(list(queues)))

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            chunk = self._connection.recv(min(size - len(data), 1 << 20))
            if not chunk:
                raise EOFError
            data += chunk
        return bytes(data)


class _RemoteStore:
    """Own transactions are the worker's, which has connections; the handler's transactions are made here."""

    def __init__(self, line: _Line, local: SyncStore) -> None:
        self._line = line
        self._local = local

    def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        def execute(statement: Statement) -> Rows:
            return self._line.ask(statement, read_only=read_only)

        return drive(verb(), execute, _refuse_several)

    def borrow(self, tx: object) -> Borrowed:
        return self._local.borrow(tx)

    def transaction(self) -> AbstractContextManager[OwnTransaction]:
        return self._local.transaction()


class _AsyncRemoteStore:
    def __init__(self, remote: _RemoteStore, store: Store) -> None:
        self._remote = remote
        self._local = store.asynchronous()

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        return await asyncio.to_thread(self._remote.run, verb, read_only=read_only)

    async def borrow(self, tx: object) -> AsyncBorrowed:
        return await self._local.borrow(tx)

    def transaction(self) -> AbstractAsyncContextManager[AsyncOwnTransaction]:
        return self._local.transaction()


def _refuse_several() -> NoReturn:
    raise AssertionError("a handler's own verbs are single statements")


def _import(name: str, main: str | None) -> types.ModuleType:
    """The module of a handler; that of a script is run anew under another name, as its guard against that expects."""
    if name != "__main__":
        return importlib.import_module(name)
    if main is None:
        raise ImportError("the handler is in a __main__ that has no file")
    module = types.ModuleType("__holdfast_main__")
    sys.modules["__holdfast_main__"] = sys.modules["__main__"] = module
    with importing_main():
        module.__dict__.update(runpy.run_path(main, run_name="__holdfast_main__"))
    return module
