"""A worker as a process: signals in, an exit status out."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable

from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")

_DEAF_SECONDS = 1.0
_SWITCH_SECONDS = 0.0005


def run_until_signalled(make_worker: Callable[[], Worker]) -> None:
    """Run until SIGTERM or SIGINT; a second one stops at once."""
    # SQLite's writer and the lease keeper are threads: with Python's 5 ms each of their steps can wait that long for a
    # busy event loop (SQLite drained 17,100 jobs/s so, 27,300 with this).
    sys.setswitchinterval(_SWITCH_SECONDS)
    asyncio.run(_serve(make_worker))


async def _serve(make_worker: Callable[[], Worker]) -> None:
    worker = make_worker()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, worker, number)
    status = 1
    try:
        await worker.run()
        status = 0
    finally:
        await _leave_the_deaf(status)


async def _leave_the_deaf(status: int) -> None:
    """The jobs are back in the database; a handler that swallows its cancellation must not keep the process."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    if rest and (deaf := (await asyncio.wait(rest, timeout=_DEAF_SECONDS))[1]):
        _log.error("%d handlers do not react to their cancellation; the process ends without them", len(deaf))
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _stop(worker: Worker, number: signal.Signals) -> None:
    patience = worker.config.stop_deadline.total_seconds()
    _log.info("%s: no new jobs; running ones have %g s, a second signal does not wait", number.name, patience)
    worker.stop()
