"""What people set for a queue: a pause, and limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import InvalidOption
from holdfast.model.clock import Duration, checked_duration, checked_instant

_MOST = 1_000_000
_LEAST_RATE = 0.000_001


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a queue.

    - `paused_at`: since when nothing is given out; None if it is not paused.
    - `resume_at`: when the pause ends by itself.
    - `concurrency`: how many of its jobs may run at a time; `rate`: how many may start per second, and `burst` at once.
    - `key_concurrency`, `key_rate`, `key_burst`: the same, of each `concurrency_key`. None means any number.
    - `fair_by`: "tenant" where tenants take turns; None where jobs go by their order alone.
    """

    name: str
    paused_at: datetime | None = None
    resume_at: datetime | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None
    key_concurrency: int | None = None
    key_rate: float | None = None
    key_burst: int | None = None
    fair_by: str | None = None


class ResumeTime(NamedTuple):
    """When a pause ends: at a time, after a while, or neither."""

    at: datetime | None = None
    after: timedelta | None = None


def checked_resume_time(value: datetime | Duration | None) -> ResumeTime:
    """Given as a datetime, or as how long from now."""
    if value is None:
        return ResumeTime()
    if isinstance(value, datetime):
        return ResumeTime(at=checked_instant("resume_at", value))
    after = checked_duration("resume_at", value)
    if not after:
        raise InvalidOption("resume_at", value, "is now; give a later time, or how long from now")
    return ResumeTime(after=after)


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Each None, or checked: `concurrency` and `burst` are whole numbers, `rate` is starts per second.

    Those that begin with `key_` go for each `concurrency_key` of the queue; `fair_by` is a word.
    """

    concurrency: int | None = None
    rate: float | None = None
    burst: int | None = None
    key_concurrency: int | None = None
    key_rate: float | None = None
    key_burst: int | None = None
    fair_by: str | None = None

    @classmethod
    def checked(cls, **given: object) -> QueueLimits:
        """A rate without a burst allows as many at once as in a second, and at least one."""
        fair_by = given.get("fair_by")
        if fair_by not in (None, "tenant"):
            raise InvalidOption("fair_by", fair_by, "must be 'tenant', or None for queues that go by their order alone")
        return cls(**_checked("", given), **_checked("key_", given), fair_by=None if fair_by is None else str(fair_by))


def _checked(prefix: str, given: Mapping[str, object]) -> dict[str, Any]:
    concurrency, rate, burst = (given.get(prefix + name) for name in ("concurrency", "rate", "burst"))
    hint = f"must be a whole number from 1 to {_MOST:,}, or None for no limit"
    if concurrency is not None and not _is_count(concurrency):
        raise InvalidOption(f"{prefix}concurrency", concurrency, f"{hint}; to stop a queue, pause it")
    if rate is not None and not _is_rate(rate):
        raise InvalidOption(
            f"{prefix}rate", rate, f"must be starts per second, from {_LEAST_RATE:f} to {_MOST:,}, or None for no limit"
        )
    if burst is not None and not _is_count(burst):
        raise InvalidOption(f"{prefix}burst", burst, hint)
    if burst is not None and rate is None:
        raise InvalidOption(f"{prefix}burst", burst, f"goes with a rate; give {prefix}rate= as well")
    if rate is not None:
        rate = float(rate)  # type: ignore[arg-type]  # checked above
        burst = max(1, math.floor(rate)) if burst is None else burst
    return {f"{prefix}concurrency": concurrency, f"{prefix}rate": rate, f"{prefix}burst": burst}


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _LEAST_RATE <= value <= _MOST
