"""How the limits of a queue are dealt out to workers.

Everybody who asks works out what would be fair to all who want something, and takes that for himself as far as it is
free, or gives back what is more than fair as far as he does not use it.  So nobody has to be told by others, and what
one gives back the next who asks can have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: how long a worker keeps what cannot be divided, in seconds
_TURN = 30
#: but a start that is to come is not saved up by the one and lost to the next: so many come in a turn at least
_STARTS_IN_A_TURN = 5
#: rates are dealt out in millionths of a start per second: whole numbers add up exactly
MILLIONTHS = 1_000_000


class Limits(NamedTuple):
    """Of a queue; None is no limit. The rate is in millionths of a start per second, and comes with a burst."""

    concurrency: int | None = None
    rate: int | None = None
    burst: int | None = None


class Share(NamedTuple):
    """What a worker has of a queue's limits, what it uses of that, and how much it would."""

    worker_id: str
    permits: int = 0
    in_use: int = 0
    wanted: int = 0
    rate: int = 0
    burst: int = 0


class Dealt(NamedTuple):
    """What came of asking.

    - `share`: what the worker has from now on.
    - `allowed`: how many jobs it may have running to claim more: less than its permits, where others are to get some of
      these as soon as they are not in use.
    - `is_owed`: it is to get more, as soon as somebody gives it back.
    """

    share: Share
    allowed: int = 0
    is_owed: bool = False


def deal(limits: Limits, mine: Share, others: Sequence[Share], at: int = 0) -> Dealt:
    """This worker's part of each limit, or as much of that as is free.

    - `at`: the database's time in seconds, the same for all who ask; with it those change who get what cannot be
      divided. Where there is less than one for each, nobody keeps it for ever who finds no job that he would take.
    """
    permits = burst = rate = allowed = 0
    is_owed = False
    wishes = {share.worker_id: max(share.wanted, share.in_use) for share in (mine, *others)}
    if limits.concurrency is not None:
        fair = fair_parts(limits.concurrency, wishes, at // _TURN)[mine.worker_id]
        free = limits.concurrency - sum(max(share.permits, share.in_use) for share in others)
        permits = _moved(mine.permits, fair, free, in_use=mine.in_use)
        allowed = min(permits, fair)
        is_owed = permits < fair
    if limits.rate is not None and limits.burst is not None:
        # By starts, not by slots: whoever wants any may save up as many as the next.
        equal = {share.worker_id: limits.burst if share.wanted else 0 for share in (mine, *others)}
        if any(equal.values()):
            fair = fair_parts(limits.burst, equal, at // _turn_of(limits.rate, limits.burst))[mine.worker_id]
        else:  # nobody misses what has been saved up
            fair = min(mine.burst, limits.burst)
        burst = _moved(mine.burst, fair, limits.burst - sum(share.burst for share in others))
        part = limits.rate * burst // limits.burst
        rate = _moved(mine.rate, part, limits.rate - sum(share.rate for share in others))
        is_owed = is_owed or burst < fair or rate < part
    return Dealt(mine._replace(permits=permits, burst=burst, rate=rate), allowed, is_owed)


def _turn_of(rate: int, burst: int) -> int:
    """Who gets a part of a rate begins with nothing saved up."""
    return max(_TURN, _STARTS_IN_A_TURN * burst * MILLIONTHS // max(1, rate))


def fair_parts(total: int, wishes: Mapping[str, int], turn: int = 0) -> dict[str, int]:
    """Whole parts of `total`, as equal as the wishes allow; what cannot be divided goes to whose turn it is."""
    parts = dict.fromkeys(sorted(wishes), 0)
    hungry = [who for who in parts if wishes[who] > 0]
    first = turn % len(hungry) if hungry else 0
    hungry = hungry[first:] + hungry[:first]
    left = total
    while hungry and left >= len(hungry):
        each = left // len(hungry)
        for who in hungry:
            more = min(each, wishes[who] - parts[who])
            parts[who] += more
            left -= more
        hungry = [who for who in hungry if wishes[who] > parts[who]]
    for who in hungry[:left]:
        parts[who] += 1
    return parts


def _moved(had: int, fair: int, free: int, in_use: int = 0) -> int:
    """Up to what is fair as far as it is free; down to it as far as it is not in use."""
    if fair > had:
        return max(had, min(fair, free))
    return max(fair, min(had, in_use))
