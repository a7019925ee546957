"""What a run says: medians, lower quartiles, ratios round by round, and who wins."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: what is better when it is smaller
SMALLER = frozenset({"latency p50", "latency p99"})


@dataclass(frozen=True)
class Summary:
    median: float
    #: the quartile towards the worse end: the lower one of rates, the upper one of times
    worse_quartile: float


def summary(figure: str, values: Sequence[float]) -> Summary:
    ordered = sorted(values, reverse=figure in SMALLER)
    return Summary(statistics.median(ordered), _quartile(ordered))


def _quartile(ordered: Sequence[float]) -> float:
    """A quarter of the way from the worst, between two values where need be."""
    place = (len(ordered) - 1) / 4
    below, rest = int(place), place % 1
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * rest


def values(contender: Mapping[str, Any], figure: str) -> list[float]:
    return [figures[figure] for figures in contender["rounds"] if figure in figures]


def summaries(contender: Mapping[str, Any], figures: Sequence[str]) -> dict[str, Summary]:
    found = {figure: values(contender, figure) for figure in figures}
    return {figure: summary(figure, measured) for figure, measured in found.items() if measured}


def ratios(ours: Mapping[str, Any], theirs: Mapping[str, Any], figure: str) -> list[float]:
    """Ours to theirs, round by round, since what is measured in one round had the same machine."""
    return [
        mine[figure] / other[figure]
        for mine, other in zip(ours["rounds"], theirs["rounds"], strict=False)
        if figure in mine and figure in other
    ]


@dataclass(frozen=True)
class Target:
    """`figure` of `ours` is to be `at_least` (or `at_most`) so many times that of each of `theirs`."""

    database: str
    figure: str
    ours: str
    theirs: str
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True)
class Verdict:
    target: Target
    theirs: str
    ratio: Summary
    is_met: bool


#: the best of everybody else's
BEST_PEER = "the best peer"


def judge(results: Mapping[str, Any], targets: Sequence[Target]) -> list[Verdict]:
    """By the quartile towards the worse end; a target without figures of both sides is left out."""
    verdicts = []
    for target in targets:
        contenders = results["databases"].get(target.database, {}).get("contenders", {})
        name = best_peer(contenders, target.figure) if target.theirs == BEST_PEER else target.theirs
        if name is None or name not in contenders or target.ours not in contenders:
            continue
        found = ratios(contenders[target.ours], contenders[name], target.figure)
        if found:
            ratio = summary(target.figure, found)
            is_met = (
                ratio.worse_quartile >= target.at_least
                if target.at_least is not None
                else ratio.worse_quartile <= (target.at_most or 0)
            )
            verdicts.append(Verdict(target, contenders[name]["title"], ratio, is_met))
    return verdicts


def best_peer(contenders: Mapping[str, Any], figure: str) -> str | None:
    medians = {
        name: summary(figure, measured).median
        for name, contender in contenders.items()
        if is_peer(name, contender) and (measured := values(contender, figure))
    }
    if not medians:
        return None
    return (min if figure in SMALLER else max)(medians, key=lambda name: medians[name])


def is_peer(name: str, contender: Mapping[str, Any]) -> bool:
    return name != "raw" and not contender["is_ours"]


@dataclass(frozen=True)
class Win:
    """A peer is ahead of us."""

    database: str
    figure: str
    peer: str
    theirs: float
    ours: float
    #: what its acknowledgement leaves behind, which may be less
    keeps: str


def wins_of_peers(results: Mapping[str, Any], ours: str, figures: Sequence[str]) -> list[Win]:
    wins = []
    for database in results["databases"].values():
        contenders = database["contenders"]
        if ours not in contenders:
            continue
        own = summaries(contenders[ours], figures)
        for name, contender in contenders.items():
            if not is_peer(name, contender):
                continue
            for figure, theirs in summaries(contender, figures).items():
                is_ahead = figure in own and (
                    theirs.median < own[figure].median if figure in SMALLER else theirs.median > own[figure].median
                )
                if is_ahead:
                    medians = (theirs.median, own[figure].median)
                    wins.append(Win(database["name"], figure, contender["title"], *medians, contender["keeps"]))
    return wins
