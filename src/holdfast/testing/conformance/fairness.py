"""fairness: in a queue that is fair by tenant each tenant gets its share of a claim, whatever the others have."""

from __future__ import annotations

from datetime import timedelta

from holdfast.model.call import Extras
from holdfast.model.ids import new_id
from holdfast.model.queue import QueueLimits, ResumeTime
from holdfast.model.scan_position import Lane
from holdfast.model.taste import taste
from holdfast.model.tenant_turns import WINDOW, TenantLane
from holdfast.operations.claim_jobs import Claim, claim_jobs, find_lanes, find_tenants, next_due
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.find_turn import MOST_AHEAD, find_turn
from holdfast.operations.limit_queue import limit_queue
from holdfast.operations.pause_queue import pause_queue
from holdfast.operations.stats import count_jobs
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.deduplication import keyed as deduplicated
from holdfast.testing.conformance.deduplication import send_one
from holdfast.testing.conformance.harness import LEASE, Harness, document, ids_of, lease_of
from holdfast.testing.conformance.partition_keys import keyed

CASES = Cases("fairness")


async def make_fair(h: Harness, queue: str = "default", fair_by: str | None = "tenant") -> None:
    await h.run(lambda: limit_queue(queue, QueueLimits(fair_by=fair_by), None))


async def tenants(h: Harness, after: str = "", queue: str = "default", wanted: str | None = None) -> list[TenantLane]:
    return await h.run(lambda: find_tenants(queue, after, wanted), read_only=True)


async def lanes_of(h: Harness, after: str = "", queue: str = "default", wanted: str | None = None) -> list[Lane]:
    """The best lane of each tenant that has one that is due."""
    lanes: dict[str, Lane] = {}
    for lane in await tenants(h, after, queue, wanted):
        if lane.priority is not None and lane.ready_at is not None and lane.seq is not None and lane.due_in_ms == 0:
            just_before = Lane(queue, lane.priority, lane.ready_at, lane.seq - 1, lane.tenant)
            lanes.setdefault(lane.tenant, just_before)
    return list(lanes.values())


async def claim(
    h: Harness, limit: int = 100, most: int = 100, *, after: str = "", wanted: str | None = None, run: int = 0
) -> Claim:
    lanes = await lanes_of(h, after, wanted=wanted)
    return await h.run(lambda: claim_jobs("w1", lanes, limit, LEASE, most=most, taste=wanted, run=run))


def owners(claimed: Claim) -> dict[str | None, int]:
    return {tenant: sum(job.tenant == tenant for job in claimed) for tenant in sorted({str(j.tenant) for j in claimed})}


@CASES
async def it_holds_for_jobs_enqueued_from_then_on(h: Harness) -> None:
    """Those of before, and those without a tenant, are claimed as in any other queue."""
    before = await h.put_one(tenant="a")
    await make_fair(h)
    fair = await h.put_one(tenant="a")
    without = await h.put_one()
    elsewhere = await h.put_one(tenant="a", queue="other")
    assert ids_of(await h.claim(queues=["default", "other"])) == [before, without, elsewhere]
    assert ids_of(await claim(h)) == [fair]


@CASES
async def it_ends_for_jobs_enqueued_from_then_on(h: Harness) -> None:
    """Those that take turns go on taking turns."""
    await make_fair(h)
    fair = await h.put_one(tenant="a")
    await make_fair(h, fair_by=None)
    plain = await h.put_one(tenant="a")
    assert ids_of(await h.claim()) == [plain]
    assert ids_of(await claim(h)) == [fair]


@CASES
async def each_gets_its_share(h: Harness) -> None:
    """However many jobs the others have, and however long theirs have been waiting."""
    await make_fair(h)
    await h.put(50, tenant="a")
    h.clock.advance(timedelta(hours=1))
    await h.put(3, tenant="b")
    await h.put(50, tenant="c")
    claimed = await claim(h, 15, 5)
    assert owners(claimed) == {"a": 5, "b": 3, "c": 5}
    assert claimed == sorted(claimed, key=lambda job: (job.priority, job.ready_at, job.seq))


@CASES
async def the_limit_goes_by_the_order_of_lanes(h: Harness) -> None:
    """Who comes after it is full gets nothing, and is not locked either."""
    await make_fair(h)
    for tenant in ("a", "b", "c"):
        await h.put(5, tenant=tenant)
    assert owners(await claim(h, 4, 3)) == {"a": 3, "b": 1}
    assert owners(await claim(h, 4, 3, after="b")) == {"a": 1, "c": 3}


