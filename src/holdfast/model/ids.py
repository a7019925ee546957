"""UUIDv7 job ids, made by the client so that a retried enqueue is the same enqueue.

Time-ordered ids keep the primary key's hot pages together: random ones cost 40 % of the throughput.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import InvalidOption
from holdfast.model.identifiers import checked_name

_COUNTER_LIMIT = 1 << 12
_lock = threading.Lock()
_last_millisecond = 0
_counter = 0


def new_id() -> str:
    """A UUIDv7 that sorts after every id this process has made before."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[str]:
    """`count` UUIDv7s in rising order: milliseconds, a counter within them, and 62 random bits.

    The noise of a batch is one call to the operating system; more than 4,096 borrow from the next millisecond.
    """
    global _last_millisecond, _counter
    noise = os.urandom(8 * count).hex()
    ids: list[str] = []
    with _lock:
        millisecond, counter = time.time_ns() // 1_000_000, 0
        if millisecond <= _last_millisecond:
            millisecond, counter = _last_millisecond, _counter
        clock = _clock_part(millisecond)
        for index in range(0, 16 * count, 16):
            if counter == _COUNTER_LIMIT:
                millisecond, counter = millisecond + 1, 0
                clock = _clock_part(millisecond)
            variant = "89ab"[int(noise[index], 16) & 3]
            ids.append(f"{clock}{counter:03x}-{variant}{noise[index + 1 : index + 4]}-{noise[index + 4 : index + 16]}")
            counter += 1
        _last_millisecond, _counter = millisecond, counter
    return ids


def _clock_part(millisecond: int) -> str:
    digits = f"{millisecond:012x}"
    return f"{digits[:8]}-{digits[8:]}-7"


def checked_uuid(value: object, option: str = "id") -> str:
    """The canonical text of a UUID given by a caller."""
    try:
        return str(value if isinstance(value, uuid.UUID) else uuid.UUID(str(value)))
    except ValueError:
        raise InvalidOption(option, value, "must be a UUID, such as '0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11'") from None


def checked_id(value: object, option: str = "id") -> str:
    """An id of whatever form the app's `id_type` may allow."""
    return str(value) if isinstance(value, uuid.UUID) else checked_name(option, value)


IdGenerator = Callable[[int], list[str]]


class IdCheck(Protocol):
    """The id in the form that the database has it; a bad one is refused as a value of `option`."""

    def __call__(self, value: object, option: str = "id") -> str: ...


@dataclass(frozen=True, slots=True)
class Ids:
    """How an app makes job ids, and which ones it accepts."""

    make: IdGenerator = new_ids
    check: IdCheck = checked_uuid
