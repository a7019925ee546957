"""sweep_blockers: a cycle that was closed by a race is found, and one of its jobs ended."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from holdfast.model.ids import new_id
from holdfast.model.status import Status
from holdfast.operations.cycles import Broken, Wait, break_cycle, find_cycles
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.sweep_blockers import sweep_blockers
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness
from holdfast.testing.conformance.people import cancel, column, outcomes, retry, send_one
from holdfast.testing.conformance.settle_chains import behind

CASES = Cases("sweep_blockers")


async def put_circle(h: Harness, length: int, on_failure: str | None = None) -> list[str]:
    """Chains of which each waits for the one before, and the first for the last, as only a race can leave them."""
    ids = [await send_one(h, behind(await h.put_one(queue="elsewhere"), on_failure=on_failure))]
    for _ in range(length - 1):
        ids.append(await send_one(h, behind(ids[-1], on_failure=on_failure)))
    h.sql("UPDATE {job_blocker} SET blocked_by_chain_id = :last WHERE job_id = :first", last=ids[-1], first=ids[0])
    return ids


async def sweep(h: Harness, limit: int = 10_000) -> list[Broken]:
    """As the worker does it."""
    swept = await h.run(lambda: sweep_blockers(None))
    cycles: Sequence[Sequence[Wait]] = await h.run(lambda: find_cycles(swept.waits, limit), read_only=True)
    return [await h.run(partial(break_cycle, cycle)) for cycle in cycles]


async def _statuses(h: Harness, ids: Sequence[str]) -> list[Status]:
    return [(await h.job(each)).status for each in ids]


async def _broken(h: Harness, length: int) -> None:
    ids = await put_circle(h, length)
    outside = await send_one(h, behind(ids[0]))
    (broken,) = await sweep(h)
    assert (broken.job_id, broken.woken) == (max(ids), set())
    job = await h.job(max(ids))
    assert (job.status, job.finished_at, job.attempt) == (Status.DEAD_LETTER, h.now, 0)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "BlockerCycle"
    assert all(each in job.last_attempt_error.message for each in ids)
    others = [each for each in ids if each != max(ids)]
    assert set(await _statuses(h, [*others, outside])) == {Status.BLOCKED}
    assert await sweep(h) == []
    assert outcomes(await retry(h, max(ids))) == ["blocker_cycle"]


for _length in (2, 3, 7):
    CASES.add(
        f"cycle_of_{_length}",
        "One job of it is a dead letter that says why; what waits for it does so as its policy says.",
        partial(_broken, length=_length),
    )


@CASES
async def policies_are_followed(h: Harness) -> None:
    """What runs when its blocker fails runs after the cycle was broken; what is cancelled by that is."""
    runs = await put_circle(h, 3, "run")
    (broken,) = await sweep(h)
    assert (broken.job_id, broken.woken) == (max(runs), {"default"})
    assert sorted(await _statuses(h, runs)) == [Status.BLOCKED, Status.DEAD_LETTER, Status.PENDING]
    cancelled = await put_circle(h, 3, "cancel")
    await sweep(h)
    assert sorted(await _statuses(h, cancelled)) == [Status.CANCELLED, Status.CANCELLED, Status.DEAD_LETTER]


@CASES
async def two_cycles(h: Harness) -> None:
    """Each is found, also one among many that only wait."""
    line = [await h.put_one()]
    for _ in range(5):
        line.append(await send_one(h, behind(line[-1])))
    one, two = await put_circle(h, 2), await put_circle(h, 3)
    assert {broken.job_id for broken in await sweep(h)} == {max(one), max(two)}
    assert set(await _statuses(h, line[1:])) == {Status.BLOCKED}


@CASES
async def no_cycle_no_harm(h: Harness) -> None:
    """Lines, diamonds, and what was cancelled in a circle, are left alone."""
    top = await h.put_one()
    left, right = await send_one(h, behind(top)), await send_one(h, behind(top))
    bottom = await send_one(h, behind(left, right, top))
    await send_one(h, behind(bottom, left))
    circle = await put_circle(h, 3)
    await cancel(h, circle[1])
    assert await sweep(h) == []
    assert h.sql("SELECT count(*) FROM {job} WHERE status = 'dead_letter'")[0][0] == 0


@CASES
async def cycle_that_was_opened_meanwhile(h: Harness) -> None:
    """Between the look and the act somebody cancelled one of them, or let it wait for another: nothing is ended."""
    ids = await put_circle(h, 3)
    swept = await h.run(lambda: sweep_blockers(None))
    (cycle,) = await h.run(lambda: find_cycles(swept.waits, 100), read_only=True)
    other = await h.put_one(queue="elsewhere")
    h.sql("UPDATE {job_blocker} SET blocked_by_chain_id = :other WHERE job_id = :job", other=other, job=min(ids))
    assert (await h.run(lambda: break_cycle(cycle))).job_id is None
    await cancel(h, min(ids))
    assert (await h.run(lambda: break_cycle(cycle))).job_id is None
    assert Status.DEAD_LETTER not in await _statuses(h, ids)


@CASES
async def walk_is_bounded(h: Harness) -> None:
    """A cycle that lies farther than the walk goes is not seen, and the walk says nothing wrong."""
    await put_circle(h, 30)
    far = Wait(new_id(), new_id(), (await h.run(lambda: sweep_blockers(None))).waits[0].chain_id)
    assert await h.run(lambda: find_cycles([far], 10), read_only=True) == []
    assert len(await h.run(lambda: find_cycles([far], 100), read_only=True)) == 1


@CASES
async def key_is_free_again(h: Harness) -> None:
    """The chain has ended, so its key is nobody's."""
    ids = await put_circle(h, 2)
    h.sql(
        "UPDATE {job} SET deduplication_key = 'k', deduplication_scope = 'unfinished' WHERE id = :id",
        id=max(ids),
    )
    await sweep(h)
    assert column(h, "deduplication_key", max(ids)) == "k"
    document = behind(min(ids))
    document.extras.deduplication_key, document.extras.deduplication_scope = "k", "unfinished"
    (result,) = await h.run(lambda: enqueue_guarded([document], None))
    assert result.id == document.id


async def locked_cycle_is_left_for_later(h: Harness) -> None:
    """Somebody has one of its jobs locked: he is not waited for."""
    ids = await put_circle(h, 3)
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=min(ids)):
        assert [broken.job_id for broken in await sweep(h)] == [None]
    assert [broken.job_id for broken in await sweep(h)] == [max(ids)]


CASES.on_postgres(locked_cycle_is_left_for_later)
