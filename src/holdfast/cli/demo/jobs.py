"""The app of the demo: four job types that behave like everyday work."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from typing import Any

from holdfast.app import App
from holdfast.cli.demo.executions import ExecutionLog
from holdfast.model.call import Call
from holdfast.model.retry import Retry
from holdfast.worker import Context, SyncContext

_SEED = 20
_PATIENCE = Retry(max_attempts=5, initial=0.5, maximum=2)
_LITTLE_PATIENCE = Retry(max_attempts=3, initial=0.3, maximum=1)


def executions_path(app: App) -> Path:
    """The file in which the handlers write down what they did: beside the database."""
    return Path(app.store.url.removeprefix("sqlite:///")).with_name("executions.log")


def make_app(url: str | None = None) -> App:
    """The app on `url`, or on $HOLDFAST_URL."""
    app = App(url, name="demo")
    log = ExecutionLog(executions_path(app))

    @app.job(retry=_PATIENCE)
    def resize_image(ctx: SyncContext, milliseconds: int) -> None:
        with log.execution(ctx):
            time.sleep(milliseconds / 1000)

    @app.job(retry=_PATIENCE)
    async def send_mail(ctx: Context, milliseconds: int) -> None:
        with log.execution(ctx):
            await asyncio.sleep(milliseconds / 1000)

    @app.job(retry=_PATIENCE, priority=-1)
    async def charge_card(ctx: Context, milliseconds: int) -> None:
        with log.execution(ctx):
            await asyncio.sleep(milliseconds / 1000)
            # Not by attempt: one that a crash cut short would never fail.
            if ctx.job.last_attempt_error is None or ctx.job.last_attempt_error.type != "ConnectionError":
                raise ConnectionError("the payment gateway did not answer")

    @app.job(retry=_LITTLE_PATIENCE)
    def import_file(ctx: SyncContext) -> None:
        with log.execution(ctx):
            raise ValueError("line 1 is not a date; no retry will mend that")

    return app


def make_calls(app: App, count: int) -> list[Call[Any]]:
    """`count` calls, shuffled: six tenths images, three tenths mails, one tenth cards, and one file that is broken."""
    dice = random.Random(_SEED)  # noqa: S311 - no secret
    cards = count // 10
    mails = count * 3 // 10
    calls = [app.call("import_file")]
    calls += [app.call("charge_card", milliseconds=dice.randrange(20, 60)) for _ in range(cards)]
    calls += [app.call("send_mail", milliseconds=dice.randrange(60, 140)) for _ in range(mails)]
    calls += [app.call("resize_image", milliseconds=dice.randrange(10, 50)) for _ in range(count - len(calls))]
    dice.shuffle(calls)
    return calls
