"""save_progress: the holder notes how far it is."""

from __future__ import annotations

from holdfast.errors import LeaseLost
from holdfast.model.payload import from_json
from holdfast.operations.lease import Lease, Settlement
from holdfast.operations.save_progress import save_progress
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, refused
from holdfast.testing.conformance.stale_holders import add_stale_cases

CASES = Cases("save_progress")


async def note(h: Harness, lease: Lease, progress: str = '{"done": 3}') -> bool:
    return await h.run(lambda: save_progress(lease, progress))


def noted(h: Harness) -> list[object]:
    return [from_json(value) if isinstance(value, str) else value for (value,) in h.sql("SELECT progress FROM {job}")]


async def stale_note(h: Harness, lease: Lease) -> Settlement:
    before = noted(h)
    error = await refused(LeaseLost, note(h, lease))
    assert noted(h) == before
    return Settlement(lost={error.job_id})


@CASES
async def is_seen_at_once(h: Harness) -> None:
    """The last one noted; nothing else changes."""
    (lease,) = await h.put_and_claim()
    before = await h.state(lease.id)
    assert await note(h, lease, "0.25")
    assert await note(h, lease, '{"done": 3, "of": [4]}')
    assert noted(h) == [{"done": 3, "of": [4]}]
    after, attempts = await h.state(lease.id)
    assert before[0] is not None
    assert after is not None
    assert (after.status, after.leased_until, attempts) == (before[0].status, before[0].leased_until, before[1])


add_stale_cases(CASES, stale_note, is_repeat=())


@CASES.on_postgres
async def locked_by_somebody_is_told_at_once(h: Harness) -> None:
    """Nobody waits for a user's lock."""
    (lease,) = await h.put_and_claim()
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=lease.id):
        assert not await note(h, lease)
    assert noted(h) == [None]
