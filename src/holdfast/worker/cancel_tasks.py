"""Ending tasks so that they have ended."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterable
from typing import Any

#: longer than a task that was asked to stop should need to tidy up: a driver cancels the statement first
_ASK_AGAIN_SECONDS = 6.0


async def cancel_tasks(
    tasks: Iterable[asyncio.Task[Any]], patience: float = math.inf, *, is_asked: bool = False
) -> None:
    """Cancel, unless that `is_asked` already, and wait until all have ended, or for `patience` seconds.

    They are asked more than once: before Python 3.12 a cancellation that comes together with what a task waits for in
    `asyncio.wait_for` is lost, and drivers wait so. A service that runs for ever would go on.
    """
    deadline = time.monotonic() + patience
    while pending := [task for task in tasks if not task.done()]:
        for task in () if is_asked else pending:
            task.cancel()
        is_asked = False
        await asyncio.wait(pending, timeout=min(deadline - time.monotonic(), _ASK_AGAIN_SECONDS))
        if time.monotonic() >= deadline:
            return
