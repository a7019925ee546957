"""`benchmarks.md`, written from the JSON of a run: nobody edits the page, and nobody but the figures says who wins."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.peers.environments import CannotBeHad, provide_python
from bench.peers.figures import SMALLER, Verdict, judge, ratios, summaries, summary, wins_of_peers
from bench.peers.measuring import FIGURES
from bench.peers.tables import number
from bench.peers.targets import MOST_STATEMENTS, MOST_WAL_BYTES, TARGETS

OURS = "holdfast"
PICTURES = ("drain", "enqueue", "latency")


def write(results: Mapping[str, Any], folder: Path, say: Callable[[str], None]) -> None:
    """`benchmarks.md` into a folder, and beside it `benchmarks/` with the run and its pictures as PNG and SVG."""
    beside = folder / "benchmarks"
    beside.mkdir(parents=True, exist_ok=True)
    run = beside / "run.json"
    run.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    try:
        python = provide_python("plots", say)
    except CannotBeHad as reason:
        say(f"no pictures: {reason}")
    else:
        subprocess.run([python, str(Path(__file__).with_name("plots.py")), str(run), str(beside)], check=True)
    pictures = [
        f"{beside.name}/{name}-{database}"
        for database in results["databases"]
        for name in PICTURES
        if (beside / f"{name}-{database}.svg").exists()
    ]
    page = folder / "benchmarks.md"
    page.write_text(render(results, pictures), encoding="utf-8")
    say(f"written: {page}, {beside}")


def render(results: Mapping[str, Any], pictures: Sequence[str] = ()) -> str:
    return "\n".join(_lines(results, pictures)) + "\n"


def _lines(results: Mapping[str, Any], pictures: Sequence[str]) -> Iterator[str]:
    machine = results["machine"]
    yield "# Benchmarks"
    yield ""
    yield (
        "This page is written by a program from the figures of one run. In that run everybody had the same machine and "
        "the same server, in turns: for each measure one after the other, round by round, in changing order. "
        "Jobs do nothing and have a payload of 58 bytes. A drain is over when the database has every acknowledgement, "
        "and is counted from the first handler call; rates are jobs, rows and calls per second. Latency is from the "
        "enqueue call to the handler's first line in another process that has nothing else to do."
    )
    yield ""
    yield "```console"
    yield f"$ {machine['command']}"
    yield "```"
    yield ""
    for name, value in machine.items():
        if name != "command":
            yield f"- {name}: {value}"
    for database, found in results["databases"].items():
        yield from _database(database, found)
        for file in pictures:
            if file.endswith(f"-{database}"):
                yield ""
                yield f"![{file.partition('/')[2].partition('-')[0]}, {found['name']}]({file}.svg)"
    yield from _targets(judge(results, TARGETS), results)
    yield from _wins(results)
    yield from _settings(results)


def _database(database: str, found: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"## {found['name']}"
    yield ""
    if found.get("server"):
        told = ", ".join(f"{name} {value}" for name, value in found["server"].items())
        yield f"The server: {told}; everything else as it comes. Clients reach it over TCP on the loopback."
        yield ""
    yield "Medians; in parentheses the quartile towards the worse end, the lower one of rates, the upper one of times."
    yield ""
    yield from _row(["", *(f"{figure}, {unit}" for figure, unit in FIGURES.items())])
    yield from _row(["---", *("---:" for _ in FIGURES)])
    for contender in found["contenders"].values():
        measured = summaries(contender, list(FIGURES))
        if measured:
            cells = [
                f"{number(measured[figure].median)} ({number(measured[figure].worse_quartile)})"
                if figure in measured
                else "–"
                for figure in FIGURES
            ]
            yield from _row([contender["title"], *cells])
    yield from _ratios(found)
    if database == "postgres":
        yield from _costs(found)
    absent = [
        line
        for contender in found["contenders"].values()
        for line in (
            *([f"{contender['title']}: {contender['missing']}"] if "missing" in contender else []),
            *(f"{contender['title']}, {what}: {why}" for what, why in contender["failed"].items()),
        )
    ]
    if absent:
        yield ""
        yield "Not measured:"
        yield ""
        for line in absent:
            yield f"- {line}"


def _ratios(found: Mapping[str, Any]) -> Iterator[str]:
    contenders = found["contenders"]
    if OURS not in contenders or not contenders[OURS]["rounds"]:
        return
    yield ""
    title = contenders[OURS]["title"]
    yield f"{title}, as a multiple of the others: the median of the rounds' ratios; of times, less is better."
    yield ""
    yield from _row(["", *FIGURES])
    yield from _row(["---", *("---:" for _ in FIGURES)])
    for name, contender in contenders.items():
        if name == OURS:
            continue
        by_figure = {figure: ratios(contenders[OURS], contender, figure) for figure in FIGURES}
        if any(by_figure.values()):
            cells = [
                f"{number(summary(figure, found_ratios).median)} ×" if found_ratios else "–"
                for figure, found_ratios in by_figure.items()
            ]
            yield from _row([contender["title"], *cells])


def _costs(found: Mapping[str, Any]) -> Iterator[str]:
    costs = {name: contender for name, contender in found["contenders"].items() if contender["cost"]}
    if not costs:
        return
    names = list(dict.fromkeys(name for contender in costs.values() for name in contender["cost"]))
    yield ""
    yield "What a drained job costs the server:"
    yield ""
    yield from _row(["", *names])
    yield from _row(["---", *("---:" for _ in names)])
    for contender in costs.values():
        cells = [number(contender["cost"][name]) if name in contender["cost"] else "–" for name in names]
        yield from _row([contender["title"], *cells])


def _targets(verdicts: Sequence[Verdict], results: Mapping[str, Any]) -> Iterator[str]:
    cost = results["databases"].get("postgres", {}).get("contenders", {}).get(OURS, {}).get("cost", {})
    if not verdicts and not cost:
        return
    yield ""
    yield "## What Holdfast aims at"
    yield ""
    yield "Ratios of one round each; the quartile towards the worse end decides."
    yield ""
    yield from _row(["figure", "next to", "aim", "median", "worse quartile", ""])
    yield from _row(["---", "---", "---:", "---:", "---:", "---"])
    for verdict in verdicts:
        target = verdict.target
        aim = f"≥ {target.at_least:g} ×" if target.at_least is not None else f"≤ {target.at_most:g} ×"
        who = results["databases"][target.database]
        yield from _row(
            [
                f"{who['name']}: {target.figure}, {who['contenders'][target.ours]['title']}",
                verdict.theirs,
                aim,
                f"{number(verdict.ratio.median)} ×",
                f"{number(verdict.ratio.worse_quartile)} ×",
                "met" if verdict.is_met else "**missed**",
            ]
        )
    for name, most in (("WAL bytes per job", MOST_WAL_BYTES), ("statements per job", MOST_STATEMENTS)):
        if name in cost:
            verdict_told = "met" if cost[name] <= most else "**missed**"
            yield from _row([f"{name} in the drain", "", f"≤ {most:g}", number(cost[name]), "", verdict_told])


def _wins(results: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Where a peer wins"
    yield ""
    wins = wins_of_peers(results, OURS, list(FIGURES))
    if not wins:
        yield f"By the medians of this run: nowhere, with Holdfast's best settings, of {len(FIGURES)} figures."
        return
    yield "By the medians of this run, next to Holdfast with its best settings:"
    yield ""
    for win in wins:
        unit = FIGURES[win.figure]
        times = win.ours / win.theirs if win.figure in SMALLER else win.theirs / win.ours
        yield (
            f"- {win.database}, {win.figure}: {win.peer.replace('|', '/')} has {number(win.theirs)} {unit}, "
            f"Holdfast {number(win.ours)} {unit} ({number(times)} ×). Of its jobs: {win.keeps}."
        )


def _settings(results: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "## Settings and versions"
    for found in results["databases"].values():
        yield ""
        yield f"{found['name']}:"
        yield ""
        yield from _row(["", "settings", "an acknowledgement", "jobs per drain", "versions"])
        yield from _row(["---", "---", "---", "---:", "---"])
        for contender in found["contenders"].values():
            if "missing" not in contender:
                versions = ", ".join(f"{name} {version}" for name, version in contender["versions"].items())
                told = [contender["title"], contender["settings"], contender["keeps"]]
                yield from _row([*told, f"{contender['jobs']:,}", versions])


def _row(cells: Sequence[str]) -> Iterator[str]:
    # A bar would end its cell.
    yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
