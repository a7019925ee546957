"""The options that every list of jobs or chains takes, and how a page is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from holdfast.cli.output import JSON, JSONL, format_option, print_json, print_lines
from holdfast.cli.values import instant
from holdfast.model.job import Page
from holdfast.model.status import Status

T = TypeVar("T")

_FILTERS = (
    click.option(
        "--status",
        "-s",
        multiple=True,
        type=click.Choice([status.value for status in Status]),
        help="Only these; may be given several times.",
    ),
    click.option("--type", "type_name", metavar="NAME", help="Only this job type."),
    click.option("--chain-type", "chain_type_name", metavar="NAME", help="Only chains that began with this job type."),
    click.option("--queue", metavar="NAME", help="Only this queue."),
    click.option("--tenant", metavar="NAME", help="Only this tenant."),
    click.option("--partition-key", metavar="KEY", help="Only this partition key."),
    click.option("--id", "ids", metavar="ID", multiple=True, help="Only this one; may be given several times."),
    click.option("--chain", "chain_ids", metavar="ID", multiple=True, help="Only of this chain; likewise."),
    click.option(
        "--since",
        type=instant,
        metavar="TIME",
        help="Enqueued at or after: 2026-05-01T12:00Z, or 2h for two hours ago.",
    ),
    click.option("--until", type=instant, metavar="TIME", help="Enqueued before."),
)
_PAGING = (
    click.option("--limit", default=50, show_default=True, help="Most to show, up to 1,000."),
    click.option("--cursor", metavar="TEXT", help="Go on where an earlier page ended."),
    click.option("--newest-first/--oldest-first", default=True, help="Order of enqueue.  [default: newest first]"),
    format_option,
)


def list_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The fields of a JobFilter, paging and the format."""
    for option in reversed((*_FILTERS, *_PAGING)):
        command = option(command)
    return command


def given(filters: dict[str, Any]) -> dict[str, Any]:
    """An option that may be given several times and was not is no filter."""
    return {name: None if value == () else value for name, value in filters.items()}


def print_page(page: Page[T], output_format: str, draw: Callable[[Sequence[T]], None], nothing: str) -> None:
    """In the format chosen; `draw` makes a table, `nothing` stands for an empty one."""
    if output_format == JSON:
        print_json(page)
        return
    if output_format == JSONL:
        print_lines(page.items)
    elif page.items:
        draw(page.items)
    else:
        click.echo(nothing)
    if page.next_cursor is not None:
        # Not on stdout: a reader of lines expects items only.
        click.echo(f"there are more: --cursor {page.next_cursor}", err=True)


def print_items(items: list[T], output_format: str, draw: Callable[[list[T]], None], nothing: str) -> None:
    """All there is, without pages, in the format chosen."""
    if output_format == JSON:
        print_json(items)
    elif output_format == JSONL:
        print_lines(items)
    elif items:
        draw(items)
    else:
        click.echo(nothing)
