"""The app that is measured: no-op jobs with a 58-byte payload."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from holdfast import App, Context


async def passing(_: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """A middleware that does nothing."""
    return await call_next()


app = App(os.environ["HOLDFAST_URL"], name="bench", auto_migrate=True)


@app.job()
async def receipt(order_id: int, email: str) -> None:
    """Does nothing."""


@app.job(timeout=60, middleware=[passing])
async def dressed_receipt(_: Context, order_id: int, email: str) -> None:
    """Does nothing, with everything that may be around a handler."""


@app.job(queue="stamp")
async def stamp(sent_ns: int, path: str) -> None:
    """Notes how long it took from the enqueue call to this line."""
    with Path(path).open("a", encoding="ascii") as file:  # noqa: ASYNC230 - a few bytes, and the event loop is idle
        file.write(f"{time.monotonic_ns() - sent_ns}\n")
