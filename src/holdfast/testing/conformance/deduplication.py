"""enqueue_guarded: at most one chain of a type holds a key."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from holdfast.errors import BlockerCycle, DuplicateKey, InvalidInput, InvalidOption
from holdfast.model.call import Extras, JobDocument
from holdfast.model.clock import iso, milliseconds
from holdfast.model.ids import new_id
from holdfast.model.job import Outcome
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.claim_jobs import claim_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.enqueue_guarded import Enqueued, enqueue_guarded
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness, document, refused

CASES = Cases("enqueue_guarded")

SCOPES = ("pending", "unfinished", "forever")
_RACERS = 12


def keyed(
    key: str = "k",
    *,
    scope: str = "unfinished",
    on_conflict: str = "keep",
    window: timedelta | None = None,
    blockers: list[str] | None = None,
    **fields: Any,
) -> JobDocument:
    """A job with a deduplication key."""
    extras = Extras(
        deduplication_key=key,
        deduplication_scope=scope,
        on_conflict=on_conflict,
        window_ms=None if window is None else milliseconds(window),
        blockers=blockers,
    )
    return document(more=extras, **fields)


async def send(h: Harness, *jobs: JobDocument) -> list[Enqueued]:
    return await h.run(lambda: enqueue_guarded(jobs, None))


async def send_one(h: Harness, job: JobDocument) -> Enqueued:
    (result,) = await send(h, job)
    return result


@CASES
async def second_is_kept(h: Harness) -> None:
    """The second call returns the first chain; other keys and other types are not affected."""
    first = await send_one(h, keyed(input={"n": 1}))
    second = await send_one(h, keyed(input={"n": 2}))
    assert (first.outcome, second.outcome, second.id) == (Outcome.CREATED, Outcome.KEPT, first.id)
    assert (await h.job(first.id)).input == {"n": 1}
    others = await send(h, keyed("other"), keyed(type_name="another"))
    assert [other.outcome for other in others] == [Outcome.CREATED] * 2
    assert h.count("job") == 3
    job = await h.job(first.id)
    assert (job.status, job.attempt) == (Status.PENDING, 0)


async def _ends_with_the_chain(h: Harness, how: str) -> None:
    first = await send_one(h, keyed())
    lease = await h.claim_one()
    running = await send_one(h, keyed())
    assert (running.id, running.outcome, running.status) == (first.id, Outcome.KEPT, Status.RUNNING)
    if how == "completed":
        await h.complete(lease)
    else:
        await h.fail(lease, is_final=True)
    after = await send_one(h, keyed())
    assert after.outcome is Outcome.CREATED
    assert after.id != first.id
    assert after.superseded is None


for _how in ("completed", "dead_letter"):
    CASES.add(
        f"unfinished_ends_when_{_how}",
        "A running chain holds its key, an ended one does not.",
        partial(_ends_with_the_chain, how=_how),
    )


@CASES
async def unfinished_holds_through_continuations(h: Harness) -> None:
    """A chain at its second job still holds its key, under the type that started it."""
    first = await send_one(h, keyed())
    lease = await h.claim_one()
    following = document(type_name="next")
    await h.run(lambda: continue_jobs("w1", [Continuation(lease.id, lease.lease_generation, following)]))
    second = await send_one(h, keyed())
    assert (second.id, second.outcome, second.status) == (first.id, Outcome.KEPT, Status.PENDING)
    await h.complete(await h.claim_one())
    assert (await send_one(h, keyed())).outcome is Outcome.CREATED


@CASES
async def pending_ends_at_the_first_claim(h: Harness) -> None:
    """Claimed once, a chain never holds a key of that scope again, not even when it is pending once more."""
    first = await send_one(h, keyed(scope="pending"))
    assert (await send_one(h, keyed(scope="pending"))).outcome is Outcome.KEPT
    lease = await h.claim_one()
    await h.fail(lease)
    assert (await h.job(first.id)).status is Status.PENDING
    second = await send_one(h, keyed(scope="pending"))
    assert second.outcome is Outcome.CREATED
    await h.fail(await h.claim_one())
    assert (await h.job(first.id)).status is Status.PENDING


@CASES
async def forever_outlives_the_job(h: Harness) -> None:
    """The key is held when the chain has ended, and even when it is gone."""
    first = await send_one(h, keyed(scope="forever"))
    await h.complete(await h.claim_one())
    kept = await send_one(h, keyed())
    assert (kept.id, kept.outcome, kept.status) == (first.id, Outcome.KEPT, Status.COMPLETED)
    h.sql("DELETE FROM {job} WHERE id = :id", id=first.id)
    kept = await send_one(h, keyed())
    assert (kept.id, kept.outcome) == (first.id, Outcome.KEPT)
    assert h.count("job") == 0


@CASES
async def window_limits_the_age(h: Harness) -> None:
    """A holder that took the key longer ago than the caller's window gives it up."""
    first = await send_one(h, keyed(window=timedelta(seconds=10)))
    h.clock.advance(9)
    assert (await send_one(h, keyed(window=timedelta(seconds=10)))).id == first.id
    h.clock.advance(2)
    second = await send_one(h, keyed(window=timedelta(seconds=10)))
    assert second.outcome is Outcome.CREATED
    assert (await send_one(h, keyed())).id == second.id


