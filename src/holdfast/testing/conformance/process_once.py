"""process_once: true once per (type, key) among committed transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from holdfast.errors import LeaseLost
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.process_once import KEEP_PROCESSED, forget_processed, process_once
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, refused
from holdfast.testing.conformance.stale_holders import add_stale_cases

CASES = Cases("process_once")


async def once(
    h: Harness, lease: Lease, key: str = "k", *, type_name: str = "sum", aliases: Sequence[str] = ()
) -> bool:
    return await h.run(lambda: process_once(lease, type_name, key, aliases=aliases))


async def stale_once(h: Harness, lease: Lease) -> Settlement:
    error = await refused(LeaseLost, once(h, lease))
    assert h.count("processed") == 0
    return Settlement(lost={error.job_id})


@CASES
async def once_per_type_and_key(h: Harness) -> None:
    """Whichever job asks; other keys and other types are other things."""
    first, second = await h.put_and_claim(2)
    assert await once(h, first)
    assert not await once(h, first)
    assert not await once(h, second)
    assert await once(h, second, "other")
    assert await once(h, second, type_name="other")


@CASES
async def under_every_name_of_the_type(h: Harness) -> None:
    """Old code and new code, which knows the old name: whoever comes first is the first."""
    (lease,) = await h.put_and_claim()
    assert await once(h, lease, "old first", type_name="pay")
    assert not await once(h, lease, "old first", type_name="charge", aliases=["pay"])
    assert await once(h, lease, "new first", type_name="charge", aliases=["pay"])
    assert not await once(h, lease, "new first", type_name="pay")
    # A third name, when the first is forgotten already.
    for key in ("old first", "new first"):
        assert not await once(h, lease, key, type_name="bill", aliases=["charge"])
    assert await once(h, lease, "old first", type_name="other", aliases=["another"])


@CASES
async def another_name_keeps_the_age(h: Harness) -> None:
    """Found under its old name, a key is as old as it was."""
    first, second = await h.put_and_claim(2)
    assert await once(h, first, type_name="pay")
    h.clock.advance(KEEP_PROCESSED)
    assert not await once(h, second, type_name="charge", aliases=["pay"])
    assert {job_id for (job_id,) in h.sql("SELECT CAST(job_id AS text) FROM {processed}")} == {first.id}
    h.clock.advance(timedelta(seconds=1))
    assert await once(h, second, type_name="charge", aliases=["pay"])
    assert not await once(h, second, type_name="pay")


@CASES
async def racing_under_two_names(h: Harness) -> None:
    """Ten of old code and ten of new: one is the first."""
    leases = await h.put_and_claim(20)
    stores = h.neighbours(4)
    names: list[tuple[str, tuple[str, ...]]] = [("pay", ()), ("charge", ("pay",))]
    answers = await asyncio.gather(
        *(
            stores[number % 4].run(
                partial(process_once, lease, names[number // 2 % 2][0], "k", aliases=names[number // 2 % 2][1])
            )
            for number, lease in enumerate(leases)
        )
    )
    assert sorted(answers) == [False] * 19 + [True]


@CASES
async def racing(h: Harness) -> None:
    """Twenty at once: one is the first."""
    leases = await h.put_and_claim(20)
    stores = h.neighbours(4)
    answers = await asyncio.gather(
        *(stores[number % 4].run(partial(process_once, lease, "sum", "k")) for number, lease in enumerate(leases))
    )
    assert sorted(answers) == [False] * 19 + [True]


@CASES
async def is_forgotten_after_a_while(h: Harness) -> None:
    """A key older than what is kept counts as new."""
    (lease,) = await h.put_and_claim()
    assert await once(h, lease)
    h.clock.advance(KEEP_PROCESSED)
    assert not await once(h, lease)
    h.clock.advance(timedelta(seconds=1))
    assert await once(h, lease)
    assert not await once(h, lease)


add_stale_cases(CASES, stale_once, is_repeat=())


@CASES
async def old_keys_are_dropped_in_batches(h: Harness) -> None:
    """Those that are no longer kept, the oldest first; the others stay."""
    (lease,) = await h.put_and_claim()
    for number in range(5):
        await once(h, lease, f"old:{number}")
    h.clock.advance(KEEP_PROCESSED)
    await once(h, lease, "young")
    assert await h.run(forget_processed) == 0
    h.clock.advance(1)
    assert [await h.run(lambda: forget_processed(2)) for _ in range(4)] == [2, 2, 1, 0]
    assert [key for (key,) in h.sql("SELECT key FROM {processed}")] == ["young"]
