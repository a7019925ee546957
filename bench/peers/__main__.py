"""`python3 dev.py bench peers`: Holdfast, a raw SQL loop and other libraries, in turns on the same server."""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sqlite3
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console

from bench.databases import Database, databases
from bench.peers import machine, page, tables
from bench.peers.asking import asking_of
from bench.peers.contenders import CONTENDERS, Contender
from bench.peers.conversation import AdapterFailed
from bench.peers.environments import CannotBeHad, provide
from bench.peers.measuring import MEASURES, Figures, Measuring

Rounds = list[Figures]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="dev.py bench peers", description=__doc__)
    parser.add_argument("--database", choices=["sqlite", "postgres"], action="append", help="default: both")
    parser.add_argument("--major", type=int, help="PostgreSQL major version; default: 15 where present, else 18")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="fewer (0.1) or more (5) jobs")
    names = sorted({contender.name for contender in CONTENDERS})
    parser.add_argument("--only", action="append", metavar="NAME", choices=names, help=f"some of: {', '.join(names)}")
    parser.add_argument("--measure", action="append", choices=[*MEASURES, "cost"], help="some of them")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write DIR/benchmarks.md, and plots beside it")
    parser.add_argument("--from", type=Path, dest="kept", metavar="FILE", help="a run's JSON, instead of a run")
    chosen = parser.parse_args(arguments)
    if chosen.kept is not None:
        results = json.loads(chosen.kept.read_text(encoding="utf-8"))
    else:
        results = _run(chosen, shlex.join(["python3", "dev.py", "bench", "peers", *arguments]))
    if chosen.format == "json":
        print(json.dumps(results, indent=1))
    else:
        tables.show(results)
    if chosen.report is not None:
        page.write(results, chosen.report, _say)


def _say(text: str) -> None:
    Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)


def _run(chosen: argparse.Namespace, command: str) -> dict[str, Any]:
    results: dict[str, Any] = {"machine": machine.describe(command, chosen.rounds, chosen.scale), "databases": {}}
    measures = chosen.measure or [*MEASURES, "cost"]
    wanted = [contender for contender in CONTENDERS if chosen.only is None or contender.name in chosen.only]
    environments, missing = {}, {}
    for contender in wanted:
        if chosen.database is None or contender.database in chosen.database:
            try:
                environments[_key(contender)] = provide(contender.environment, contender.adapter, _say)
            except CannotBeHad as reason:
                _say(f"{contender.title}: NOT MEASURED, {reason}")
                missing[_key(contender)] = str(reason)
    for database in databases(chosen.database or ["sqlite", "postgres"], chosen.major, is_counting=True):
        here = [contender for contender in wanted if contender.database == database.dialect]
        measuring = {
            contender.name: Measuring(contender, environments[_key(contender)], database, chosen.scale)
            for contender in here
            if _key(contender) in environments
        }
        here_measured = [what for what in measures if what != "cost" or database.dialect == "postgres"]
        rounds, costs, failed = _measure(measuring, here_measured, chosen.rounds, database.name)
        results["databases"][database.dialect] = {
            "name": database.name,
            "server": _server_settings(database),
            "contenders": {
                contender.name: {
                    "title": contender.title,
                    "is_ours": contender.is_ours,
                    "settings": contender.told,
                    "keeps": contender.keeps,
                    **(
                        {"versions": measuring[contender.name].versions, "jobs": measuring[contender.name].jobs}
                        if contender.name in measuring
                        else {"missing": missing[_key(contender)]}
                    ),
                    "failed": failed.get(contender.name, {}),
                    "rounds": rounds.get(contender.name, []),
                    "cost": costs.get(contender.name, {}),
                }
                for contender in here
            },
        }
    return results


def _server_settings(database: Database) -> dict[str, str]:
    if database.dialect != "postgres":
        return {}
    with database.fresh(), asking_of(database) as asking:
        return asking.server_settings()


def _key(contender: Contender) -> tuple[str, str]:
    return contender.environment, contender.adapter


def _measure(
    measuring: dict[str, Measuring], measures: Iterable[str], rounds: int, where: str
) -> tuple[dict[str, Rounds], dict[str, Figures], dict[str, dict[str, str]]]:
    """By contender: the figures of each round, its costs, and what failed, which is not tried again."""
    figures: dict[str, Rounds] = {name: [{} for _ in range(rounds)] for name in measuring}
    costs: dict[str, Figures] = {}
    failed: dict[str, dict[str, str]] = {}
    for number in range(rounds):
        for what in measures:
            # In an order of its own each time, so that nobody always comes after the same one.
            for name in random.sample(sorted(measuring), len(measuring)):
                if what in failed.get(name, {}) or (what == "cost" and number):
                    continue
                _say(f"{where}: round {number + 1} of {rounds}, {what}: {name} …")
                try:
                    if what == "cost":
                        costs[name] = measuring[name].cost()
                    else:
                        figures[name][number] = _joined(figures[name][number], measuring[name].measure(what))
                except (AdapterFailed, OSError, psycopg.Error, sqlite3.Error) as error:
                    _say(f"{name}: {what} FAILED: {error}")
                    failed.setdefault(name, {})[what] = str(error).strip().splitlines()[0]
    return figures, costs, failed


def _joined(so_far: Figures, more: Figures) -> Figures:
    """Batch enqueue is measured before each drain: the mean of both counts."""
    return {**so_far, **{name: (so_far[name] + value) / 2 if name in so_far else value for name, value in more.items()}}


if __name__ == "__main__":
    main(sys.argv[1:])