@CASES
async def replace_in_place(h: Harness) -> None:
    """Same id and place; all else from the new call, what it leaves out back at its default; revision + 1."""
    first = await send_one(
        h, keyed(input={"n": 1}, queue="slow", priority=7, max_attempts=9, tenant="t", at=h.now + timedelta(hours=1))
    )
    seq = (await h.job(first.id)).seq
    saved = "INSERT INTO {job_step} (job_id, name, lease_generation, saved_at) VALUES (:id, 'a', 1, :now)"
    h.sql(saved, id=first.id, now=iso(h.now))
    second = await send_one(h, keyed(on_conflict="replace", input={"n": 2}))
    assert (second.id, second.outcome, second.superseded) == (first.id, Outcome.REPLACED, None)
    job = await h.job(first.id)
    assert (job.input, job.queue, job.priority, job.max_attempts, job.tenant) == ({"n": 2}, "default", 0, None, None)
    assert (job.scheduled_at, job.ready_at, job.seq, job.revision) == (h.now, h.now, seq, 1)
    assert (h.count("job"), h.count("job_step")) == (1, 0)


@CASES
async def replace_of_a_retrying_job(h: Harness) -> None:
    """Attempts, crashes and the error are gone; the generation is not."""
    first = await send_one(h, keyed(input={"n": 1}))
    await h.fail(await h.claim_one(), delay=timedelta(hours=1))
    second = await send_one(h, keyed(on_conflict="replace", input={"n": 2}))
    assert (second.id, second.outcome) == (first.id, Outcome.REPLACED)
    job = await h.job(first.id)
    assert (job.attempt, job.crash_count, job.last_attempt_error, job.lease_generation) == (0, 0, None, 1)
    assert (await h.claim_one()).id == first.id


@CASES
async def replace_keep_schedule(h: Harness) -> None:
    """The time stays while the job has not been tried; after that, the new one counts."""
    later = h.now + timedelta(hours=1)
    first = await send_one(h, keyed(at=later))
    await send_one(h, keyed(on_conflict="replace_keep_schedule", input={"n": 2}, at=h.now + timedelta(hours=2)))
    job = await h.job(first.id)
    assert (job.input, job.scheduled_at, job.ready_at) == ({"n": 2}, later, later)
    h.clock.advance(timedelta(hours=1))
    await h.fail(await h.claim_one(), delay=timedelta(minutes=1))
    await send_one(h, keyed(on_conflict="replace_keep_schedule", at=later + timedelta(hours=5)))
    assert (await h.job(first.id)).ready_at == later + timedelta(hours=5)


async def _supersedes(h: Harness, state: str) -> None:
    first = await send_one(h, keyed(input={"n": 1}, scope="forever" if state == "completed" else "unfinished"))
    lease = await h.claim_one()
    if state == "completed":
        await h.complete(lease)
    elif state == "continued":
        following = document(type_name="next", at=h.now + timedelta(hours=1))
        await h.run(lambda: continue_jobs("w1", [Continuation(lease.id, lease.lease_generation, following)]))
    second = await send_one(h, keyed(on_conflict="replace", input={"n": 2}))
    assert (second.outcome, second.superseded) == (Outcome.CREATED, first.id)
    assert (await h.job(first.id)).input == {"n": 1}
    assert (await send_one(h, keyed())).id == second.id
    if state == "running":
        await h.fail(lease)  # the old holder goes on, and takes no key back
        assert (await h.job(first.id)).status is Status.PENDING
        assert (await send_one(h, keyed())).id == second.id


