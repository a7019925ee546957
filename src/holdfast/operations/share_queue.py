"""Deal out the limits of a queue: a worker says what it uses and wants, and gets its share."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.sharing import Limits, Share, deal
from holdfast.operations.statement import ATOMICALLY, Operation, Statement


class SharedQueue(NamedTuple):
    """The limits of a queue, and what the worker has of them.

    - `allowed`, `is_owed`: as in `Dealt`.
    - `is_new`: it was only entered, with nothing; what it thought it had, others may have now.
    """

    limits: Limits
    share: Share
    allowed: int = 0
    is_owed: bool = False
    is_new: bool = False


def share_queue(worker_id: str, queue: str, in_use: int, wanted: int, *, is_known: bool) -> Operation[SharedQueue]:
    """Called while nothing is being claimed: what is in use can only become less until the answer.

    - `is_known`: the worker knows what it has, from an answer to the last time it asked.

    Whoever comes to a limit anew is entered with nothing, and gets its share when it asks again: a worker that was
    taken for dead has to hear of that before there is a share by which its claims would be let through.
    """
    yield ATOMICALLY
    rows = yield Statement("lock_queue", {"queue": queue})
    if not rows:
        return SharedQueue(Limits(), Share(worker_id, in_use=in_use, wanted=wanted))
    *limited, at = rows[0]
    limits = Limits(*limited)
    shares = [Share(*row) for row in (yield Statement("collect_shares", {"queue": queue, "worker": worker_id}))]
    had = next((share for share in shares if share.worker_id == worker_id), None)
    if had is None or not is_known:
        entered = Share(worker_id, in_use=in_use, wanted=wanted)
        return SharedQueue(limits, (yield from _write(queue, entered)), is_owed=True, is_new=True)
    mine = had._replace(in_use=in_use, wanted=wanted)
    dealt = deal(limits, mine, [share for share in shares if share.worker_id != worker_id], at)
    share = yield from _write(queue, dealt.share)
    return SharedQueue(limits, share, min(dealt.allowed, share.permits), dealt.is_owed)


def _write(queue: str, share: Share) -> Operation[Share]:
    """What it has after that, which is never more than the limits allow."""
    rows = yield Statement(
        "share_queue",
        {
            "queue": queue,
            "worker": share.worker_id,
            "permits": share.permits,
            "in_use": share.in_use,
            "wanted": share.wanted,
            "rate": share.rate,
            "burst": share.burst,
        },
    )
    permits, rate, burst = rows[0]
    return share._replace(permits=permits, rate=rate, burst=burst)
