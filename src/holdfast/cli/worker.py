"""`holdfast worker`: run jobs until a signal says stop, in this process or in several."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar, get_args

import click
from click.core import ParameterSource

from holdfast.app import App
from holdfast.cli.loading import load_app
from holdfast.cli.values import duration, shown_duration, size
from holdfast.model.queue_order import QueueOrder
from holdfast.stores.known import CODE_VERSION
from holdfast.worker import Worker, WorkerConfig
from holdfast.worker.config import Affinity
from holdfast.worker.console import open_console
from holdfast.worker.process import run_until_signalled
from holdfast.worker.supervisor import FileWatch, Leash, Supervisor, SupervisorConfig

F = TypeVar("F", bound=Callable[..., Any])

_LEVELS = ["debug", "info", "warning", "error"]
_DEFAULTS = WorkerConfig()
_KILL_AFTER = timedelta(seconds=20)
_RELOAD_STOP_DEADLINE = timedelta(seconds=2)
_EPILOG = (
    "Exit codes: 0 stopped by a signal, idle with --until-idle, or at the end of --max-jobs or --max-rss; 1 cannot "
    "work: the reason stands on stderr, or a process had to be killed; 2 the command line is wrong; 3 with "
    "--until-idle: a job became a dead letter. "
    "Durations are seconds, or a number with ms, s, m, h or d; sizes are bytes, or a number with K, M or G."
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
@click.option(
    "--processes",
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Worker processes under a supervisor that restarts them.  [default: one, without]",
)
@click.option("--reload", is_flag=True, help="For development: restart when *.py files below this directory change.")
@click.option("--until-idle", is_flag=True, help="End when nothing is due in the queues and nothing runs here.")
@click.option("--max-jobs", type=int, metavar="N", help="End after so many jobs; under --processes another follows.")
@click.option("--max-rss", type=size, metavar="SIZE", help="Likewise when the process has so much memory.")
@click.option(
    "--health-port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Answer /live, /ready and /leader over HTTP; 0 takes a free port.",
)
@click.option(
    "--health-host", metavar="ADDRESS", default=_DEFAULTS.health_host, show_default=True, help="Where to answer."
)
@click.option(
    "--affinity",
    type=click.Choice(get_args(Affinity)),
    default=_DEFAULTS.affinity,
    show_default=True,
    envvar="HOLDFAST_AFFINITY",
    help="ring: the workers of a queue share its partition keys out among themselves.",
)
@click.option(
    "--forbid-flag",
    "forbidden_flags",
    multiple=True,
    metavar="FLAG",
    help="Leave jobs with this flag to others; may be repeated.",
)
@click.option(
    "--queue-order",
    metavar="ORDER",
    default="priority",
    show_default=True,
    help="strict: in the order of --queues; or weights, mail=3,web=1.",
)
@_duration("--poll", _DEFAULTS.poll, "How often an idle worker looks without being told.")
@_duration("--stop-deadline", _DEFAULTS.stop_deadline, "How long running jobs may take after a signal; --reload: 2s.")
@_duration("--kill-after", _KILL_AFTER, "With --processes: killed so long after the stop deadline.")
@_duration("--heartbeat", _DEFAULTS.heartbeat, "How often the worker says that it is alive.")
@_duration("--dead-after", _DEFAULTS.dead_after, "Silent for so long, a worker is taken for dead.")
@_duration("--lease", _DEFAULTS.lease, "How long a job is held without renewal.")
@_duration("--renew", _DEFAULTS.renew, "How often leases are renewed.")
@click.option("--notify/--no-notify", default=True, help="Listen for wake-up hints, or poll only.  [default: notify]")
@click.option(
    "--listen-url",
    metavar="URL",
    envvar="HOLDFAST_LISTEN_URL",
    help="Where to LISTEN, if the app's URL leads through a transaction pooler.",
)
@click.option("--batch", type=int, default=_DEFAULTS.batch, show_default=True, help="Most jobs per statement.")
@click.option(
    "--log-level",
    type=click.Choice(_LEVELS),
    default="info",
    show_default=True,
    help="What stderr shows; debug adds the traceback of an error.",
)
@click.pass_context
def worker(  # noqa: PLR0917 - click passes by name
    context: click.Context,
    /,
    target: str,
    queues: str | None,
    log_level: str,
    processes: int | None,
    kill_after: timedelta,
    *,
    listen_url: str | None,
    notify: bool,
    reload: bool,
    **settings: Any,
) -> int:
    """Run the jobs of an app until SIGTERM or SIGINT.

    MODULE:APP is where the App is, for example shop.jobs:app; the current directory is importable. A function without
    parameters that returns an App will do too.

    After a signal no job is started any more, and the running ones may finish until --stop-deadline; what is left goes
    back to its queue with its attempt refunded. A second signal does not wait for the deadline, nor does SIGQUIT.
    """
    leash = Leash.take()
    open_console(log_level.upper())
    if reload and settings["until_idle"]:
        raise click.UsageError("--reload waits for changes, --until-idle for the end: choose one", context)
    if reload and context.get_parameter_source("stop_deadline") is ParameterSource.DEFAULT:
        settings["stop_deadline"] = _RELOAD_STOP_DEADLINE
    settings["queue_order"] = _queue_order(settings["queue_order"])
    config = WorkerConfig(
        queues=None if queues is None else [name.strip() for name in queues.split(",")], is_notified=notify, **settings
    )
    if leash is None and (reload or processes is not None):
        code = _supervise(config, context.obj, processes or 1, kill_after, FileWatch(Path.cwd()) if reload else None)
    else:
        code = _work(target, config, listen_url, leash)
    click.echo("holdfast: stopped", err=True)
    return code


def _queue_order(text: str) -> QueueOrder:
    """`mail=3,web=1`, or a word."""
    if "=" not in text:
        return text
    pairs = [pair.partition("=") for pair in text.split(",")]
    try:
        return {queue.strip(): float(weight) for queue, _, weight in pairs}
    except ValueError:
        raise click.BadParameter(f"{text!r}: give weights as mail=3,web=1", param_hint="--queue-order") from None


def _supervise(
    config: WorkerConfig, arguments: Sequence[str], processes: int, kill_after: timedelta, watch: FileWatch | None
) -> int:
    """The processes are started with the same arguments and variables, and find out that they are supervised."""
    supervisor = Supervisor(
        SupervisorConfig(
            command=[sys.executable, "-m", "holdfast", *arguments],
            processes=processes,
            stop_deadline=config.stop_deadline,
            kill_after=kill_after,
            dead_after=config.dead_after,
            until_idle=config.until_idle,
            health_host=config.health_host,
            health_port=config.health_port,
        ),
        watch,
    )
    return asyncio.run(supervisor.run())


def _work(target: str, config: WorkerConfig, listen_url: str | None, leash: Leash | None) -> int:
    app = load_app(target)
    app.listen_url = listen_url or app.listen_url
    app.check_purpose(config)
    tasks: set[asyncio.Task[None]] = set()

    def make_worker() -> Worker:
        # A supervisor answers for all its processes.
        made = app.make_worker(config if leash is None else replace(config, health_port=None))
        tasks.add(asyncio.create_task(_announce(made, app), name="holdfast-announce"))
        return made

    try:
        return run_until_signalled(make_worker, say_farewell=app.close, leash=leash)
    finally:
        app.close()


async def _announce(made: Worker, app: App) -> None:
    await made.started.wait()
    click.echo(
        f"holdfast {CODE_VERSION}: worker {made.id} serves {', '.join(made.queues)} with {made.concurrency} slots "
        f"on {app.store.url}",
        err=True,
    )