for _state in ("running", "completed", "continued"):
    CASES.add(
        f"replace_supersedes_{_state}",
        "A holder that has started keeps its content and loses the key to a new chain.",
        partial(_supersedes, state=_state),
    )


@CASES
async def replace_takes_new_blockers(h: Harness) -> None:
    """The old ones are forgotten, and what is not blocked any more may run."""
    blocker = await h.put_one()
    first = await send_one(h, keyed(blockers=[blocker]))
    assert first.status is Status.BLOCKED
    second = await send_one(h, keyed(on_conflict="replace"))
    assert (second.id, second.status) == (first.id, Status.PENDING)
    assert h.count("job_blocker") == 0
    third = await send_one(h, keyed(on_conflict="replace", blockers=[blocker]))
    assert (third.id, third.status) == (first.id, Status.BLOCKED)
    assert (await h.job(first.id)).status is Status.BLOCKED


@CASES
async def reject_names_the_holder(h: Harness) -> None:
    """Nothing of the batch is left behind, not even its other keys."""
    first = await send_one(h, keyed())
    error = await refused(DuplicateKey, send(h, keyed("a"), keyed(on_conflict="reject"), document()))
    assert (error.chain_id, error.key, error.type_name) == (first.id, "k", "sum")
    assert first.id in str(error)
    assert (h.count("job"), h.count("deduplication")) == (1, 1)


@CASES
async def reject_within_a_batch(h: Harness) -> None:
    """The first of two equal keys would be the holder that the second meets; nothing is written, so it has no id."""
    for first in ("keep", "replace", "reject"):
        error = await refused(DuplicateKey, send(h, keyed(on_conflict=first), keyed(on_conflict="reject")))
        assert (error.chain_id, "batch" in str(error)) == (None, True)
        assert (h.count("job"), h.count("deduplication")) == (0, 0)


@CASES
async def reject_within_a_batch_names_the_holder(h: Harness) -> None:
    """Where a chain holds the key already, it is that one, unless the first of the batch takes it over."""
    holder = (await send_one(h, keyed())).id
    for first, named in (("keep", holder), ("replace", holder), ("reject", holder)):
        error = await refused(DuplicateKey, send(h, keyed(on_conflict=first), keyed(on_conflict="reject")))
        assert error.chain_id == named
        assert named in str(error)
    await h.claim_one()
    error = await refused(DuplicateKey, send(h, keyed(on_conflict="replace"), keyed(on_conflict="reject")))
    assert error.chain_id is None
    brief = timedelta(seconds=1)
    h.clock.advance(10)
    error = await refused(DuplicateKey, send(h, keyed(window=brief), keyed(on_conflict="reject")))
    assert error.chain_id is None
    assert (h.count("job"), h.count("deduplication")) == (1, 1)
    assert (await h.job(holder)).revision == 0


_NAMES = {"new": ("old", "older")}


async def _send_as(h: Harness, *jobs: JobDocument, known: bool = True) -> list[Enqueued]:
    return await h.run(lambda: enqueue_guarded(jobs, None, aliases=_NAMES if known else None))


async def _renamed(h: Harness, on_conflict: str, expected: Outcome) -> None:
    for number, before in enumerate(("old", "older")):
        key = f"k{number}"
        first = await send_one(h, keyed(key, type_name=before, input={"n": 1}))
        rows = h.count("deduplication")
        (result,) = await _send_as(h, keyed(key, type_name="new", on_conflict=on_conflict, input={"n": 2}))
        assert (result.id, result.outcome) == (first.id, expected)
        assert (await h.job(first.id)).input == ({"n": 2} if expected is Outcome.REPLACED else {"n": 1})
        if expected is Outcome.KEPT:
            assert h.count("deduplication") == rows


