"""The figures of a run in a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.peers.figures import judge, summaries
from bench.peers.measuring import FIGURES
from bench.peers.targets import TARGETS

_FOUR_DIGITS = 100
#: narrower, the names and figures break into pieces
_LEAST_WIDTH = 180


def show(results: Mapping[str, Any]) -> None:
    console = Console()
    console.width = max(console.width, _LEAST_WIDTH)
    for database in results["databases"].values():
        table = Table(title=f"{database['name']}: median (quartile towards the worse end)")
        table.add_column("")
        for figure, unit in FIGURES.items():
            table.add_column(f"{figure}, {unit}", justify="right")
        for contender in database["contenders"].values():
            found = summaries(contender, list(FIGURES))
            table.add_row(
                contender["title"],
                *(
                    f"{number(found[figure].median)} ({number(found[figure].worse_quartile)})"
                    if figure in found
                    else "–"
                    for figure in FIGURES
                ),
            )
        console.print(table)
        for contender in database["contenders"].values():
            if "missing" not in contender:
                versions = ", ".join(f"{name} {version}" for name, version in contender["versions"].items())
                told = f"{contender['settings']}; {contender['keeps']}; {contender['jobs']:,} jobs; {versions}"
                console.print(f"{contender['title']}: {told}", highlight=False, soft_wrap=True)
            costs = ", ".join(f"{number(value)} {name}" for name, value in contender["cost"].items())
            if costs:
                console.print(f"{contender['title']}, drain: {costs}", highlight=False)
            if "missing" in contender:
                console.print(f"{contender['title']}: NOT MEASURED, {contender['missing']}", highlight=False)
            for what, why in contender["failed"].items():
                console.print(f"{contender['title']}: {what} FAILED: {why}", highlight=False)

    for verdict in judge(results, TARGETS):
        target = verdict.target
        ours = results["databases"][target.database]["contenders"][target.ours]["title"]
        aim = f"at least {target.at_least:g}" if target.at_least is not None else f"at most {target.at_most:g}"
        console.print(
            f"{'met' if verdict.is_met else 'MISSED'}: {target.database}, {target.figure}: {ours} has "
            f"{number(verdict.ratio.median)} × {verdict.theirs} "
            f"(worse quartile {number(verdict.ratio.worse_quartile)}; {aim} is wanted)",
            highlight=False,
            soft_wrap=True,
        )


def number(value: float) -> str:
    if value >= _FOUR_DIGITS:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"  # noqa: PLR2004 - two digits of it tell enough
