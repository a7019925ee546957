"""How lists and details are printed: for people, for programs, for pipes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

TABLE: Final = "table"
JSON: Final = "json"
JSONL: Final = "jsonl"

#: nobody reads a pipe in a window
_PIPE_WIDTH = 200
_LEAST_LAST = 20
_GAP = 2

format_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--format", "output_format", type=click.Choice([TABLE, JSON, JSONL]), default=TABLE, show_default=True,
    help="json: one document; jsonl: one line per item.",
)  # fmt: skip


def console(*, stderr: bool = False) -> Console:
    """Standard output, or the other; wide enough for a table when it is not a terminal."""
    is_watched = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(highlight=False, stderr=stderr, width=None if is_watched else _PIPE_WIDTH)


@contextmanager
def spinner(what: str) -> Iterator[None]:
    """For work that cannot say how far it is: on stderr, and only where somebody watches."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield
        return
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=out, transient=True
    ) as bar:
        bar.add_task(what, total=None)
        yield


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """The last column gives way to a narrow terminal; the others are never cut, because half an id is of no use."""
    available = console().width
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    taken = 0
    for index, name in enumerate(columns):
        table.add_column(name, no_wrap=True)
        width = max(len(name), *(row[index].cell_len for row in rows))
        if index == len(columns) - 1:
            width = min(width, max(available - taken, _LEAST_LAST))
            for row in rows:
                row[index].truncate(width, overflow="ellipsis")
        taken += width + _GAP
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, width=max(available, taken)).print(table)


def print_json(value: object) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def print_lines(values: Iterable[object]) -> None:
    for value in values:
        click.echo(msgspec.json.encode(value).decode())