@CASES
async def order_counts_within_a_tenant(h: Harness) -> None:
    """Priority first, then the time, then the order of enqueue."""
    await make_fair(h)
    late = await h.put_one(tenant="a", priority=5)
    first, second = await h.put(2, tenant="a", priority=-5)
    other = await h.put_one(tenant="b", priority=0)
    assert [(lane.tenant, lane.priority) for lane in await tenants(h)] == [("a", -5), ("a", 5), ("b", 0)]
    assert ids_of(await claim(h, 10, 1)) == [first, other]
    assert ids_of(await claim(h, 10, 1)) == [second]
    assert ids_of(await claim(h, 10, 1)) == [late]


@CASES
async def a_claim_goes_on_where_the_last_one_ended(h: Harness) -> None:
    """A lane with a tenant has a place, as any other."""
    await make_fair(h)
    first, _, third = await h.put(3, tenant="a")
    (lane,) = await lanes_of(h)
    skipped = Lane(lane.queue, lane.priority, lane.ready_at, lane.seq + 2, "a")
    assert ids_of(await h.run(lambda: claim_jobs("w1", [skipped], 5, LEASE, most=5))) == [third]
    assert ids_of(await claim(h, 1, 1)) == [first]


@CASES
async def the_walk_goes_round(h: Harness) -> None:
    """It begins behind a tenant, whether there is one of that name or not, and sees each at most once."""
    await make_fair(h)
    names = [f"t{number:02}" for number in range(WINDOW + 8)]
    await h.enqueue(*(document(id=new_id(), tenant=name) for name in names))
    found = [lane.tenant for lane in await tenants(h)]
    assert found == names[:WINDOW]
    found = [lane.tenant for lane in await tenants(h, found[-1])]
    assert found == [*names[WINDOW:], *names[: WINDOW - 8]]
    assert [lane.tenant for lane in await tenants(h, "t38x")][:2] == ["t39", "t00"]
    h.sql("UPDATE {job} SET is_fair = :no WHERE tenant > 't02'", no=False)
    assert [lane.tenant for lane in await tenants(h, "t01")] == ["t02", "t00", "t01"]
    assert [lane.tenant for lane in await tenants(h, "zzz")] == ["t00", "t01", "t02"]


@CASES
async def a_tenant_with_nothing_to_claim_is_passed(h: Harness) -> None:
    """It is named, so that the walk goes on behind it."""
    await make_fair(h)
    await h.put_one(tenant="a", more=Extras(flags=["gpu"]))
    await h.put_one(tenant="b", delay_ms=5_000)
    await h.put_one(tenant="c")
    found = await tenants(h, wanted=taste(["gpu"]))
    assert [(lane.tenant, lane.priority, lane.due_in_ms) for lane in found] == [
        ("a", None, None),
        ("b", 0, 5_000),
        ("c", 0, 0),
    ]
    assert owners(await claim(h, wanted=taste(["gpu"]))) == {"c": 1}


@CASES
async def the_next_due_time_is_exact(h: Harness) -> None:
    """Whosever job it is, however many tenants there are."""
    await make_fair(h)
    await h.enqueue(*(document(id=new_id(), tenant=f"t{n:03}", delay_ms=60_000 + n) for n in range(100)))
    await h.put_one(tenant="t099", delay_ms=1_501, priority=9)
    assert await h.run(lambda: next_due(["default"]), read_only=True) == timedelta(milliseconds=1_501)
    (lane,) = await h.run(lambda: find_lanes(["default"]), read_only=True)
    assert (lane.is_fair, lane.is_suspect, lane.due_in_ms) == (True, False, 1_501)
    h.clock.advance(timedelta(milliseconds=1_501))
    assert await h.run(lambda: next_due(["default"]), read_only=True) == timedelta()
    assert owners(await claim(h, after="t080")) == {"t099": 1}


@CASES
async def suspects_are_claimed_as_ever(h: Harness) -> None:
    """Alone, and not by turns."""
    await make_fair(h)
    job_id = await h.put_one(tenant="a")
    h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=job_id)
    assert await tenants(h) == []
    assert ids_of(await h.claim_suspect()) == [job_id]


@CASES
async def a_paused_queue_gives_out_nothing(h: Harness) -> None:
    """To nobody."""
    await make_fair(h)
    await h.put(2, tenant="a")
    await h.run(lambda: pause_queue("default", ResumeTime(), None, None))
    assert await claim(h) == []
    await h.run(lambda: pause_queue("default", ResumeTime(after=timedelta(seconds=5)), None, None))
    assert await h.run(lambda: next_due(["default"]), read_only=True) == timedelta(seconds=5)
    h.clock.advance(timedelta(seconds=5))
    assert len(await claim(h)) == 2


@CASES
async def a_limited_queue_gives_out_nothing_without_a_share(h: Harness) -> None:
    """Turns and limits go together."""
    await h.run(lambda: limit_queue("default", QueueLimits(concurrency=3, fair_by="tenant"), None))
    await h.put(2, tenant="a")
    assert await claim(h) == []


