"""`python3 dev.py bench [WHAT …]`: measure on real servers.

- Some seconds to a minute each: enqueue, drain, latency, steady, idle, order.
- Some minutes each, and measured when named only: handlers, processes, recovery, growth, prune, snapshot.

`python3 dev.py bench peers`: next to other libraries; see `--help` there.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from functools import partial

from rich.console import Console
from rich.table import Table

from bench import (
    drain,
    enqueue,
    growth,
    handlers,
    history,
    idle,
    latency,
    many_processes,
    order,
    recovery,
    snapshot,
    steady,
)
from bench.databases import Database, databases
from bench.peers import __main__ as peers

Figures = dict[str, float]
Measure = Callable[[Database, float], Figures]

MEASURES: dict[str, Measure] = {
    "enqueue": enqueue.measure,
    "drain": drain.measure,
    "latency": latency.measure,
    "steady": steady.measure,
    "idle": idle.measure,
    "order": order.measure,
    "handlers": handlers.measure,
    "processes": many_processes.measure,
    "recovery": recovery.measure,
    "growth": growth.measure,
    "prune": history.measure_prune,
    "snapshot": snapshot.measure,
}

#: the others take minutes
DAILY = ["enqueue", "drain", "latency", "steady", "idle", "order"]
POSTGRES_ONLY = {"snapshot"}


def main() -> None:
    if sys.argv[1:2] == ["peers"]:
        # Not a measure like the others: it has rounds in turns, and options of its own.
        peers.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="dev.py bench", description=__doc__)
    parser.add_argument("what", nargs="*", choices=[*MEASURES, []], help=f"default: {', '.join(DAILY)}")
    parser.add_argument("--database", choices=["sqlite", "postgres"], action="append", help="default: both")
    parser.add_argument("--major", type=int, help="PostgreSQL major version; default: 15 where present, else 18")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts")
    parser.add_argument("--scale", type=float, default=1.0, help="fewer (0.1) or more (5) jobs")
    parser.add_argument("--minutes", type=float, default=0.0, help="growth: how long each kind, after it is filled")
    parser.add_argument("--kind", choices=list(growth.KINDS), action="append", help="growth: of what; default: all")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    arguments = parser.parse_args()

    of_growth = partial(growth.measure, minutes=arguments.minutes, kinds=arguments.kind)
    measures: dict[str, Measure] = {**MEASURES, "growth": of_growth}
    console = Console(stderr=True)
    results: dict[str, dict[str, Figures]] = {}
    for database in databases(arguments.database or ["sqlite", "postgres"], arguments.major):
        for what in arguments.what or DAILY:
            if what in POSTGRES_ONLY and database.dialect != "postgres":
                console.print(f"{database.name}: {what} is for PostgreSQL only")
                continue
            rounds = []
            for number in range(arguments.rounds):
                console.print(f"{database.name}: {what}, round {number + 1} of {arguments.rounds} …")
                rounds.append(measures[what](database, arguments.scale))
            results.setdefault(database.name, {})[what] = _medians(rounds)
    if arguments.format == "json":
        print(json.dumps(results, indent=2))
    else:
        _print_table(results)


def _medians(rounds: list[Figures]) -> Figures:
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def _print_table(results: dict[str, dict[str, Figures]]) -> None:
    table = Table("database", "what", "figure", "median")
    for database, measures in results.items():
        for what, figures in measures.items():
            for name, value in figures.items():
                table.add_row(database, what, name, f"{value:,.2f}" if value < 100 else f"{value:,.0f}")  # noqa: PLR2004 - four digits tell enough
    Console().print(table)


if __name__ == "__main__":
    main()
