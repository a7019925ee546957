"""`holdfast stats`: how things stand, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta

import click
from rich.text import Text

from holdfast.app import App
from holdfast.cli.database import database_options, require_database
from holdfast.cli.output import JSON, JSONL, format_option, print_json, print_lines, print_table
from holdfast.cli.shown import coloured, shown_number, shown_seconds
from holdfast.cli.values import duration
from holdfast.model.operating import ServiceRecord, Stats, ThroughputMinute


@click.command()
@click.option(
    "--within", type=duration, metavar="DURATION", default="1h", show_default=True,
    help="How far back the throughput goes: 10m, 1h, 7d; a day is kept by the minute, a month by the hour.",
)  # fmt: skip
@database_options
@format_option
def stats(app: App, within: timedelta, output_format: str) -> None:
    """Show how many jobs are in which state, for how long, and how many were completed and failed of late.

    With jsonl: one line per queue, type and state; the throughput is left out.
    """
    require_database(app)
    with app.client() as client:
        found = client.stats(within=within)
    if output_format == JSON:
        print_json(found)
    elif output_format == JSONL:
        print_lines(found.counts)
    else:
        _print(found, within)


def _print(found: Stats, within: timedelta) -> None:
    if found.counts:
        rows = [
            [
                Text(count.queue),
                Text(count.type_name),
                coloured(count.state),
                shown_number(count.jobs, is_capped=count.is_capped),
                Text(shown_seconds(count.oldest_seconds)),
            ]
            for count in found.counts
        ]
        print_table(("queue", "type", "state", "jobs", "oldest"), rows)
    else:
        click.echo("nothing waits, runs or is dead")
    if found.throughput:
        click.echo()
        _print_throughput(found.throughput, within)
    if found.services:
        click.echo()
        _print_services(found.services)
    if found.age_seconds:
        click.echo(f"\ncounted {found.age_seconds:.0f} s ago")


def _print_services(services: Iterable[ServiceRecord]) -> None:
    rows = [[Text(each.name), Text(f"{shown_seconds(each.last_success_seconds)} ago")] for each in services]
    print_table(("service", "last success"), rows)


def _print_throughput(throughput: Iterable[ThroughputMinute], within: timedelta) -> None:
    completed: Counter[tuple[str, str]] = Counter()
    failed: Counter[tuple[str, str]] = Counter()
    for each in throughput:
        completed[each.queue, each.type_name] += each.completed
        failed[each.queue, each.type_name] += each.failed
    minutes = max(1.0, within.total_seconds() / 60)
    rows = [
        [
            Text(queue),
            Text(type_name),
            shown_number(completed[queue, type_name]),
            shown_number(failed[queue, type_name]),
            Text(f"{completed[queue, type_name] / minutes:,.1f}", justify="right"),
        ]
        for queue, type_name in sorted(completed.keys() | failed.keys())
    ]
    print_table(("queue", "type", "completed", "failed", "per minute"), rows)
