"""The end of the demo: the ledger, and what to try next; for people, or as one JSON document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from holdfast.cli.demo.ledger import Ledger
from holdfast.cli.output import print_json


@dataclass(frozen=True, slots=True)
class NextCommand:
    """Something to try, and what it shows."""

    command: str
    shows: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """What `--format json` prints."""

    is_right: bool
    database: str
    seconds: float
    workers: Sequence[str]
    ledger: Ledger
    try_next: Sequence[NextCommand]


def print_summary(console: Console, summary: Summary) -> None:
    ledger = summary.ledger
    grid = Table.grid(padding=(0, 2))
    grid.add_column()
    grid.add_column(justify="right")
    grid.add_column(style="dim")
    for what, figure, remark in _lines(ledger):
        grid.add_row(what, figure, remark)
    console.print("\n[bold]Ledger[/]")
    console.print(grid)
    if ledger.is_right:
        console.print("\n[bold green]The ledger is right.[/]")
    else:
        console.print(
            "\n[bold red]The ledger is wrong[/]: please report it, with the output of `holdfast demo --keep`."
        )
    console.print("\nTry next:")
    for each in summary.try_next:
        console.print(f"  {escape(each.command)}  [dim]# {escape(each.shows)}[/]", soft_wrap=True)


def print_document(summary: Summary) -> None:
    print_json(summary)


def _lines(ledger: Ledger) -> list[tuple[str, str, str]]:
    is_paid = ledger.ordered_cents == ledger.taken_cents == ledger.reported_cents
    return [
        ("orders", f"{ledger.orders:,}", "enqueued in one transaction"),
        ("jobs", f"{ledger.jobs:,}", "four per order: charge, receipt, invoice, report"),
        ("completed", f"{ledger.completed:,}", ""),
        ("retried", f"{ledger.retried:,}", "their handler raised, and was run again later"),
        ("returned after the crash", f"{ledger.returned:,}", "held by the killed worker, completed by the others"),
        ("dead letters", f"{ledger.dead_letters:,}", "failed on every attempt"),
        ("retried by hand", f"{ledger.revived:,}", "and completed"),
        ("invoices cut short", f"{ledger.cut_short:,}", "by the kill; their customers' next ones waited for them"),
        _proof("lost", ledger.lost, "steps of orders that nobody took, or that no handler ended"),
        _proof("doubled", ledger.doubled, "jobs beyond one per step and order"),
        _proof("finished twice", ledger.finished_twice, "under one lease generation"),
        _proof("early reports", ledger.early_reports, "begun before receipt and invoice had ended"),
        _proof("overlapping", ledger.overlapping, "invoices of one customer at the same time"),
        _proof("out of turn", ledger.out_of_turn, "invoices begun before an earlier one of their customer"),
        ("ordered", _money(ledger.ordered_cents), ""),
        ("taken", _judged(_money(ledger.taken_cents), is_right=is_paid), "by the payment provider"),
        ("reported", _judged(_money(ledger.reported_cents), is_right=is_paid), "by the reports together"),
    ]


def _proof(what: str, number: int, remark: str) -> tuple[str, str, str]:
    return _judged(what, is_right=number == 0), _judged(f"{number:,}", is_right=number == 0), remark


def _judged(text: str, *, is_right: bool) -> str:
    return f"[bold {'green' if is_right else 'red'}]{text}[/]"


def _money(cents: int) -> str:
    return f"{cents / 100:,.2f}"