for _conflict, _outcome in (
    ("keep", Outcome.KEPT),
    ("replace", Outcome.REPLACED),
    ("replace_keep_schedule", Outcome.REPLACED),
):
    CASES.add(
        f"renamed_type_{_conflict}",
        "A holder that was enqueued under another name of the type is the type's holder.",
        partial(_renamed, on_conflict=_conflict, expected=_outcome),
    )


@CASES
async def renamed_type_reject(h: Harness) -> None:
    """The holder is named, and of the keys that were tried for nothing is left."""
    first = await send_one(h, keyed(type_name="older", scope="forever"))
    batch = [keyed("free", type_name="new"), keyed(type_name="new", on_conflict="reject")]
    error = await refused(DuplicateKey, _send_as(h, *batch))
    assert error.chain_id == first.id
    assert (h.count("job"), h.count("deduplication")) == (1, 1)


@CASES
async def old_code_meets_a_renamed_type(h: Harness) -> None:
    """Whoever knows only the old name, or only the new one, finds what was enqueued by who knows both."""
    (first,) = await _send_as(h, keyed(type_name="new"))
    for name in ("old", "older", "new"):
        (again,) = await _send_as(h, keyed(type_name=name), known=False)
        assert (again.id, again.outcome) == (first.id, Outcome.KEPT)
    await h.complete(await h.claim_one())
    (second,) = await _send_as(h, keyed(type_name="old"), known=False)
    (third,) = await _send_as(h, keyed(type_name="new"))
    assert (second.outcome, third.outcome, third.id) == (Outcome.CREATED, Outcome.KEPT, second.id)


@CASES
async def renamed_type_supersedes(h: Harness) -> None:
    """A holder that runs gives up the key under all names."""
    first = await send_one(h, keyed(type_name="old"))
    await h.claim_one()
    (second,) = await _send_as(h, keyed(type_name="new", on_conflict="replace"))
    assert (second.outcome, second.superseded) == (Outcome.CREATED, first.id)
    for name in ("old", "older", "new"):
        assert (await _send_as(h, keyed(type_name=name), known=False))[0].id == second.id


@CASES
async def race_of_old_and_renamed(h: Harness) -> None:
    """Race: some know the type by its old name only, some by both; one chain is made."""
    stores = h.neighbours(6)
    for number in range(_RACERS):
        key = f"k{number}"
        answers = await asyncio.gather(
            *(
                store.run(partial(enqueue_guarded, [keyed(key, type_name=name)], None, aliases=names))
                for store, (name, names) in zip(stores, (("new", _NAMES), ("old", None)) * 3, strict=True)
            )
        )
        assert len({answer[0].id for answer in answers}) == 1
        assert h.sql("SELECT count(*) FROM {job} WHERE deduplication_key = :key", key=key)[0][0] == 1


@CASES
async def equal_keys_in_a_batch(h: Harness) -> None:
    """They act as if sent one after the other."""
    results = await send(
        h,
        keyed("a", input={"n": 0}),
        keyed("b", input={"n": 1}),
        keyed("a", input={"n": 2}),
        keyed("b", input={"n": 3}, on_conflict="replace"),
        document(input={"n": 4}),
        keyed("b", input={"n": 5}, on_conflict="replace"),
    )
    outcomes = [result.outcome for result in results]
    assert outcomes == ["created", "created", "kept", "replaced", "created", "replaced"]
    a, b, plain = results[0].id, results[1].id, results[4].id
    assert [result.id for result in results] == [a, b, a, b, plain, b]
    assert [(await h.job(job_id)).input for job_id in (a, b, plain)] == [{"n": 0}, {"n": 5}, {"n": 4}]
    assert (await h.job(b)).revision == 2
    assert h.count("job") == 3


@CASES
async def order_of_a_batch(h: Harness) -> None:
    """Jobs are created in the order given, whatever the order of their keys."""
    results = await send(h, *(keyed(key, input={"key": key}) for key in "dacb"))
    claimed = await h.claim()
    assert [job.id for job in claimed] == [result.id for result in results]


async def _one_wins(h: Harness, scope: str) -> None:
    stores = h.neighbours(_RACERS)
    results = await asyncio.gather(
        *(store.run(partial(enqueue_guarded, [keyed(scope=scope)], None)) for store in stores)
    )
    assert len({result.id for (result,) in results}) == 1
    assert [result.outcome for (result,) in results].count(Outcome.CREATED) == 1
    assert h.count("job") == 1


