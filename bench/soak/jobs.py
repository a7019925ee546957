"""The app of the soak: jobs that do little, in every way that leaves something behind; history is kept for seconds."""

from __future__ import annotations

import os

from holdfast import App, Context, Keep, Retry

#: so long that people could look, and so short that it is full before the figures count
_KEPT_SECONDS = 10
_SOON = Retry(max_attempts=3, initial=0.1, factor=1.0)
_KEEP = Keep(completed=_KEPT_SECONDS, dead_letter=_KEPT_SECONDS, cancelled=_KEPT_SECONDS)

app = App(os.environ["HOLDFAST_URL"], name="soak", auto_migrate=True, keep=_KEEP)


@app.job()
async def quick(number: int) -> int:
    """Succeeds."""
    return number


@app.job(partition_key=lambda customer: f"customer {customer}")
async def keyed(customer: int) -> int:
    """One at a time for each customer."""
    return customer


@app.job(dedup=lambda shop: f"shop {shop}")
async def deduplicated(shop: int) -> int:
    """Some of its enqueues find one that has not finished."""
    return shop


@app.job(retry=_SOON)
async def flaky(ctx: Context) -> None:
    """Succeeds at the second attempt."""
    if ctx.attempt == 1:
        raise RuntimeError("the first attempt fails")


@app.job(retry=_SOON)
async def doomed() -> None:
    """Ends as a dead letter."""
    raise RuntimeError("it always fails")


@app.job()
async def relay(ctx: Context, left: int) -> int:
    """A chain."""
    if left == 0:
        return 0
    return await ctx.continue_with(relay.call(left=left - 1))


@app.schedule(every=1, name="ticks")
@app.job()
async def tick() -> None:
    """Every second."""
