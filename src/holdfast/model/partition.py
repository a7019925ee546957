"""Partition keys: which jobs of a queue run one at a time, and in which order."""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

from holdfast.errors import InvalidOption
from holdfast.model.identifiers import checked_name

Ordering = Literal["fifo", "serial"]

_MOST_SHARDS = 1024
#: a sub-key is a key, and may be asked for as one
_LONGEST_SHARDED = 200 - len(f"#{_MOST_SHARDS - 1}")


def shard_of(partition_key: str, shards: int, by: str) -> str:
    """The key of one of the sub-streams of a hot key: the same `by` always goes to the same one. One is the key itself.

    SQL has the same function, so that both agree.
    """
    if shards == 1:
        return partition_key
    if len(partition_key) > _LONGEST_SHARDED:
        raise InvalidOption("partition_key", partition_key, f"must be 1–{_LONGEST_SHARDED} characters with shards")
    digest = hashlib.sha256(by.encode()).digest()
    return f"{partition_key}#{int.from_bytes(digest[:8], 'big') % shards}"


def checked_partition_key(value: object) -> str:
    return checked_name("partition_key", value)


def checked_ordering(value: object) -> Ordering:
    if value not in get_args(Ordering):
        raise InvalidOption("ordering", value, f"must be one of {', '.join(get_args(Ordering))}")
    return value  # type: ignore[return-value]  # one of the literals, as the line above has seen


def checked_shards(value: object) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_SHARDS:
        raise InvalidOption("shards", value, f"must be a whole number from 1 to {_MOST_SHARDS:,}")
    return value
