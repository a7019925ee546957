"""The app that is measured: no-op jobs with a 58-byte payload."""

from __future__ import annotations

import os
import time
from pathlib import Path

from holdfast import App

app = App(os.environ["HOLDFAST_URL"], name="bench", auto_migrate=True)


@app.job()
async def receipt(order_id: int, email: str) -> None:
    """Does nothing."""


@app.job(queue="stamp")
async def stamp(sent_ns: int, path: str) -> None:
    """Notes how long it took from the enqueue call to its first line."""
    started_ns = time.monotonic_ns()
    with Path(path).open("a", encoding="ascii") as file:  # noqa: ASYNC230 - a few bytes, and the event loop is idle
        file.write(f"{started_ns - sent_ns}\n")