for _scope in SCOPES:
    CASES.add(f"race_{_scope}", "Race: one chain, and everybody gets its id.", partial(_one_wins, scope=_scope))


@CASES
async def race_of_opposite_batches(h: Harness) -> None:
    """Race: batches with the same keys in opposite orders neither fail nor wait for each other."""
    keys = [f"k{number}" for number in range(30)]
    stores = h.neighbours(8)
    for round_ in range(3):
        batches = [[keyed(f"{round_}{key}", on_conflict=("keep", "replace")[n % 2]) for key in keys] for n in range(8)]
        for batch in batches[1::2]:
            batch.reverse()
        await asyncio.gather(
            *(store.run(partial(enqueue_guarded, jobs, None)) for store, jobs in zip(stores, batches, strict=True))
        )
    assert h.count("job") == 3 * len(keys)


@CASES
async def race_of_replace_and_claim(h: Harness) -> None:
    """Race: a request to replace is never lost: the new content runs, in place or as a new chain."""
    (claimer, producer) = h.neighbours(2)
    for number in range(20):
        first = await send_one(h, keyed(input={"n": "old"}))
        lanes = await h.lanes()
        claimed, (second,) = await asyncio.gather(
            claimer.run(partial(claim_jobs, "w1", lanes, 1, timedelta(seconds=60))),
            producer.run(partial(enqueue_guarded, [keyed(on_conflict="replace", input={"n": number})], None)),
        )
        assert (await h.job(second.id)).input == {"n": number}
        if second.id == first.id:
            for job in claimed:
                assert job.id == first.id
                assert job.input in (to_json({"n": number}), to_json({"n": number}).decode())
        else:
            assert second.superseded == first.id
            assert [job.id for job in claimed] == [first.id]
        h.sql("DELETE FROM {job}")


@CASES
async def retry_after_an_ambiguous_commit(h: Harness) -> None:
    """The same documents again change nothing and are reported as before."""
    jobs = [keyed(id=new_id())]
    first = await send(h, *jobs)
    again = await send(h, *jobs)
    assert [result.id for result in again] == [result.id for result in first]
    assert again[0].outcome is Outcome.CREATED
    assert h.count("job") == 1


@CASES
async def refused_cycle_leaves_no_key(h: Harness) -> None:
    """A batch that is refused because a replaced job would wait for itself gives its other keys back."""
    first = await send_one(h, keyed())
    waiting = await send_one(h, keyed("behind", blockers=[first.id]))
    for batch in (
        [keyed("new", scope="forever"), keyed(on_conflict="replace", blockers=[waiting.id])],
        [document(), keyed(on_conflict="replace"), keyed(on_conflict="replace", blockers=[waiting.id])],
    ):
        error = await refused(InvalidInput, send(h, *batch))
        assert isinstance(error, BlockerCycle | InvalidOption)
    assert (h.count("job"), h.count("deduplication")) == (2, 2)


@CASES
async def given_id_that_exists_takes_no_key(h: Harness) -> None:
    """It is kept as it is; an id of another type is refused."""
    job_id = await h.put_one()
    (kept,) = await h.run(lambda: enqueue_guarded([keyed(id=job_id)], None, {job_id}))
    assert (kept.id, kept.outcome) == (job_id, Outcome.KEPT)
    await refused(InvalidOption, h.run(lambda: enqueue_guarded([keyed(id=job_id, type_name="other")], None, {job_id})))
    assert h.count("deduplication") == 0


@CASES
async def cancelled_at_birth(h: Harness) -> None:
    """Behind a dead letter, with the wish to be cancelled then, a job is reported as what it is."""
    (lease,) = await h.put_and_claim()
    await h.fail(lease, is_final=True)
    job = keyed(blockers=[lease.id])
    job.extras.on_blocker_failure = "cancel"
    result = await send_one(h, job)
    assert (result.outcome, result.status) == (Outcome.CREATED, Status.CANCELLED)
    assert (await h.job(result.id)).status is Status.CANCELLED


def _expiring(at: datetime, scope: str, on_conflict: str) -> JobDocument:
    job = keyed(scope=scope, on_conflict=on_conflict)
    job.extras.expires_at = iso(at)
    return job


