"""How jobs and chains are called and drawn for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import rich.json
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from holdfast.cli.output import print_table
from holdfast.model.job import ChainRecord, Job, JobError
from holdfast.model.status import Status

_COLOURS = {
    "completed": "green", "dead_letter": "red", "cancelled": "magenta", "running": "cyan", "retrying": "yellow"
}  # fmt: skip
_JSON_FIELDS = frozenset({"input", "output", "headers", "progress", "flags"})


def shown_status(job: Job, now: datetime) -> str:
    """The status as people call it: a pending job may be held, scheduled or retrying."""
    if job.status is not Status.PENDING:
        return job.status.value
    if job.held:
        return "held"
    if job.attempt > 0:
        return "retrying"
    return "scheduled" if job.ready_at > now else job.status.value


def shown_age(age: timedelta) -> str:
    """One number and one unit."""
    seconds = max(0, int(age.total_seconds()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def shown_seconds(seconds: float | None) -> str:
    """An age that there may not be."""
    return "" if seconds is None else shown_age(timedelta(seconds=seconds))


def shown_number(number: int, *, is_capped: bool = False) -> Text:
    """With a plus sign where counting stopped."""
    return Text(f"{number:,}+" if is_capped else f"{number:,}", justify="right")


def one_line(error: JobError | None) -> str:
    """Type and message, without line breaks."""
    return "" if error is None else " ".join(f"{error.type}: {error.message}".split())


def coloured(status: str) -> Text:
    """A status in its colour."""
    return Text(status, style=_COLOURS.get(status, ""))


def print_jobs(jobs: Sequence[Job]) -> None:
    """A table, with a column of errors if there are any."""
    now = datetime.now(UTC)
    rows = [
        [
            Text(job.id),
            Text(job.type_name),
            Text(job.queue),
            coloured(shown_status(job, now)),
            Text(f"{job.attempt}" if job.max_attempts is None else f"{job.attempt}/{job.max_attempts}"),
            Text(shown_age(now - job.created_at)),
            Text(one_line(job.last_attempt_error)),
        ]
        for job in jobs
    ]
    _print_with_errors(("id", "type", "queue", "status", "attempt", "age"), rows)


def print_chains(chains: Sequence[ChainRecord]) -> None:
    """The same for chains: the type is the first job's, status and error are the last one's."""
    now = datetime.now(UTC)
    rows = [
        [
            Text(chain.id),
            Text(chain.type_name),
            coloured(shown_status(chain.tail, now)),
            Text(str(chain.job_count)),
            Text(shown_age(now - chain.created_at)),
            Text(one_line(chain.error)),
        ]
        for chain in chains
    ]
    _print_with_errors(("id", "type", "status", "jobs", "age"), rows)


def _print_with_errors(columns: Sequence[str], rows: list[list[Text]]) -> None:
    if any(row[-1].plain for row in rows):
        print_table((*columns, "last error"), rows)
    else:
        print_table(columns, [row[:-1] for row in rows])


def print_fields(out: Console, value: Job | ChainRecord, tail: Job, *, leave_out: frozenset[str] = frozenset()) -> None:
    """Name and value, line by line; `tail` says how its status is called."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for name, shown in _fields(value, tail):
        if name not in leave_out:
            grid.add_row(name, shown)
    out.print(grid)


def _fields(value: msgspec.Struct, tail: Job) -> Iterator[tuple[str, Any]]:
    for name in value.__struct_fields__:
        field = getattr(value, name)
        if name == "status":
            called = shown_status(tail, datetime.now(UTC))
            note = "" if called == field else f" ({called})"
            yield name, f"[{_COLOURS.get(called, 'default')}]{field}{note}[/]"
        elif name in _JSON_FIELDS and field is not None:
            yield name, rich.json.JSON.from_data(field, indent=None)
        elif isinstance(field, datetime):
            yield name, field.isoformat(sep=" ", timespec="milliseconds")
        elif isinstance(field, JobError):
            yield name, escape(one_line(field))
        else:
            yield name, "[dim]–[/]" if field is None else escape(str(field))
