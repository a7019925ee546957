"""Keeps a number of worker processes running until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from holdfast.errors import WorkerCannotWork
from holdfast.worker.exit_codes import ExitCode
from holdfast.worker.health import serve_health
from holdfast.worker.supervisor.child import Child
from holdfast.worker.supervisor.leash import STOP, STOP_AT_ONCE
from holdfast.worker.supervisor.reload import FileWatch
from holdfast.worker.systemd import ServiceManager
from holdfast.worker.vitals import Vitals

_log = logging.getLogger("holdfast.supervisor")

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
#: a process that has lived so long does not pay for the deaths of those before it
_PROVEN_SECONDS = 10.0
#: after a second signal nobody waits longer than this
_HURRIED_KILL_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class SupervisorConfig:
    """What the supervisor must know of its processes.

    - `command`: starts one.
    - `processes`: how many.
    - `stop_deadline`: theirs; `kill_after`: how much longer they may take.
    - `dead_after`: a process that has not reported for so long is not live.
    - `until_idle`: they end by themselves, and so does the supervisor.
    """

    command: Sequence[str]
    processes: int
    stop_deadline: timedelta
    kill_after: timedelta
    dead_after: timedelta
    until_idle: bool = False
    health_host: str = "127.0.0.1"
    health_port: int | None = None


class Supervisor:
    """Starts, restarts and stops; with a `watch`, also when files have changed."""

    def __init__(self, config: SupervisorConfig, watch: FileWatch | None = None) -> None:
        self._config = config
        self._watch = watch
        self._service_manager = ServiceManager.from_environment()
        self._children: dict[int, Child] = {}
        #: the first process of this code has shown that it can work
        self._works = asyncio.Event()
        #: no process is started any more, for good or until the next change
        self._stopping = asyncio.Event()
        #: 1 for a graceful stop, 2 for an immediate one
        self._asked = 0
        self._last_order: bytes | None = None
        self._killer: asyncio.TimerHandle | None = None
        self._has_killed = False

    async def run(self) -> int:
        """The exit code of the whole."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            loop.add_signal_handler(number, self._signalled, number)
        async with serve_health(self._config.health_host, self._config.health_port, self.vitals):
            manager = self._service_manager
            informing = None if manager is None else asyncio.create_task(manager.keep_informed(self.vitals))
            try:
                return await self._run()
            finally:
                if manager is not None and informing is not None:
                    informing.cancel()
                    manager.say_stopping()

    def vitals(self) -> Vitals:
        """All processes in one; one that is starting has nothing to say yet and is not held against the others."""
        patience = self._config.dead_after.total_seconds()
        known = [child for child in self._children.values() if child.vitals is not None]
        heard = [child.vitals for child in known if child.vitals is not None and child.report_age <= patience]
        is_live = len(heard) == len(known) and all(vitals.is_live for vitals in heard)
        ready = sum(vitals.is_ready for vitals in heard)
        what = "stopping" if self._asked else f"{ready} of {self._config.processes} processes work"
        return Vitals(
            is_live=is_live,
            is_ready=ready > 0 and not self._asked,
            is_leader=any(vitals.is_leader for vitals in heard),
            summary=what if is_live else f"{what}; not all are heard",
        )

    # --- one code -----------------------------------------------------------------------------------------------------

    async def _run(self) -> int:
        if self._watch is None:
            return self._verdict(await self._run_once())
        while not self._asked:
            changing = asyncio.create_task(self._restart_on_change(self._watch))
            await self._run_once()
            if not self._stopping.is_set():
                _log.info("waiting for a change of the code")
                await self._stopping.wait()
            await _cancelled(changing)
            if not self._asked:
                self._call_off_killer()
                self._stopping.clear()
                self._last_order = None
        return ExitCode.STOPPED

    async def _restart_on_change(self, watch: FileWatch) -> None:
        changed = await watch.changed()
        others = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        _log.info("%s%s changed: restarting", changed[0], others)
        self._stop_children(STOP, self._config.stop_deadline + self._config.kill_after)

    async def _run_once(self) -> list[int]:
        """Until every process has ended for good; the first one shows whether the others need be started at all."""
        self._works.clear()
        keepers = [asyncio.create_task(self._keep(1))]
        works = asyncio.create_task(self._works.wait())
        await asyncio.wait([*keepers, works], return_when=asyncio.FIRST_COMPLETED)
        await _cancelled(works)
        if self._works.is_set():
            keepers += [asyncio.create_task(self._keep(number)) for number in range(2, self._config.processes + 1)]
        try:
            return await asyncio.gather(*keepers)
        finally:
            self._call_off_killer()

    async def _keep(self, number: int) -> int:
        """One process after the other; returns the exit code of the last."""
        pause = _FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                child = await self._started(number)
            except OSError as error:
                if not self._works.is_set():
                    raise WorkerCannotWork(f"process {number} cannot be started: {error}") from error
                _log.error("process %d cannot be started: %s; again in %g s", number, error, pause)
                pause = await self._pause(pause)
                continue
            code = await child.wait()
            del self._children[number]
            self._has_killed |= child.is_killed
            how = f"was killed by {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
            if self._stopping.is_set():
                _log.info("%s %s", child, how)
                return code
            if self._config.until_idle and code in {ExitCode.STOPPED, ExitCode.DEAD_LETTERS}:
                _log.info("%s %s: nothing left to do", child, how)
                return code
            if code and not self._works.is_set():
                _log.error("%s %s before it could work; the reason stands above", child, how)
                return code
            if code == ExitCode.RECYCLED:
                _log.info("%s has done its share; the next one follows", child)
                continue
            if child.lived_seconds >= _PROVEN_SECONDS:
                pause = _FIRST_PAUSE
            _log.warning("%s %s; another one in %g s", child, how, pause)
            pause = await self._pause(pause)
        return ExitCode.STOPPED

    async def _pause(self, seconds: float) -> float:
        """Until a stop, or for so long; returns the next, longer pause."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        return min(seconds * 2, _LONGEST_PAUSE)

    async def _started(self, number: int) -> Child:
        child = self._children[number] = await Child.start(number, self._config.command, self._works.set)
        _log.info("%s started", child)
        if self._last_order is not None:
            child.order(self._last_order)
        return child

    def _verdict(self, codes: Sequence[int]) -> int:
        if self._has_killed:
            return ExitCode.CANNOT_WORK
        if set(codes) <= {ExitCode.STOPPED, ExitCode.DEAD_LETTERS, ExitCode.RECYCLED}:
            return ExitCode.DEAD_LETTERS if ExitCode.DEAD_LETTERS in codes else ExitCode.STOPPED
        worst = max(codes)
        return worst if not self._asked and worst > 0 else ExitCode.CANNOT_WORK

    # --- the end ------------------------------------------------------------------------------------------------------

    def _signalled(self, number: signal.Signals) -> None:
        self._asked += 1
        is_hurried = self._asked > 1 or number is signal.SIGQUIT
        if self._service_manager is not None:
            self._service_manager.say_stopping()
        if is_hurried:
            _log.info("%s: all processes stop at once", number.name)
            patience = min(self._config.kill_after, timedelta(seconds=_HURRIED_KILL_SECONDS))
            self._stop_children(STOP_AT_ONCE, patience)
        else:
            deadline = self._config.stop_deadline
            seconds = deadline.total_seconds()
            _log.info("%s: all processes stop within %g s, a second signal does not wait", number.name, seconds)
            self._stop_children(STOP, deadline + self._config.kill_after)

    def _stop_children(self, order: bytes, patience: timedelta) -> None:
        self._stopping.set()
        self._last_order = order
        for child in self._children.values():
            child.order(order)
        self._call_off_killer()
        loop = asyncio.get_running_loop()
        self._killer = loop.call_later(patience.total_seconds(), self._kill_children)

    def _call_off_killer(self) -> None:
        if self._killer is not None:
            self._killer.cancel()

    def _kill_children(self) -> None:
        for child in self._children.values():
            _log.error("%s does not stop: killed; others will run its jobs again", child)
            child.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


async def _cancelled(task: asyncio.Task[object]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