@CASES
async def retried_and_released_jobs_keep_taking_turns(h: Harness) -> None:
    """Whatever becomes of a job, it is one of its tenant's."""
    await make_fair(h)
    await h.put(2, tenant="a")
    failed, released = await claim(h)
    await h.fail(lease_of(failed))
    await h.release(lease_of(released))
    assert await h.claim() == []
    assert sorted(ids_of(await claim(h))) == sorted([failed.id, released.id])


@CASES
async def continuations_take_turns_where_they_go(h: Harness) -> None:
    """By the queue of the next job, and its tenant, which it may have from the job before."""
    await make_fair(h, "mail")
    (lease,) = await h.put_and_claim(tenant="a")
    there = document(id=new_id(), queue="mail", type_name="next")
    await h.run(lambda: continue_jobs("w1", [Continuation(lease.id, lease.lease_generation, there)]))
    assert [lane.tenant for lane in await tenants(h, queue="mail")] == ["a"]
    lanes = await lanes_of(h, queue="mail")
    (job,) = await h.run(lambda: claim_jobs("w1", lanes, 5, LEASE, most=5))
    back = document(id=new_id(), type_name="next")
    await h.run(lambda: continue_jobs("w1", [Continuation(job.id, job.lease_generation, back)]))
    assert ids_of(await h.claim()) == [back.id]


@CASES
async def replaced_jobs_take_turns_where_they_go(h: Harness) -> None:
    """Everything is from the new call."""
    await make_fair(h, "mail")
    first = await send_one(h, deduplicated(on_conflict="replace", tenant="a"))
    await send_one(h, deduplicated(on_conflict="replace", tenant="a", queue="mail"))
    assert [lane.tenant for lane in await tenants(h, queue="mail")] == ["a"]
    await send_one(h, deduplicated(on_conflict="replace", queue="mail"))
    assert await tenants(h, queue="mail") == []
    assert ids_of(await h.claim(queues=["mail"])) == [first.id]


@CASES
async def partition_keys_hold_within_turns(h: Harness) -> None:
    """Of a key one at a time; those set aside count for their tenant, and come back as its own."""
    await make_fair(h)
    first, second, third = await h.put(3, tenant="a", more=keyed())
    other = await h.put_one(tenant="b")
    claimed = await claim(h, 10, 5)
    assert sorted(ids_of(claimed)) == sorted([first, other])
    assert dict(claimed.left) == ({"a": claimed.aside} if claimed.aside else {})  # or they were held from the start
    assert await claim(h) == []
    for job_id in (first, second):
        (lease,) = [lease_of(job) for job in claimed if job.id == job_id]
        await h.complete(lease)
        claimed = await claim(h)
    assert ids_of(claimed) == [third]
    assert await h.claim() == []


@CASES
async def runs_of_a_key_come_along(h: Harness) -> None:
    """Behind the first one, up to what the claim may bring."""
    await make_fair(h)
    jobs = await h.put(6, tenant="a", more=keyed())
    await h.put(4, tenant="b")
    claimed = await claim(h, 6, 3, run=3)
    assert owners(claimed)["b"] == 3
    assert [job.id for job in claimed if job.tenant == "a"] == jobs[: len(claimed) - 3]


@CASES
async def its_turn_is_told(h: Harness) -> None:
    """How many tenants have something due, and how many jobs of its own one are before it; else nothing."""
    await make_fair(h)
    *_, third = await h.put(3, tenant="a")
    await h.put_one(tenant="a", priority=-1, delay_ms=60_000)
    await h.put_one(tenant="b")
    future = await h.put_one(tenant="c", delay_ms=60_000)
    plain = await h.put_one()

    async def turn(job_id: str) -> object:
        return await h.run(lambda: find_turn(job_id, "default"), read_only=True)

    assert await turn(third) == (2, False, 2, False)
    assert await turn(future) is None
    assert await turn(plain) is None
    await claim(h, 2, 2)
    assert await turn(third) == (2, False, 0, False)
    await h.enqueue(*(document(id=new_id(), tenant=f"a{number}") for number in range(WINDOW)))
    *_, last = await h.put(MOST_AHEAD + 2, tenant="d")
    assert await turn(last) == (WINDOW, True, MOST_AHEAD, True)


@CASES
async def they_are_counted_and_listed(h: Harness) -> None:
    """With all others."""
    await make_fair(h)
    await h.put(2, tenant="a")
    await h.put(3, tenant="b", delay_ms=60_000)
    await h.put(4)
    counts = await h.run(count_jobs, read_only=True)
    assert {count.state: count.jobs for count in counts} == {"ready": 6, "scheduled": 3}
    assert [(lane.queue, lane.is_fair) for lane in await h.run(lambda: find_lanes(["default"]), read_only=True)] == [
        ("default", True),
        ("default", False),
    ]
