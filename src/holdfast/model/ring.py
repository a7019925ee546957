"""The hash ring: which worker owns which bucket of a queue."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from datetime import timedelta
from functools import lru_cache

BUCKETS = 1024
#: what has been due for so long is anybody's, whoever owns its bucket; the statements that claim have it as a literal
ANYBODYS_AFTER = timedelta(seconds=10)
#: what all workers may own together: a tenth more than there is, so that nobody is above 1.1 times the average
_PLACES = BUCKETS * 11 // 10
_NUMBERS = tuple(range(BUCKETS))
#: big-endian: machines of all kinds must agree
_DRAWS = struct.Struct(f">{BUCKETS}H")


def bucket_of(partition_key: str) -> int:
    """The first 10 bits of the SHA-256 of the key, as job.partition_bucket has it."""
    return int.from_bytes(hashlib.sha256(partition_key.encode()).digest()[:2]) >> 6


class Ring:
    """Gives each bucket to one of some workers.

    It follows from the set of their ids alone, so all who know the same workers agree without talking. Nobody gets more
    than ⌈1.1 × 1024/N⌉ buckets, and when a worker comes or goes most buckets stay where they are: about 2/N of them
    move, one in N at least.

    - `owners`: the worker of each bucket, by its number; empty if there are no workers.

    >>> ring = Ring(["a", "b", "c"])
    >>> ring.owners[bucket_of("order:9182")]
    'b'
    >>> len(ring.owned_by("b"))
    327
    """

    def __init__(self, workers: Iterable[str]) -> None:
        self.workers = frozenset(workers)
        self.owners = tuple(_share_out(sorted(self.workers)))

    def owned_by(self, worker: str) -> frozenset[int]:
        """Its buckets; none if it is not of the ring."""
        return frozenset(bucket for bucket, owner in enumerate(self.owners) if owner == worker)


def _share_out(workers: list[str]) -> list[str]:
    """In rounds: in round k each worker names bucket k of its wish list, and gets it if it is free and there is room.

    The wishes of a worker are its virtual nodes. A wish that was taken is not made up for in the same round: that would
    balance better, and let each change run through all wish lists.

    Room for ⌈1.1 × 1024/N⌉ each would do for the bound. But that drops by one for everybody when N passes certain
    numbers: from 187 workers to 188 it would move 6 % of the buckets instead of 1 %. So room for ⌊1126/N⌋ each, and
    for one more as long as there are places to spare: with each worker that comes, a few lose one.
    """
    if not workers:
        return []
    owners = [""] * BUCKETS
    room, spare = divmod(_PLACES, len(workers))
    wishes = [(worker, _wish_list(worker)) for worker in workers]
    load = dict.fromkeys(workers, 0)
    free = BUCKETS
    for wish in range(BUCKETS):
        for worker, buckets in wishes:
            bucket = buckets[wish]
            if owners[bucket] or load[worker] > room:
                continue
            if load[worker] == room:
                if not spare:
                    continue
                spare -= 1
            owners[bucket] = worker
            load[worker] += 1
            free -= 1
        if not free:
            break
        # Those who are asked first win ties: so it is by turns.
        wishes.reverse()
    return owners


@lru_cache(maxsize=1024)
def _wish_list(worker: str) -> list[int]:
    """All buckets, shuffled by the worker's id; kept, for sorting is the dear part and most workers stay."""
    draws = _DRAWS.unpack(hashlib.shake_128(worker.encode()).digest(_DRAWS.size))
    return sorted(_NUMBERS, key=draws.__getitem__)
