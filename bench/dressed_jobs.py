"""A no-op job with everything that may be around it: a context, a timeout, a middleware, a listener of events."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from holdfast import App, Context, Event


async def passing(_: Context, call_next: Callable[[], Awaitable[Any]]) -> Any:
    """A middleware that does nothing."""
    return await call_next()


app = App(os.environ["HOLDFAST_URL"], name="bench", auto_migrate=True)

told: Counter[type[Event]] = Counter()


@app.on_event
def count(event: Event) -> None:
    """Two of each job: started and completed."""
    told[type(event)] += 1


@app.job(timeout=60, middleware=[passing])
async def dressed_receipt(_: Context, order_id: int, email: str) -> None:
    """Does nothing."""