async def _overdue_holder(h: Harness, scope: str, on_conflict: str) -> None:
    holder = await send_one(h, _expiring(h.now + timedelta(minutes=1), scope, "keep"))
    waiting = await send_one(h, document(more=Extras(blockers=[holder.id], on_blocker_failure="cancel")))
    h.clock.advance(timedelta(minutes=1))
    heir = await send_one(h, keyed(scope=scope, on_conflict=on_conflict))
    if scope == "forever":
        assert (heir.id, heir.outcome) == (holder.id, Outcome.KEPT)
        return
    assert (heir.outcome, heir.superseded, heir.status) == (Outcome.CREATED, None, Status.PENDING)
    job = await h.job(holder.id)
    assert (job.status, job.finished_at) == (Status.CANCELLED, h.now)
    assert job.last_attempt_error is not None
    assert job.last_attempt_error.type == "Expired"
    assert (await h.job(waiting.id)).status is Status.CANCELLED
    assert [claimed.id for claimed in await h.claim()] == [heir.id]


for _scope, _wish in [("unfinished", wish) for wish in ("keep", "reject", "replace")] + [
    ("pending", "keep"),
    ("forever", "keep"),
]:
    CASES.add(
        f"overdue_holder_{_scope}_{_wish}",
        "A holder that was not started in time has given up its key, unless it keeps it for ever.",
        partial(_overdue_holder, scope=_scope, on_conflict=_wish),
    )


@CASES
async def heir_that_waits_for_the_overdue_holder(h: Harness) -> None:
    """The holder is cancelled by this very enqueue, and whoever of the batch waits for it learns that."""
    for policy, status in (("run", Status.PENDING), ("cancel", Status.CANCELLED), (None, Status.BLOCKED)):
        holder = await send_one(h, _expiring(h.now + timedelta(minutes=1), "unfinished", "keep"))
        h.clock.advance(timedelta(minutes=1))
        heir, other = keyed(blockers=[holder.id]), document(more=Extras(blockers=[holder.id]))
        for job in (heir, other):
            job.extras.on_blocker_failure = policy
        results = await send(h, heir, other)
        assert [result.status for result in results] == [status, status]
        assert [(await h.job(result.id)).status for result in results] == [status, status]
        assert (await h.job(holder.id)).status is Status.CANCELLED
        h.sql("DELETE FROM {job_blocker}")
        h.sql("DELETE FROM {deduplication}")
        h.sql("DELETE FROM {job}")


@CASES
async def sent_again_without_its_blockers(h: Harness) -> None:
    """A job that is there needs nothing any more, not even the chains that it waited for."""
    blocker = await send_one(h, document(more=Extras()))
    job = keyed(blockers=[blocker.id])
    await h.run(lambda: enqueue_guarded([job], None, [job.id]))
    h.sql("DELETE FROM {job_blocker}")
    h.sql("DELETE FROM {job} WHERE id = :id", id=blocker.id)
    (result,) = await h.run(lambda: enqueue_guarded([job], None, [job.id]))
    assert (result.id, result.outcome, result.status) == (job.id, Outcome.KEPT, Status.BLOCKED)


@CASES.on_postgres
async def kept_it_waits_for_nobody(h: Harness) -> None:
    """So what it would have waited for is neither held nor marked; nor need it be there."""
    holder = await send_one(h, keyed())
    blocker = await send_one(h, document(more=Extras()))
    assert (await send_one(h, keyed(blockers=[blocker.id]))).id == holder.id
    assert (await send_one(h, keyed(blockers=[new_id()]))).id == holder.id
    assert h.sql("SELECT count(*) FROM {job} WHERE is_awaited")[0][0] == 0


@CASES
async def started_holder_is_not_overdue(h: Harness) -> None:
    """Started in time, it holds its key for as long as it takes; so does one whose retry waits."""
    holder = await send_one(h, _expiring(h.now + timedelta(minutes=1), "unfinished", "keep"))
    lease = await h.claim_one()
    h.clock.advance(timedelta(minutes=1))
    assert (await send_one(h, keyed())).id == holder.id
    await h.fail(lease, delay=timedelta(hours=1))
    assert (await send_one(h, keyed())).id == holder.id
