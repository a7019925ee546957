"""Jobs that somebody asked to cancel while they ran: their holders are told, and they never wait again."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from holdfast.model.clock import iso
from holdfast.model.status import Status
from holdfast.operations.cancel_jobs import cancel_jobs
from holdfast.operations.control import Orders
from holdfast.operations.lease import Lease
from holdfast.operations.refuse_jobs import Refusal, refuse_jobs
from holdfast.operations.release_jobs import release_orphans
from holdfast.operations.renew_leases import LeaseNews, check_leases, renew_leases
from holdfast.operations.retry_jobs import retry_jobs
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, ERROR, LEASE, Harness
from holdfast.testing.conformance.stale_holders import (
    Situation,
    cancelled,
    claimed_again,
    completed,
    dead_letter,
    deleted,
    reaped,
)

CASES = Cases("cancel_requests")


def request(h: Harness, *leases: Lease) -> None:
    for lease in leases:
        h.sql("UPDATE {job} SET cancel_requested_at = :now WHERE id = :id", now=iso(h.now), id=lease.id)


async def _renewal(h: Harness, *leases: Lease) -> LeaseNews:
    return await h.run(lambda: renew_leases(leases, LEASE))


async def _check(h: Harness, *leases: Lease) -> LeaseNews:
    return await h.run(lambda: check_leases(leases), read_only=True)


@CASES
async def are_told_by_renewal_and_check(h: Harness) -> None:
    """The lease is renewed all the same: the holder may take its time to stop."""
    asked, other = await h.put_and_claim(2)
    request(h, asked)
    h.clock.advance(5)
    for look in (_check, _renewal):
        news = await look(h, asked, other)
        assert (news.cancel_requested, news.lost, news.locked) == ({asked.id}, set(), set())
    assert (await h.job(asked.id)).leased_until == h.now + LEASE


@CASES
async def losses_have_reasons(h: Harness) -> None:
    """Completed, cancelled and deleted by others are told apart from lost."""
    situations: dict[Situation, str] = {
        claimed_again: "lease_lost",
        reaped: "lease_lost",
        dead_letter: "lease_lost",
        completed: "completed_elsewhere",
        cancelled: "cancelled",
        deleted: "deleted",
    }
    for situation, reason in situations.items():
        lease = await situation(h)
        for look in (_check, _renewal):
            news = await look(h, lease)
            assert (news.reasons, news.lost, news.cancel_requested) == ({lease.id: reason}, {lease.id}, set())
        h.sql("DELETE FROM {job}")


@CASES
async def success_completes(h: Harness) -> None:
    """A handler that finishes first wins."""
    (lease,) = await h.put_and_claim()
    request(h, lease)
    assert (await h.complete(lease, output="7")).lost == set()
    job = await h.job(lease.id)
    assert (job.status, job.output) == (Status.COMPLETED, 7)


@CASES
async def failure_cancels(h: Harness) -> None:
    """With the error of the attempt, whatever attempts are left; repeated, it reports the same."""
    (lease,) = await h.put_and_claim()
    request(h, lease)
    for _ in range(2):
        settlement = await h.fail(lease)
        assert (settlement.cancelled, settlement.dead, settlement.lost) == ({lease.id}, set(), set())
    job = await h.job(lease.id)
    assert (job.status, job.last_attempt_error, job.finished_at) == (Status.CANCELLED, ERROR, h.now)
    assert [attempt.outcome for attempt in await h.attempts(lease.id)] == ["cancelled"]


@CASES
async def release_cancels(h: Harness) -> None:
    """A worker that stops does not put it back."""
    asked, other = await h.put_and_claim(2)
    request(h, asked)
    settlement = await h.release(asked, other)
    assert (settlement.lost, settlement.locked, settlement.cancelled) == (set(), set(), {asked.id})
    job = await h.job(asked.id)
    assert (job.status, job.finished_at, job.leased_by) == (Status.CANCELLED, h.now, None)
    assert (await h.job(other.id)).status is Status.PENDING


@CASES
async def orphans_are_cancelled(h: Harness) -> None:
    """Claimed, never heard of, and asked to end."""
    asked, other = await h.put_and_claim(2)
    request(h, asked)
    assert set((await h.run(lambda: release_orphans("w1", []))).jobs) == {asked.id, other.id}
    assert (await h.job(asked.id)).status is Status.CANCELLED
    assert (await h.job(other.id)).status is Status.PENDING


@CASES
async def crash_cancels(h: Harness) -> None:
    """Its worker died before it could stop."""
    await h.register("w1")
    asked, other = await h.put_and_claim(2)
    request(h, asked)
    h.clock.advance(DEAD_AFTER + timedelta(seconds=1))
    counts = await h.reap()
    assert (counts.returned, counts.dead_letters, counts.cancelled) == (1, 0, 1)
    assert (await h.job(asked.id)).status is Status.CANCELLED
    assert (await h.job(other.id)).status is Status.PENDING
    assert [attempt.outcome for attempt in await h.attempts(asked.id)] == ["crashed"]


async def _reason_stays(h: Harness, how: str) -> None:
    """Whatever ends it; the attempt keeps what the handler raised."""
    (lease,) = await h.put_and_claim()
    await h.run(lambda: cancel_jobs([lease.id], Orders(actor="ada"), "fraud"))
    await h.run(lambda: cancel_jobs([lease.id], Orders(actor="bob"), "second thoughts"))
    await _endings[how](h, lease)
    job = await h.job(lease.id)
    assert job.status is Status.CANCELLED
    assert job.last_attempt_error is not None
    assert (job.last_attempt_error.type, job.last_attempt_error.message) == ("Cancelled", "fraud")
    attempts = await h.attempts(lease.id)
    assert [attempt.error for attempt in attempts if how == "failed"] == [ERROR] * (how == "failed")
    await h.run(lambda: retry_jobs([lease.id], Orders()))
    await h.fail(await h.claim_one(), is_final=True)
    assert (await h.job(lease.id)).last_attempt_error == ERROR


async def _snoozed(h: Harness, lease: Lease) -> None:
    settlement = await h.run(lambda: snooze_jobs([Postponement(lease.id, lease.lease_generation, delay_ms=1)]))
    assert settlement.cancelled == {lease.id}


async def _refused(h: Harness, lease: Lease) -> None:
    await h.run(lambda: refuse_jobs([Refusal(lease.id, lease.lease_generation, ERROR)]))


async def _released(h: Harness, lease: Lease) -> None:
    await h.release(lease)


async def _orphaned(h: Harness, lease: Lease) -> None:
    await h.run(lambda: release_orphans("w1", ()))
    assert (await h.job(lease.id)).status is Status.CANCELLED


async def _failed(h: Harness, lease: Lease) -> None:
    await h.fail(lease)


async def _reaped(h: Harness, lease: Lease) -> None:
    h.clock.advance(LEASE + DEAD_AFTER)
    await h.reap()
    assert (await h.job(lease.id)).status is Status.CANCELLED


_endings = {
    "snoozed": _snoozed, "refused": _refused, "released": _released, "orphaned": _orphaned, "failed": _failed,
    "reaped": _reaped,
}  # fmt: skip
for _how in _endings:
    CASES.add(
        f"reason_stays_{_how}",
        "The reason given with the request is the job's error in the end.",
        partial(_reason_stays, how=_how),
    )
