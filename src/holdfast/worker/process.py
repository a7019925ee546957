"""A worker as a process: signals in, an exit code out."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NoReturn

from holdfast.worker.blocked_loop import BlockedLoop
from holdfast.worker.exit_codes import ExitCode
from holdfast.worker.limits import Limit
from holdfast.worker.supervisor.leash import Leash
from holdfast.worker.systemd import ServiceManager
from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")

_DEAF_SECONDS = 1.0
#: short: handlers that do not stop work on beside whoever has their jobs now
_FAREWELL_SECONDS = 0.5
_SWITCH_SECONDS = 0.0005
#: Python's own choices of how many more objects there are than at the last look for unreachable ones; and ours: a claim
#: of 500 jobs makes some thousands that live for as long as their jobs do, and each look goes through all of them (one
#: twelfth of what a worker's Python costs, on 3.11)
_PYTHONS_YOUNG: Final = {700, 2_000}
_MOST_YOUNG: Final = 10_000


def run_until_signalled(
    make_worker: Callable[[], Worker], *, say_farewell: Callable[[], None], leash: Leash | None = None
) -> int:
    """Run until SIGTERM or SIGINT, or a limit of the worker's config; returns the exit code.

    A second signal stops at once, as SIGQUIT does; `leash` is the line to a supervisor. `say_farewell` sends the last
    hints, if the process must end here and now.
    """
    # SQLite's writer and the lease keeper are threads: with Python's 5 ms each of their steps can wait that long for a
    # busy event loop (SQLite drained 17,100 jobs/s so, 27,300 with this).
    sys.setswitchinterval(_SWITCH_SECONDS)
    young, *older = gc.get_threshold()
    if young in _PYTHONS_YOUNG:  # otherwise somebody has chosen
        gc.set_threshold(_MOST_YOUNG, *older)
    return asyncio.run(_serve(make_worker, say_farewell, leash))


async def _serve(make_worker: Callable[[], Worker], say_farewell: Callable[[], None], leash: Leash | None) -> int:
    worker = make_worker()
    requests = _StopRequests(worker)
    blocked = BlockedLoop(worker)
    blocked.start()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, requests.signalled, number)
        signal.signal(number, blocked.signalled)  # beside it: the loop is woken before Python calls anything
    companions = []
    if leash is not None:
        leash.listen(requests.ordered, blocked.ordered, worker.config.stop_deadline)
        companions.append(asyncio.create_task(leash.report(lambda: worker.vitals, worker.started)))
    elif (manager := ServiceManager.from_environment()) is not None:
        requests.heard = manager.say_stopping
        companions.append(asyncio.create_task(manager.keep_informed(lambda: worker.vitals)))
    status: int = ExitCode.CANNOT_WORK
    try:
        await worker.run()
        status = _exit_code(worker, is_supervised=leash is not None)
    finally:
        requests.heard()
        await _leave_the_deaf(worker, status, say_farewell)
        blocked.close()
    return status


def _exit_code(worker: Worker, *, is_supervised: bool) -> int:
    if worker.config.until_idle and worker.dead_letters:
        _log.error("%d jobs became dead letters; see `holdfast dead list`", worker.dead_letters)
        return ExitCode.DEAD_LETTERS
    is_recycled = worker.reached in {Limit.MAX_JOBS, Limit.MAX_RSS}
    return ExitCode.RECYCLED if is_recycled and is_supervised else ExitCode.STOPPED


class _StopRequests:
    """Counts by source: a signal to everything (systemd's) and the supervisor's order mean the same stop, not two."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._asked: Counter[str] = Counter()
        self.heard: Callable[[], None] = lambda: None

    def signalled(self, number: signal.Signals) -> None:
        self._ask("signals", self._asked["signals"] + (2 if number is signal.SIGQUIT else 1), number.name)

    def ordered(self, level: int) -> None:
        """By the supervisor: 1 for a graceful stop, 2 for an immediate one."""
        self._ask("orders", level, "the supervisor")

    def _ask(self, source: str, level: int, who: str) -> None:
        if level == 1:
            patience = self._worker.config.stop_deadline.total_seconds()
            _log.info("%s: no new jobs; running ones have %g s, a second signal does not wait", who, patience)
        else:
            _log.info("%s: running jobs go back at once", who)
        before = max(self._asked.values(), default=0)
        self._asked[source] = max(level, self._asked[source])
        for _ in range(before, level):
            self._worker.stop()
        self.heard()


async def _leave_the_deaf(worker: Worker, status: int, say_farewell: Callable[[], None]) -> None:
    """The jobs are back in the database; a handler that does not stop must not keep the process."""
    if worker.stuck:
        _log.error("%d handlers or lifespans do not stop; the process ends without them", worker.stuck)
        _exit(status, say_farewell)
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest and (deaf := (await asyncio.wait(rest, timeout=_DEAF_SECONDS))[1]):
        _log.error("%d tasks do not react to their cancellation; the process ends without them", len(deaf))
        _exit(status, say_farewell)
    if not await _are_helpers_idle():
        _log.error("threads of asyncio.to_thread do not end; the process ends without them")
        _exit(status, say_farewell)


async def _are_helpers_idle() -> bool:
    """Whether the threads of the event loop's own pool can be waited for, which Python does without a limit."""
    pool = getattr(asyncio.get_running_loop(), "_default_executor", None)
    if pool is None:
        return True
    joining = threading.Thread(target=pool.shutdown, name="holdfast-farewell", daemon=True)
    joining.start()
    deadline = time.monotonic() + _DEAF_SECONDS
    while joining.is_alive() and time.monotonic() < deadline:  # noqa: ASYNC110 - a thread's end is no event
        await asyncio.sleep(0.01)
    return not joining.is_alive()


def _exit(status: int, say_farewell: Callable[[], None]) -> NoReturn:
    leaving = threading.Thread(target=say_farewell, name="holdfast-farewell", daemon=True)
    leaving.start()
    leaving.join(_FAREWELL_SECONDS)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
