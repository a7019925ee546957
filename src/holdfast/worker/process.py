"""A worker as a process: signals in, an exit status out."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from holdfast.worker.worker import Worker

_log = logging.getLogger("holdfast.worker")


def run_until_signalled(make_worker: Callable[[], Worker]) -> None:
    """Run until SIGTERM or SIGINT; a second one stops at once."""
    asyncio.run(_serve(make_worker))


async def _serve(make_worker: Callable[[], Worker]) -> None:
    worker = make_worker()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, _stop, worker, number)
    await worker.run()


def _stop(worker: Worker, number: signal.Signals) -> None:
    patience = worker.config.stop_deadline.total_seconds()
    _log.info("%s: no new jobs; running ones have %g s, a second signal does not wait", number.name, patience)
    worker.stop()
