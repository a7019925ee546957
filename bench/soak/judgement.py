"""Whether a figure grows, by its samples."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: what is before has to fill up first: history, indexes, caches
SETTLING_SHARE = 1 / 3
_FEWEST_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """Figures at so many seconds after the beginning."""

    seconds: float
    figures: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`percent_per_minute`: by the line that fits the samples best, of what the figure was in the middle.

    `limit` is None for what is shown and not judged.
    """

    name: str
    first: float
    last: float
    percent_per_minute: float
    limit: float | None

    @property
    def is_exceeded(self) -> bool:
        return self.limit is not None and self.percent_per_minute > self.limit


def judge(samples: Sequence[Sample], judged: Sequence[str], limit: float) -> list[Verdict]:
    """Each figure over the time after things have settled."""
    settled = samples[-1].seconds * SETTLING_SHARE if samples else 0.0
    late = [sample for sample in samples if sample.seconds >= settled]
    if len(late) < _FEWEST_SAMPLES:
        raise ValueError(f"{len(late)} samples are too few to judge: let it run for longer")
    return [_verdict(name, late, limit if name in judged else None) for name in late[0].figures]


def _verdict(name: str, samples: Sequence[Sample], limit: float | None) -> Verdict:
    values = [sample.figures[name] for sample in samples]
    line = statistics.linear_regression([sample.seconds for sample in samples], values)
    middle = statistics.fmean(values)
    growth = 100 * 60 * line.slope / middle if middle else 0.0
    return Verdict(name, values[0], values[-1], growth, limit)
