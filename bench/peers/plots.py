"""Pictures of a run: `python plots.py run.json FOLDER`, in an environment that has matplotlib."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt  # the backend is chosen before

#: file, then panels: their title, the figures in them, and whether the axis is logarithmic
PICTURES: Mapping[str, Sequence[tuple[str, Sequence[str], bool]]] = {
    "drain": [("drain, jobs/s", ("drain, 1 process", "drain, 2 processes"), False)],
    "enqueue": [
        ("batch enqueue, rows/s", ("batch enqueue",), False),
        ("single enqueue, calls/s", ("single enqueue",), False),
    ],
    "latency": [("enqueue to start when idle, ms", ("latency p50", "latency p99"), True)],
}
OURS, THEIRS = ("#1b6e53", "#7cc4a8"), ("#5b6770", "#b3bcc4")


def main(run: Path, folder: Path) -> None:
    results = json.loads(run.read_text(encoding="utf-8"))
    # Text stays text, and two pictures of the same run are the same file.
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "holdfast", "font.size": 9})
    for database, found in results["databases"].items():
        for name, panels in PICTURES.items():
            _draw(folder / f"{name}-{database}", found, panels)


def _draw(file: Path, found: Mapping[str, Any], panels: Sequence[tuple[str, Sequence[str], bool]]) -> None:
    figures = [figure for _, names, _ in panels for figure in names]
    contenders = [
        contender
        for contender in reversed(found["contenders"].values())
        if any(_values(contender, figure) for figure in figures)
    ]
    if not contenders:
        return
    height = 1.1 + 0.42 * len(contenders)
    figure, axes = plt.subplots(1, len(panels), figsize=(8, height), sharey=True, squeeze=False)
    for axis, (title, names, is_log) in zip(axes[0], panels, strict=True):
        axis.set_xscale("log" if is_log else "linear")
        _panel(axis, contenders, names, is_log=is_log)
        axis.set_title(title + (" (less is better)" if is_log else ""), fontsize=9)
    axes[0][0].set_yticks(range(len(contenders)), [contender["title"] for contender in contenders])
    axes[0][0].tick_params(axis="y", labelsize=8)
    figure.suptitle(f"{found['name']}: medians, and quartiles as lines", fontsize=10)
    figure.tight_layout()
    for ending in ("png", "svg"):
        # Without its date, a picture changes only with its figures.
        figure.savefig(file.with_suffix(f".{ending}"), dpi=150, metadata={"Date": None} if ending == "svg" else None)
    plt.close(figure)


def _panel(axis: Any, contenders: Sequence[Mapping[str, Any]], names: Sequence[str], *, is_log: bool) -> None:
    thickness = 0.8 / len(names)
    for number, name in enumerate(names):
        for row, contender in enumerate(contenders):
            measured = _values(contender, name)
            if not measured:
                continue
            low, median, high = _quartiles(measured)
            colour = (OURS if contender["is_ours"] else THEIRS)[number]
            place = row + 0.4 - thickness * (number + 0.5)
            if is_log:
                # A bar would begin somewhere, and a logarithm has no zero.
                axis.plot(median, place, "o", color=colour, markersize=5)
            else:
                axis.barh(place, median, height=thickness * 0.9, color=colour)
            axis.plot([low, high], [place, place], color="black", linewidth=0.8)
            told = f"{median:,.0f}" if median >= 100 else f"{median:.1f}"  # noqa: PLR2004 - three digits tell enough
            which = f"  {_short(name)}" if len(names) > 1 else ""
            axis.annotate(f"{told}{which}", (high, place), (5, 0), textcoords="offset points", va="center", fontsize=6)
    axis.margins(x=0.25)
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.tick_params(labelsize=7)
    if not is_log:
        axis.locator_params(axis="x", nbins=5)
    axis.spines[["top", "right"]].set_visible(False)


def _quartiles(measured: Sequence[float]) -> tuple[float, float, float]:
    if len(measured) == 1:
        return measured[0], measured[0], measured[0]
    low, median, high = statistics.quantiles(measured, n=4, method="inclusive")
    return low, median, high


def _short(name: str) -> str:
    """`1 process` of `drain, 1 process`, `p50` of `latency p50`."""
    return name.removeprefix("latency").rpartition(",")[2].strip()


def _values(contender: Mapping[str, Any], figure: str) -> list[float]:
    return [figures[figure] for figures in contender["rounds"] if figure in figures]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
