"""renew_leases: holders keep what they hold, and learn what they lost."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.clock import iso
from holdfast.model.status import Status
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import LEASE, Harness
from holdfast.testing.conformance.stale_holders import add_locked_case, add_stale_cases

CASES = Cases("renew_leases")


@CASES
async def extends_from_now(h: Harness) -> None:
    """The lease runs from the moment of renewal; nothing else changes."""
    (lease,) = await h.put_and_claim()
    before = await h.job(lease.id)
    h.clock.advance(30)
    settlement = await h.renew(lease)
    assert (settlement.lost, settlement.locked) == (set(), set())
    after = await h.job(lease.id)
    assert after.leased_until == h.now + LEASE
    assert _without_lease(after) == _without_lease(before)


@CASES
async def takes_the_length_asked(h: Harness) -> None:
    """A renewal may shorten, and takes milliseconds."""
    (lease,) = await h.put_and_claim()
    await h.renew(lease, lease=timedelta(milliseconds=1_234))
    assert (await h.job(lease.id)).leased_until == h.now + timedelta(milliseconds=1_234)


@CASES
async def renews_a_batch(h: Harness) -> None:
    """All leases of a worker in one statement; the stale one among them is the only one reported."""
    leases = await h.put_and_claim(100)
    await h.complete(leases[40])
    h.clock.advance(10)
    settlement = await h.renew(*leases)
    assert settlement.lost == {leases[40].id}
    rows = h.sql("SELECT count(*) FROM {job} WHERE leased_until = :until", until=iso(h.now + LEASE))
    assert rows[0][0] == 99


@CASES
async def nothing_to_renew(h: Harness) -> None:
    """An empty list is no error."""
    settlement = await h.renew()
    assert (settlement.lost, settlement.locked) == (set(), set())


@CASES
async def expired_but_not_taken_is_renewed(h: Harness) -> None:
    """Late is not lost: until somebody takes the job, its holder may renew."""
    await h.register("w1")
    (lease,) = await h.put_and_claim()
    h.clock.advance(LEASE * 3)
    assert (await h.renew(lease)).lost == set()
    await h.register("w1")
    assert (await h.reap()).returned == 0
    job = await h.job(lease.id)
    assert (job.status, job.leased_until) == (Status.RUNNING, h.now + LEASE)


add_stale_cases(CASES, Harness.renew, is_repeat=())


def _renewed(h: Harness) -> int:
    return int(h.sql("SELECT count(*) FROM {job} WHERE leased_until = :until", until=iso(h.now + LEASE))[0][0])


add_locked_case(CASES, Harness.renew, _renewed)


def _without_lease(job: object) -> dict[str, object]:
    import msgspec

    fields = msgspec.structs.asdict(job)  # type: ignore[arg-type]  # Job is a struct
    del fields["leased_until"]
    return fields
