"""`holdfast jobs cancel|retry|reschedule|remove|delete`: what people do to jobs, by ids or by filters."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from holdfast.app import App
from holdfast.cli.acting import (
    act_on_jobs,
    acting_options,
    actor_of,
    confirm,
    filter_options,
    ids_argument,
    several,
    show_results,
    status_option,
    strict_option,
)
from holdfast.cli.database import database_options, require_database
from holdfast.cli.values import duration, point_in_time
from holdfast.client import Client
from holdfast.client.control import OnProgress
from holdfast.model.control import ControlResult
from holdfast.model.job_filter import JobFilter

#: of all that act on jobs
EPILOG = (
    "Exit codes: 0 done, also if no job matched the filters; 1 something was refused, or you said no; "
    "2 the command line is wrong, or nobody was there to confirm; 130 interrupted."
)

_which = several(ids_argument, database_options, status_option, filter_options, strict_option)


@click.command(epilog=EPILOG)
@_which
@click.option("--reason", metavar="TEXT", help="Becomes the error of the job.")
@acting_options
def cancel(app: App, *, strict: bool, reason: str | None, **options: Any) -> int:
    """Cancel jobs: what waits ends at once, what runs is asked to stop."""
    actor = actor_of(options)

    def act(client: Client, which: list[str] | JobFilter, progress: OnProgress) -> list[ControlResult]:
        return client.cancel(which, reason=reason, actor=actor, strict=strict, progress=progress)

    return act_on_jobs(app, "cancel", options, act)


@click.command(epilog=EPILOG)
@_which
@acting_options
def retry(app: App, *, strict: bool, **options: Any) -> int:
    """Let dead letters and cancelled jobs begin anew."""
    return retry_jobs(app, options, strict=strict)


def retry_jobs(app: App, options: dict[str, Any], *, strict: bool) -> int:
    """Also behind `holdfast dead retry`."""
    actor = actor_of(options)

    def act(client: Client, which: list[str] | JobFilter, progress: OnProgress) -> list[ControlResult]:
        return client.retry(which, actor=actor, strict=strict, progress=progress)

    return act_on_jobs(app, "retry", options, act)


@click.command(epilog=EPILOG)
@_which
@click.option("--at", type=point_in_time, metavar="TIME", help="New time: 2026-05-01T12:00Z, or now.")
@click.option("--delay", type=duration, metavar="DURATION", help="New time, counted from now: 90s, 10m, 2h.")
@acting_options
def reschedule(app: App, *, strict: bool, at: datetime | None, delay: timedelta | None, **options: Any) -> int:
    """Give jobs that wait another time."""
    if (at is None) == (delay is None):
        raise click.UsageError("give --at or --delay, one of them", click.get_current_context())
    actor = actor_of(options)

    def act(client: Client, which: list[str] | JobFilter, progress: OnProgress) -> list[ControlResult]:
        return client.reschedule(which, at=at, delay=delay, actor=actor, strict=strict, progress=progress)

    return act_on_jobs(app, "reschedule", options, act)


@click.command(epilog=EPILOG)
@click.argument("type_name", metavar="TYPE")
@click.argument("key")
@database_options
@acting_options
def remove(app: App, *, type_name: str, key: str, output_format: str, yes: bool, **options: Any) -> int:
    """Delete the job of TYPE that holds the deduplication key KEY; one that has begun gives up the key."""
    require_database(app)
    confirm(f"remove the {type_name} that holds the key {key!r}", is_sure=yes)
    with app.client() as client:
        result = client.remove(type_name, key, actor=actor_of(options))
    return show_results([result], output_format, is_summed_up=False)


@click.command(epilog=EPILOG)
@_which
@click.option("--cascade", is_flag=True, help="Also the chains that these waited for, unless others did too.")
@acting_options
def delete(app: App, *, strict: bool, cascade: bool, **options: Any) -> int:
    """Delete chains with their jobs, steps, logs and attempts, unless somebody needs them."""
    actor = actor_of(options)

    def act(client: Client, which: list[str] | JobFilter, progress: OnProgress) -> list[ControlResult]:
        return client.delete_chains(which, cascade=cascade, actor=actor, strict=strict, progress=progress)

    return act_on_jobs(app, "delete", options, act)


#: what joins `list` and `show`
CONTROL_COMMANDS = (cancel, retry, reschedule, remove, delete)
