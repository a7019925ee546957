"""The app that the command line is tried on; copied into a directory of the test, as a user's module would lie."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

from holdfast import App, Context, Retry

_HOARD: list[bytes] = []


def make_app(url: str | None = None) -> App:
    """On `url`, or on $HOLDFAST_URL; handlers say on stdout what they do, so that a test can wait for it."""
    app = App(url, name="shop", auto_migrate=True)

    @app.job(queue="mail")
    def greet(name: str) -> str:
        print(f"hello {name}", flush=True)  # noqa: T201 - see above
        return f"hello {name}"

    @app.job(retry=Retry(max_attempts=2, initial=0.01))
    async def spoil(ctx: Context, reason: str) -> None:
        print(f"attempt {ctx.attempt}", flush=True)  # noqa: T201 - see above
        raise ValueError(reason)

    @app.job()
    async def nap(seconds: float) -> None:
        print("napping", flush=True)  # noqa: T201 - see above
        await asyncio.sleep(seconds)

    @app.job()
    async def hop(ctx: Context, times: int) -> Any:
        return await ctx.continue_with(app.call("hop", times=times - 1)) if times else "arrived"

    @app.job(retry=Retry(max_attempts=1))
    async def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    @app.job()
    async def hoard(megabytes: int) -> None:
        _HOARD.append(b"x" * megabytes * 2**20)

    return app
