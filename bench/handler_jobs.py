"""The app of handlers that take a millisecond: one queue for each place in which they run."""

from __future__ import annotations

import os

from bench.bare_handlers import burn, pause
from holdfast import App

app = App(os.environ["HOLDFAST_URL"], name="bench", auto_migrate=True)


@app.job(queue="nothing")
async def do_nothing() -> None:
    """Ends at once."""


@app.job(queue="waiting")
async def wait() -> None:
    """Waits in the event loop."""
    await pause()


@app.job(queue="threads")
def compute() -> None:
    """Computes in a thread of the worker."""
    burn()


@app.job(queue="processes", executor="process")
def compute_apart() -> None:
    """Computes in a process of its own."""
    burn()
