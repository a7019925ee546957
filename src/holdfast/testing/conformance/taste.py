"""taste: what a worker leaves to others, by flags and by the buckets of partition keys."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from holdfast.model.call import Extras
from holdfast.model.ring import BUCKETS, bucket_of
from holdfast.model.taste import taste
from holdfast.operations.claim_jobs import Claim, claim_jobs, claim_suspect, find_lanes
from holdfast.operations.lease import Lease
from holdfast.operations.sweep_keys import find_stranded, free_keys
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import LEASE, Harness, ids_of, lease_of
from holdfast.testing.conformance.partition_keys import keyed, put_keyed
from holdfast.testing.conformance.people import delete

CASES = Cases("taste")


async def claim(h: Harness, wanted: str | None, *queues: str, run: int = 0) -> Claim:
    lanes = await h.lanes(*queues)
    return await h.run(lambda: claim_jobs("w1", lanes, 100, LEASE, run=run, taste=wanted))


def flagged(*flags: str) -> Extras:
    return Extras(flags=list(flags))


@CASES
async def forbidden_flags_are_left(h: Harness) -> None:
    """One is enough; jobs without flags, and with others, are taken."""
    plain = await h.put_one()
    await h.put_one(more=flagged("gpu"))
    await h.put_one(more=flagged("big", "gpu"))
    other = await h.put_one(more=flagged("big"))
    assert ids_of(await claim(h, taste(["gpu", "rare"]))) == [plain, other]
    assert len(await claim(h, None)) == 2


@CASES
async def flags_are_shown(h: Harness) -> None:
    """With the job."""
    job_id = await h.put_one(more=flagged("big", "gpu"))
    assert (await h.job(job_id)).flags == ["big", "gpu"]


@CASES
async def lanes_without_anything_to_take_are_not_found(h: Harness) -> None:
    """So that a worker neither spins on them nor starts its next claim there."""
    await h.put_one(more=flagged("gpu"))
    assert await h.run(lambda: find_lanes(["default"], taste(["gpu"])), read_only=True) == []
    assert len(await h.run(lambda: find_lanes(["default"], taste(["big"])), read_only=True)) == 1
    await h.put_one()
    (lane,) = await h.run(lambda: find_lanes(["default"], taste(["gpu"])), read_only=True)
    assert lane.due_in_ms == 0


@CASES
async def suspects_are_left_too(h: Harness) -> None:
    """The same for jobs whose worker died."""
    job_id = await h.put_one(more=flagged("gpu"))
    h.sql("UPDATE {job} SET crash_count = 1 WHERE id = :id", id=job_id)
    assert await h.run(lambda: claim_suspect("w1", ["default"], LEASE, taste(["gpu"]))) == []
    assert ids_of(await h.run(lambda: claim_suspect("w1", ["default"], LEASE, taste(["big"])))) == [job_id]


@CASES
async def a_forbidden_one_holds_up_its_key(h: Harness) -> None:
    """Order goes before: those behind it wait until somebody takes it; serial ones do not."""
    first = await h.put_one(more=keyed(flags=["gpu"]))
    (second,) = await put_keyed(h)
    assert await claim(h, taste(["gpu"])) == []
    (job,) = await claim(h, None)
    assert job.id == first
    await h.complete(lease_of(job))
    assert ids_of(await claim(h, taste(["gpu"]))) == [second]
    await h.put_one(more=keyed("s", ordering="serial", flags=["gpu"]))
    (passing,) = await put_keyed(h, key="s", ordering="serial")
    assert ids_of(await claim(h, taste(["gpu"]))) == [passing]


@CASES
async def serial_ones_do_not_wait_for_what_nobody_here_takes(h: Harness) -> None:
    """Forbidden, or expired: in front of them stands the first of those that this worker may start."""
    await h.put_one(more=keyed("flag", flags=["gpu"]))
    (behind_flag,) = await put_keyed(h, key="flag", ordering="serial")
    assert ids_of(await claim(h, taste(["gpu"]))) == [behind_flag]
    late = await h.put_one(more=keyed("late"))
    (behind_late,) = await put_keyed(h, key="late", ordering="serial")
    h.sql("UPDATE {job} SET expires_at = created_at WHERE id = :id", id=late)
    assert ids_of(await claim(h, None)) == [behind_late]


@CASES
async def what_nobody_here_takes_hides_no_serial_one(h: Harness) -> None:
    """Both wait for a running one; whoever puts the forbidden one back puts back the first without flags too."""
    endings: dict[str, Callable[[Lease], Awaitable[object]]] = {
        "completed": h.complete,
        "dead": partial(h.fail, is_final=True),
        "deleted": lambda lease: delete(h, lease.id),
    }
    for key, end in endings.items():
        (first,) = await put_keyed(h, key=key, ordering="serial")
        (lease,) = [lease_of(job) for job in await h.claim()]
        for _ in range(2):
            await h.put_one(more=keyed(key, ordering="serial", flags=["gpu"]), priority=-1)
        free = await put_keyed(h, 2, key, ordering="serial")
        assert lease.id == first
        assert await h.claim() == []
        assert [(await h.job(job_id)).held for job_id in free] == [True, True]
        await end(lease)
        (job,) = await claim(h, taste(["gpu"]))
        assert job.id == free[0]
        await h.complete(lease_of(job))
        (job,) = await claim(h, taste(["gpu"]))
        assert job.id == free[1]
        await h.complete(lease_of(job))
        for _ in range(2):
            await h.complete(lease_of((await h.claim())[0]))


@CASES
async def the_sweep_sees_past_what_nobody_here_takes(h: Harness) -> None:
    """What is in front stands there for others; a serial one without flags has nobody who would put it back."""
    gpu = await h.put_one(more=keyed(ordering="serial", flags=["gpu"]), priority=-1)
    await h.put_one(more=keyed(ordering="serial", flags=["gpu"]))
    (late,) = await put_keyed(h, ordering="serial", delay_ms=60_000)
    (free,) = await put_keyed(h, ordering="serial")
    h.sql("UPDATE {job} SET held = true WHERE id <> :id", id=gpu)

    async def stranded() -> list[tuple[str, str]]:
        return (await h.run(lambda: find_stranded(None), read_only=True)).stranded

    assert await claim(h, taste(["gpu"])) == []
    assert await stranded() == [("default", "k")]
    assert await h.run(lambda: free_keys([("default", "k")])) == {"default"}
    assert await stranded() == []
    assert (await h.job(late)).held
    assert ids_of(await claim(h, taste(["gpu"]))) == [free]
    assert await stranded() == []


@CASES
async def the_sweep_leaves_what_waits_for_one_that_anybody_takes(h: Harness) -> None:
    """It is the first of the key, or a serial one: without flags."""
    for key, ordering in (("f", "fifo"), ("s", "serial")):
        await h.put_one(more=keyed(key, ordering=ordering))
        await h.put_one(more=keyed(key, ordering="serial", flags=["gpu"]), priority=-1)
        (held,) = await put_keyed(h, key=key, ordering="serial")
        h.sql("UPDATE {job} SET held = true WHERE id = :id", id=held)
    assert (await h.run(lambda: find_stranded(None), read_only=True)).stranded == []


@CASES
async def runs_end_before_a_forbidden_one(h: Harness) -> None:
    """It is not taken along behind another."""
    first, second = await put_keyed(h, 2)
    await h.put_one(more=keyed(flags=["gpu"]))
    assert sorted(ids_of(await claim(h, taste(["gpu"]), run=100))) == sorted([first, second])


@CASES
async def keys_of_others_are_left(h: Harness) -> None:
    """By the bucket; jobs without a key are anybody's, and a queue that nobody shares out is all mine."""
    mine, theirs = "order:1", "order:2"
    assert bucket_of(mine) != bucket_of(theirs)
    wanted = taste(owned={"default": {bucket_of(mine)}})
    (own,) = await put_keyed(h, key=mine)
    (left,) = await put_keyed(h, key=theirs)
    plain = await h.put_one()
    elsewhere = await h.put_one(queue="mail", more=keyed(theirs))
    assert sorted(ids_of(await claim(h, wanted, "default", "mail"))) == sorted([own, plain, elsewhere])
    (lane,) = await h.run(
        lambda: find_lanes(["default"], taste(owned={"default": {bucket_of(theirs)}})), read_only=True
    )
    assert lane.due_in_ms == 0
    assert await h.run(lambda: find_lanes(["default"], wanted), read_only=True) == []
    rest = set(range(BUCKETS)) - {bucket_of(mine)}
    assert ids_of(await claim(h, taste(owned={"default": rest}))) == [left]


@CASES
async def what_was_due_for_ten_seconds_is_anybodys(h: Harness) -> None:
    """Its owner may be wedged."""
    (job_id,) = await put_keyed(h)
    nothing = taste(owned={"default": set()})
    assert await claim(h, nothing) == []
    h.clock.advance(9)
    assert await claim(h, nothing) == []
    h.clock.advance(1)
    assert ids_of(await claim(h, nothing)) == [job_id]
