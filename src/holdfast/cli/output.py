"""How lists and details are printed: for people, for programs, for pipes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

TABLE: Final = "table"
JSON: Final = "json"
JSONL: Final = "jsonl"

#: nobody reads a pipe in a window
_PIPE_WIDTH = 200

format_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--format", "output_format", type=click.Choice([TABLE, JSON, JSONL]), default=TABLE, show_default=True,
    help="json: one document; jsonl: one line per item.",
)  # fmt: skip


def console() -> Console:
    """Standard output, wide enough for a table when it is not a terminal."""
    make = partial(Console, highlight=False, soft_wrap=False)
    return make() if sys.stdout.isatty() else make(width=_PIPE_WIDTH)


def new_table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, no_wrap=True)
    return table


def print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_lines(values: Iterable[object]) -> None:
    for value in values:
        click.echo(msgspec.json.encode(value).decode())
