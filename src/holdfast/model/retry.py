"""The retry policy: whether a failed attempt is repeated, and how long later."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from datetime import timedelta

from holdfast.errors import InvalidOption
from holdfast.model.clock import LONGEST, Duration, checked_duration

_MOST_ATTEMPTS = 32_767  # what a smallint column holds


@dataclass(frozen=True, kw_only=True, slots=True)
class Retry:
    """How often and how patiently a job is tried again.

    - `max_attempts` (5): attempts before the job becomes a dead letter; a job's own or an operator's setting wins.
    - `initial` (1 s), `factor` (2), `maximum` (1 h): the n-th failure waits initial × factor^(n-1), at most maximum.
    - `jitter` (0.1): each wait is spread by up to this share, so that failures of one cause do not return as one wave.
    - `on` (any exception): only these are tried again. `never` (none): these are not, whatever `on` says.
    """

    max_attempts: int = 5
    initial: Duration = 1.0
    factor: float = 2.0
    maximum: Duration = 3600.0
    jitter: float = 0.1
    on: tuple[type[BaseException], ...] = (BaseException,)
    never: tuple[type[BaseException], ...] = ()

    def __post_init__(self) -> None:
        checked_max_attempts(self.max_attempts)
        checked_duration("initial", self.initial)
        checked_duration("maximum", self.maximum)
        if not _is_number(self.factor) or not math.isfinite(self.factor) or self.factor < 1:
            raise InvalidOption("factor", self.factor, "must be a finite number of at least 1")
        if not _is_number(self.jitter) or not 0 <= self.jitter <= 1:
            raise InvalidOption("jitter", self.jitter, "must be between 0 and 1")
        for option in ("on", "never"):
            for kind in _as_tuple(getattr(self, option)):
                if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                    raise InvalidOption(option, kind, "must be an exception class or a tuple of them")
            object.__setattr__(self, option, _as_tuple(getattr(self, option)))

    def repeats(self, error: BaseException) -> bool:
        """Whether an attempt that ended with `error` may be tried again at all."""
        return isinstance(error, self.on) and not isinstance(error, self.never)

    def delay(self, attempt: int, draw: float | None = None) -> timedelta:
        """How long to wait after the `attempt`-th attempt failed; `draw` in [0, 1) replaces the dice."""
        base = checked_duration("initial", self.initial).total_seconds()
        cap = checked_duration("maximum", self.maximum).total_seconds()
        try:
            grown = base * self.factor ** (max(attempt, 1) - 1)
        except OverflowError:
            grown = cap if base else 0.0
        spread = 1 + self.jitter * ((random.random() if draw is None else draw) * 2 - 1)  # noqa: S311 - no secret
        return min(timedelta(seconds=min(grown, cap) * spread), LONGEST)


def checked_max_attempts(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST_ATTEMPTS:
        raise InvalidOption("max_attempts", value, f"must be a whole number from 1 to {_MOST_ATTEMPTS:,}")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_tuple(kinds: object) -> tuple[object, ...]:
    return kinds if isinstance(kinds, tuple) else (kinds,)
