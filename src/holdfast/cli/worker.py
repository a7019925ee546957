"""`holdfast worker`: run jobs until a signal says stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import click

from holdfast.app import App
from holdfast.cli.loading import load_app
from holdfast.cli.values import duration, shown_duration
from holdfast.stores.known import CODE_VERSION
from holdfast.worker import Worker, WorkerConfig
from holdfast.worker.process import run_until_signalled

F = TypeVar("F", bound=Callable[..., Any])

_LEVELS = ["debug", "info", "warning", "error"]
_DEFAULTS = WorkerConfig()
_EPILOG = (
    "Exit codes: 0 stopped by a signal; 1 cannot work: the reason stands on stderr; 2 the command line is wrong. "
    "Durations are seconds, or a number with ms, s, m, h or d."
)


def _duration(flag: str, default: timedelta, text: str) -> Callable[[F], F]:
    return click.option(
        flag, type=duration, metavar="DURATION", default=shown_duration(default), show_default=True, help=text
    )


@click.command(epilog=_EPILOG)
@click.argument("target", metavar="MODULE:APP", envvar="HOLDFAST_APP")
@click.option(
    "--queues", metavar="NAMES", help="Queues to serve, with commas.  [default: those of the app's job types]"
)
@click.option(
    "--concurrency", type=int, metavar="SLOTS", help="Jobs at once.  [default: 100; 20 if some handler is a `def`]"
)
@_duration("--poll", _DEFAULTS.poll, "How often an idle worker looks without being told.")
@_duration("--stop-deadline", _DEFAULTS.stop_deadline, "How long running jobs may take after a signal.")
@_duration("--heartbeat", _DEFAULTS.heartbeat, "How often the worker says that it is alive.")
@_duration("--dead-after", _DEFAULTS.dead_after, "Silent for so long, a worker is taken for dead.")
@_duration("--lease", _DEFAULTS.lease, "How long a job is held without renewal.")
@_duration("--renew", _DEFAULTS.renew, "How often leases are renewed.")
@click.option("--notify/--no-notify", default=True, help="Listen for wake-up hints, or poll only.  [default: notify]")
@click.option("--batch", type=int, default=_DEFAULTS.batch, show_default=True, help="Most jobs per statement.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="What stderr shows; debug adds the traceback of an error.",
)
def worker(
    target: str,
    queues: str | None,
    concurrency: int | None,
    log_level: str,
    batch: int,
    *,
    notify: bool,
    **durations: timedelta,
) -> None:
    """Run the jobs of an app until SIGTERM or SIGINT.

    MODULE:APP is where the App is, for example shop.jobs:app; the current directory is importable. A function without
    parameters that returns an App will do too.

    After a signal no job is started any more, and the running ones may finish until --stop-deadline; what is left goes
    back to its queue with its attempt refunded. A second signal does not wait for the deadline.
    """
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    config = WorkerConfig(
        queues=None if queues is None else [name.strip() for name in queues.split(",")],
        concurrency=concurrency,
        batch=batch,
        is_notified=notify,
        **durations,
    )
    app = load_app(target)
    tasks: set[asyncio.Task[None]] = set()

    def make_worker() -> Worker:
        made = app.make_worker(config)
        tasks.add(asyncio.create_task(_announce(made, app), name="holdfast-announce"))
        return made

    run_until_signalled(make_worker)
    click.echo("holdfast: stopped", err=True)


async def _announce(made: Worker, app: App) -> None:
    await made.started.wait()
    click.echo(
        f"holdfast {CODE_VERSION}: worker {made.id} serves {', '.join(made.queues)} with {made.concurrency} slots "
        f"on {app.store.url}",
        err=True,
    )
