"""Job types that sleep, wait for a signal and for their children, and that die where they are told to, once."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import App, Context, JobHandle, Retry, SyncContext, WorkerConfig
from tests.crew.fault import Accident
from tests.crew.ledger import Ledger

#: where a journey may be interrupted
PLACES = (
    "before the sleep",
    "after the sleep",
    "before the signal",
    "after the signal",
    "between children",
    "before the gathering",
    "after the gathering",
)
CHILDREN = 3


@dataclass(frozen=True)
class Waits:
    """An app, its ledger and its job types."""

    app: App
    ledger: Ledger
    journey: JobHandle[..., Any]
    journey_sync: JobHandle[..., Any]


def make_waits(url: str, ledger_path: Path) -> Waits:
    """The same app in the test and in every worker process."""
    app = App(url, name="waits", auto_migrate=True)
    ledger = Ledger(ledger_path)
    write = ledger.write
    soon = Retry(max_attempts=50, initial=0.05, factor=1.0)

    def pass_by(ctx: Context | SyncContext, number: int, place: str, deadly: str) -> None:
        """The first who comes to the deadly place dies there."""
        write(ctx, number, place)
        if place == deadly:
            marker = ledger_path.with_name(f"{number} died")
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(60)

    @app.job(retry=soon)
    async def part(ctx: Context, number: int, which: int) -> int:
        write(ctx, number, f"part {which}")
        return 10 * number + which

    @app.job(retry=soon)
    async def journey(ctx: Context, number: int, deadly: str) -> list[Any]:
        await ctx.step("begin", write, ctx, number, "begun")
        pass_by(ctx, number, "before the sleep", deadly)
        await ctx.sleep("nap", 0.2)
        pass_by(ctx, number, "after the sleep", deadly)
        await ctx.step("go on", write, ctx, number, "gone on")
        pass_by(ctx, number, "before the signal", deadly)
        heard = await ctx.wait_signal("word")
        pass_by(ctx, number, "after the signal", deadly)
        children = []
        for which in range(CHILDREN):
            children.append(await ctx.enqueue(f"part {which}", part.call(number=number, which=which)))
            pass_by(ctx, number, "between children", deadly)
        pass_by(ctx, number, "before the gathering", deadly)
        parts = await ctx.gather(children)
        pass_by(ctx, number, "after the gathering", deadly)
        await ctx.step("end", write, ctx, number, "ended")
        return [heard, *parts]

    @app.job(retry=soon)
    def journey_sync(ctx: SyncContext, number: int, deadly: str) -> list[Any]:
        """The same in a thread."""
        ctx.step("begin", write, ctx, number, "begun")
        pass_by(ctx, number, "before the sleep", deadly)
        ctx.sleep("nap", 0.2)
        pass_by(ctx, number, "after the sleep", deadly)
        ctx.step("go on", write, ctx, number, "gone on")
        pass_by(ctx, number, "before the signal", deadly)
        heard = ctx.wait_signal("word")
        pass_by(ctx, number, "after the signal", deadly)
        children = []
        for which in range(CHILDREN):
            children.append(ctx.enqueue(f"part {which}", part.call(number=number, which=which)))
            pass_by(ctx, number, "between children", deadly)
        pass_by(ctx, number, "before the gathering", deadly)
        parts = ctx.gather(children)
        pass_by(ctx, number, "after the gathering", deadly)
        ctx.step("end", write, ctx, number, "ended")
        return [heard, *parts]

    return Waits(app, ledger, journey, journey_sync)


def work(url: str, ledger: Path, config: WorkerConfig, accident: Accident | None = None) -> None:
    """A worker process."""
    if accident is not None:
        accident.arm()
    make_waits(url, ledger).app.run_worker(config)
