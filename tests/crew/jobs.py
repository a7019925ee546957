"""The job types that the tests run: each writes into the ledger what happens to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import App, Context, JobHandle, Retry, SyncContext
from tests.crew.ledger import Ledger


@dataclass(frozen=True)
class Jobs:
    """An app, its ledger and its job types."""

    app: App
    ledger: Ledger
    note: JobHandle[..., Any]
    note_sync: JobHandle[..., Any]
    hold: JobHandle[..., Any]
    hold_sync: JobHandle[..., Any]
    beat: JobHandle[..., Any]
    hold_then_fail: JobHandle[..., Any]
    stubborn: JobHandle[..., Any]
    block_loop: JobHandle[..., Any]
    poison: JobHandle[..., Any]
    fail: JobHandle[..., Any]
    relay: JobHandle[..., Any]


@contextlib.asynccontextmanager
async def slow_farewell(_: App) -> AsyncIterator[None]:
    """A lifespan that takes its time at the end."""
    yield
    await asyncio.sleep(1)


def make_jobs(url: str, ledger_path: Path, **options: Any) -> Jobs:  # noqa: C901, PLR0915 - a list of job types
    """The same app in the test and in every worker process."""
    app = App(url, name="crew", auto_migrate=True, **options)
    ledger = Ledger(ledger_path)
    write = ledger.write
    soon = Retry(max_attempts=20, initial=0.05, factor=1.0)

    @app.job(retry=soon)
    async def note(ctx: Context, number: int, pause: float = 0.0) -> int:
        """Takes `pause` seconds."""
        write(ctx, number, "started")
        try:
            await asyncio.sleep(pause)
        except asyncio.CancelledError:
            write(ctx, number, f"cancelled: {ctx.cancelled}")
            raise
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    def note_sync(ctx: SyncContext, number: int, pause: float = 0.0) -> int:
        """The same in a thread."""
        write(ctx, number, "started")
        time.sleep(pause)
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def hold(ctx: Context, number: int, gate: str) -> int:
        """Until the file `gate` exists."""
        write(ctx, number, "started")
        try:
            while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - the signal comes from another process
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            write(ctx, number, f"cancelled: {ctx.cancelled}")
            raise
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    def hold_sync(ctx: SyncContext, number: int, gate: str) -> int:
        """The same in a thread, which cannot be cancelled but may look."""
        write(ctx, number, "started")
        has_told = False
        while not Path(gate).exists():
            if ctx.cancelled is not None and not has_told:
                write(ctx, number, f"told: {ctx.cancelled}")
                has_told = True
            time.sleep(0.01)
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    def beat(ctx: SyncContext, number: int, gate: str) -> int:
        """Shows all the time that it runs; stops for nobody but the file `gate`."""
        write(ctx, number, "started")
        while not Path(gate).exists():
            write(ctx, number, "beat")
            time.sleep(0.002)
        return number

    @app.job(retry=soon)
    def hold_then_fail(ctx: SyncContext, number: int, gate: str) -> int:
        """Until the file `gate` exists; the first delivery then fails."""
        write(ctx, number, "started")
        while not Path(gate).exists():
            time.sleep(0.01)
        if ctx.attempt == 1:
            write(ctx, number, "failed")
            raise RuntimeError("the first delivery fails")
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def stubborn(ctx: Context, number: int, gate: str) -> int:
        """Like `hold`, but deaf to cancellation."""
        write(ctx, number, "started")
        while not Path(gate).exists():  # noqa: ASYNC240 - as above
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def block_loop(ctx: Context, number: int, seconds: float) -> int:
        """What no async handler should do."""
        write(ctx, number, "started")
        time.sleep(seconds)  # noqa: ASYNC251 - that is the point
        write(ctx, number, "finished")
        return number

    # Later than what it took down with it, which therefore runs first.
    @app.job(retry=Retry(max_attempts=20, initial=0.5, factor=1.0))
    async def poison(ctx: Context, number: int) -> None:
        """Kills its worker, every time."""
        write(ctx, number, "started")
        os.kill(os.getpid(), signal.SIGKILL)

    @app.job(retry=soon)
    async def fail(ctx: Context, number: int, times: int) -> int:
        """Fails on its first `times` attempts."""
        write(ctx, number, "started")
        if ctx.attempt <= times:
            write(ctx, number, "failed")
            raise RuntimeError(f"attempt {ctx.attempt} of {number}")
        write(ctx, number, "finished")
        return number

    @app.job(retry=soon)
    async def relay(ctx: Context, number: int, left: int, pause: float = 0.0) -> int:
        """Hands the work on `left` times."""
        write(ctx, number, "started")
        await asyncio.sleep(pause)
        if left == 0:
            return number
        return await ctx.continue_with(relay.call(number=number, left=left - 1, pause=pause))

    return Jobs(
        app, ledger, note, note_sync, hold, hold_sync, beat, hold_then_fail, stubborn, block_loop, poison, fail, relay
    )
