"""Writes by somebody who no longer holds the job: the same table of situations for every verb of a holder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from holdfast.model.clock import iso
from holdfast.model.ids import new_id
from holdfast.operations.lease import Lease, Settlement
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import LEASE, Harness

Situation = Callable[[Harness], Awaitable[Lease]]
Write = Callable[[Harness, Lease], Awaitable[Settlement]]


async def claimed_again(h: Harness) -> Lease:
    """The holder gave the job back and holds it again, under a later generation."""
    await h.put()
    stale = await h.claim_one()
    await h.release(stale)
    await h.claim_one()
    return stale


async def held_by_another_worker(h: Harness) -> Lease:
    """The lease ran out, and another worker has the job now."""
    await h.register("w1", "w2")
    await h.put()
    stale = await h.claim_one(worker="w1")
    h.clock.advance(LEASE + timedelta(seconds=1))
    await h.register("w1", "w2")
    await h.reap()
    h.clock.advance(timedelta(hours=2))
    await h.claim_one(worker="w2")
    return stale


async def reaped(h: Harness) -> Lease:
    """The lease ran out and the job waits for its next attempt, under the same generation."""
    await h.register("w1")
    await h.put()
    stale = await h.claim_one()
    h.clock.advance(LEASE + timedelta(seconds=1))
    await h.register("w1")
    await h.reap()
    return stale


async def from_the_future(h: Harness) -> Lease:
    """A generation that has not been given out yet."""
    await h.put()
    lease = await h.claim_one()
    return Lease(lease.id, lease.lease_generation + 1)


async def completed(h: Harness) -> Lease:
    """The job is completed under this very generation."""
    await h.put()
    lease = await h.claim_one()
    await h.complete(lease, output='"first"')
    return lease


async def dead_letter(h: Harness) -> Lease:
    """The job became a dead letter under this very generation."""
    await h.put()
    lease = await h.claim_one()
    await h.fail(lease, is_final=True)
    return lease


async def cancelled(h: Harness) -> Lease:
    """The job was cancelled while it ran."""
    await h.put()
    lease = await h.claim_one()
    h.sql(
        "UPDATE {job} SET status = 'cancelled', finished_at = :now, leased_by = NULL, leased_until = NULL "
        "WHERE id = :id",
        now=iso(h.now),
        id=lease.id,
    )
    return lease


async def deleted(h: Harness) -> Lease:
    """The job is gone."""
    await h.put()
    lease = await h.claim_one()
    h.sql("DELETE FROM {job} WHERE id = :id", id=lease.id)
    return lease


async def unknown(h: Harness) -> Lease:  # noqa: ARG001 - a situation like the others
    """There never was such a job."""
    return Lease(new_id(), 1)


_SITUATIONS: tuple[Situation, ...] = (
    claimed_again,
    held_by_another_worker,
    reaped,
    from_the_future,
    completed,
    dead_letter,
    cancelled,
    deleted,
    unknown,
)


def add_stale_cases(cases: Cases, write: Write, *, is_repeat: tuple[Situation, ...]) -> None:
    """A case for each situation; those in `is_repeat` are a harmless repetition, with a case of their own."""
    for situation in _SITUATIONS:
        if situation not in is_repeat:
            claim = f"{situation.__doc__ or ''} The write changes nothing and is reported as lost."
            check = partial(_changes_nothing, situation=situation, write=write)
            cases.add(f"stale_{situation.__name__}", claim, check)


async def _changes_nothing(h: Harness, situation: Situation, write: Write) -> None:
    lease = await situation(h)
    before = await h.state(lease.id)
    h.clock.advance(1)
    settlement = await write(h, lease)
    assert settlement.lost == {lease.id}
    assert settlement.locked == set()
    assert await h.state(lease.id) == before


def add_locked_case(
    cases: Cases, write: Callable[..., Awaitable[Settlement]], count_written: Callable[[Harness], int]
) -> None:
    """For PostgreSQL: SQLite has one lock for all."""

    async def one_locked_row_holds_up_nobody(h: Harness) -> None:
        """One row of 500 is locked by somebody: the other 499 are written, and that one is reported as locked."""
        leases = await h.put_and_claim(500)
        victim = leases[250]
        h.clock.advance(1)
        with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=victim.id):
            settlement = await write(h, *leases)
            assert settlement.locked == {victim.id}
            assert settlement.lost == set()
            assert count_written(h) == 499
        again = await write(h, victim)
        assert not again.locked
        assert not again.lost
        assert count_written(h) == 500

    cases.on_postgres(one_locked_row_holds_up_nobody)
