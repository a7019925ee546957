"""How a command acts on jobs: which ones, whether that is meant, how far it has come, and what happened to each."""

from __future__ import annotations

import getpass
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text

from holdfast.app import App
from holdfast.cli.database import require_database
from holdfast.cli.listing import given
from holdfast.cli.output import JSON, JSONL, format_option, print_json, print_lines, print_table
from holdfast.cli.values import instant
from holdfast.client import Client
from holdfast.client.control import OnProgress
from holdfast.model.control import ControlResult, Progress
from holdfast.model.job_filter import JobFilter
from holdfast.model.status import Status

#: of a long list people see only so many
_SHOWN = 20

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Act(Protocol):
    """A verb with its own options, ready but for what it is about."""

    def __call__(self, client: Client, which: list[str] | JobFilter, progress: OnProgress) -> list[ControlResult]: ...


def several(*decorators: Decorator) -> Decorator:
    """Decorators as one, in the order in which their options are to be listed."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


ids_argument: Decorator = click.argument("ids", metavar="[ID]...", nargs=-1)
strict_option: Decorator = click.option(
    "--strict", is_flag=True, envvar="HOLDFAST_STRICT", help="With ids: all or nothing."
)
status_option: Decorator = click.option(
    "--status", "-s", multiple=True, type=click.Choice([status.value for status in Status]),
    envvar="HOLDFAST_FILTER_STATUS", help="Jobs in this state; may be given several times.",
)  # fmt: skip
filter_options = several(
    click.option("--type", "type_name", metavar="NAME", envvar="HOLDFAST_FILTER_TYPE", help="Jobs of this type."),
    click.option("--queue", metavar="NAME", envvar="HOLDFAST_FILTER_QUEUE", help="Jobs of this queue."),
    click.option("--tenant", metavar="NAME", envvar="HOLDFAST_FILTER_TENANT", help="Jobs of this tenant."),
    click.option(
        "--partition-key", metavar="KEY", envvar="HOLDFAST_FILTER_PARTITION_KEY", help="Jobs with this partition key."
    ),
    click.option(
        "--since", type=instant, metavar="TIME", envvar="HOLDFAST_FILTER_SINCE",
        help="Enqueued at or after: 2026-05-01T12:00Z, or 2h for two hours ago.",
    ),
    click.option("--until", type=instant, metavar="TIME", envvar="HOLDFAST_FILTER_UNTIL", help="Enqueued before."),
)  # fmt: skip
acting_options = several(
    click.option(
        "--actor", metavar="NAME", envvar="HOLDFAST_ACTOR", help="Who does it, for the record.  [default: you]"
    ),
    click.option("--yes", "-y", is_flag=True, envvar="HOLDFAST_YES", help="Do not ask."),
    format_option,
)


def act_on_jobs(app: App, verb: str, options: Mapping[str, Any], act: Act) -> int:
    """Do it to the ids or to what the filters mean, once that is confirmed; returns the exit code."""
    left = dict(options)
    ids, output_format, is_sure = list(left.pop("ids")), left.pop("output_format"), left.pop("yes")
    filters = {name: value for name, value in given(left).items() if value is not None}
    if bool(ids) == bool(filters):
        why = "give ids or filters, not both" if ids else "say which: by ids, or by --status, --queue and the like"
        raise click.UsageError(why, click.get_current_context())
    require_database(app)
    confirm(f"{verb} {_described(ids, filters)}", is_sure=is_sure)
    with app.client() as client, _bar(verb, is_long=bool(filters)) as progress:
        results = act(client, JobFilter(**filters) if filters else ids, progress)
    return show_results(results, output_format, is_summed_up=bool(filters))


def confirm(what: str, *, is_sure: bool) -> None:
    """Ask, on stderr; who cannot answer is told how to do without."""
    if is_sure:
        return
    try:
        is_meant = click.confirm(f"{what}?", err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError("nobody answered; use --yes to do it without asking") from None
    if not is_meant:
        raise click.ClickException("nothing was done")


def actor_of(options: dict[str, Any]) -> str | None:
    """Who is named, or whose terminal it is."""
    named: str | None = options.pop("actor")
    if named is not None:
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None


def show_results(results: list[ControlResult], output_format: str, *, is_summed_up: bool) -> int:
    """What happened; the exit code is 1 if something could not be done."""
    counts = Counter(result.outcome.value for result in results)
    if output_format == JSON:
        print_json({"counts": counts, "results": results})
    elif output_format == JSONL:
        print_lines(results)
    elif not results:
        click.echo("no jobs")
    else:
        rows = [result for result in results if not (is_summed_up and result.is_done)]
        if rows:
            _print_results(rows[:_SHOWN] if is_summed_up else rows)
        if is_summed_up and len(rows) > _SHOWN:
            click.echo(f"and {len(rows) - _SHOWN:,} more that could not be done; --format jsonl lists all")
        if is_summed_up:
            click.echo(", ".join(f"{count:,} {outcome}" for outcome, count in counts.most_common()))
    return int(any(not result.is_done for result in results))


def _print_results(results: list[ControlResult]) -> None:
    cells = [(result.id, result.job_id or "", result.outcome.value, result.why or "") for result in results]
    columns = ("id", "job", "outcome", "why")
    shown = [0, *([1] if any(job not in {"", asked} for asked, job, *_ in cells) else []), 2]
    shown += [3] if any(row[3] for row in cells) else []
    rows = [[Text(row[index]) for index in shown] for row in cells]
    for row, result in zip(rows, results, strict=True):
        row[shown.index(2)].stylize("green" if result.is_done else "yellow")
    print_table([columns[index] for index in shown], rows)


def _described(ids: list[str], filters: Mapping[str, Any]) -> str:
    if ids:
        return f"{len(ids):,} chains" if len(ids) > 1 else ids[0]
    named = {"type_name": "type", "partition_key": "partition key"}
    words = [f"{named.get(name, name)} {_value(value)}" for name, value in filters.items()]
    return f"every job with {', '.join(words)}"


def _value(value: object) -> str:
    return " or ".join(map(str, value)) if isinstance(value, tuple) else str(value)


@contextmanager
def _bar(verb: str, *, is_long: bool) -> Iterator[OnProgress]:
    """On stderr, and only where somebody watches."""
    out = Console(stderr=True)
    if not is_long or not out.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Bar(*columns, console=out, transient=True) as bar:
        task = bar.add_task(verb, total=1.0)

        def move(progress: Progress) -> None:
            bar.update(task, completed=progress.share, description=f"{verb}: {progress.done:,} jobs")

        yield move
