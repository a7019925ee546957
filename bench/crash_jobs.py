"""The app of jobs that a worker dies with."""

from __future__ import annotations

import asyncio
import os

from holdfast import App, Context

app = App(os.environ["HOLDFAST_URL"], name="bench", auto_migrate=True)


@app.job()
async def unfinished(ctx: Context) -> None:
    """Does not end where it is claimed first, and at once where it is claimed again."""
    if ctx.lease_generation == 1:
        await asyncio.sleep(3_600)
