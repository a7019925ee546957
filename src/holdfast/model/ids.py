"""UUIDv7 job ids, made by the client so that a retried enqueue is the same enqueue.

Time-ordered ids keep the primary key's hot pages together: random ones cost 40 % of the throughput.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable

from holdfast.errors import InvalidOption

_RANDOM_BITS = 74
_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A UUIDv7 that sorts after every id this process has made before."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """`count` UUIDv7s in rising order.

    One random start per batch and small random steps after it: unguessable enough not to collide, and one call to
    the operating system for the batch instead of one per id.
    """
    global _last  # noqa: PLW0603 - the order must hold over the whole process
    noise = os.urandom(10 + 4 * count)
    with _lock:
        value = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | int.from_bytes(noise[:10]) & (
            (1 << _RANDOM_BITS - 1) - 1
        )
        value = max(value, _last + 1)
        ids = []
        for index in range(10, 10 + 4 * count, 4):
            ids.append(_format(value))
            value += 1 + int.from_bytes(noise[index : index + 4])
        _last = value
    return ids


def _format(value: int) -> str:
    """Lay 48 bits of milliseconds and 74 of noise around the version and variant bits."""
    high = value >> 62
    number = (high >> 12 << 80) | (7 << 76) | ((high & 0xFFF) << 64) | (2 << 62) | (value & ((1 << 62) - 1))
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def checked_uuid(value: object) -> str:
    """The canonical text of a UUID given by a caller."""
    try:
        return str(value if isinstance(value, uuid.UUID) else uuid.UUID(str(value)))
    except ValueError:
        raise InvalidOption("id", value, "must be a UUID, such as '0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11'") from None


IdGenerator = Callable[[int], list[str]]
