"""What a worker leaves to others: jobs with flags that it forbids, and partition keys that belong to others."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from holdfast.model.payload import to_json
from holdfast.model.ring import BUCKETS


def taste(forbidden: Collection[str] = (), owned: Mapping[str, Collection[int]] | None = None) -> str | None:
    """As claims read it; None for a worker that takes everything. `owned` are buckets by queue."""
    if not forbidden and not owned:
        return None
    masks = {queue: _mask(buckets) for queue, buckets in (owned or {}).items()}
    return to_json({"forbidden": sorted(forbidden), "masks": masks}).decode()


def _mask(buckets: Collection[int]) -> str:
    """One character per bucket: what a database looks up without unpacking a list for every job."""
    digits = bytearray(b"0" * BUCKETS)
    for bucket in buckets:
        digits[bucket] = ord("1")
    return digits.decode()
