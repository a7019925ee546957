"""prune_chains: what has ended and had its time goes, whole and once; what somebody needs stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from holdfast.errors import ChainNotFound, HoldfastError, JobNotFound, RowReferenced
from holdfast.model.clock import iso, milliseconds
from holdfast.model.job import Job
from holdfast.model.job_type import CallSignature, JobType
from holdfast.model.operating import PruneCounts
from holdfast.model.payload import PayloadCodec
from holdfast.model.retention import Keep
from holdfast.model.retry import Retry
from holdfast.model.status import Status
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.get_chain import find_chain, get_chain
from holdfast.operations.get_job import get_job
from holdfast.operations.look_at_chains import look_at_chain
from holdfast.operations.prune_chains import (
    PAGE,
    Doomed,
    Place,
    Pruned,
    Walk,
    close_archive,
    prune_chains,
    read_retention,
)
from holdfast.operations.read_blockers import read_blockers, read_children
from holdfast.operations.register_types import register_types
from holdfast.operations.snooze_jobs import Postponement, snooze_jobs
from holdfast.operations.statement import Operation, Rows
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.children import bear, wait_for
from holdfast.testing.conformance.continue_jobs import go_on
from holdfast.testing.conformance.deduplication import keyed
from holdfast.testing.conformance.harness import Harness, lease_of, refused
from holdfast.testing.conformance.people import cancel, dead_letter, retry, send, send_one
from holdfast.testing.conformance.settle_chains import behind

CASES = Cases("prune_chains")

DAY = timedelta(days=1)
_RACES = 20
_TABLES = ("job", "job_step", "job_signal", "job_log", "job_attempt", "job_blocker", "deduplication")


async def prune(
    h: Harness, *, older_than: timedelta | None = None, is_dry: bool = False, walk: Walk | None = None
) -> PruneCounts:
    """A whole walk, as the service and the client do it."""
    retention = replace(await h.run(read_retention, read_only=True), older_than=older_than)
    walk = walk or Walk(retention, is_dry=is_dry)
    while (step := walk.next_step()) is not None:
        try:
            walk.receive(await h.run(step.verb, read_only=step.is_read_only))
        except RowReferenced as error:
            walk.receive(error)
    return walk.counts


async def finished(h: Harness, *, output: str | None = "1", **fields: Any) -> str:
    """A chain of one job that completed just now; nothing else may be due."""
    (lease,) = await h.put_and_claim(**fields)
    await h.complete(lease, output=output)
    return lease.id


async def seen(h: Harness, *ids: str, is_archived: bool = False) -> list[Doomed]:
    """Chains as a walk would find them now."""
    tails = [(await h.run(partial(get_chain, each))).tail for each in ids]
    return [
        Doomed(job.chain_id, job.status.value, job.lease_generation, iso(job.finished_at), is_archived)
        for job in tails
        if job.finished_at is not None
    ]


@contextmanager
def references(h: Harness, kind: str, *ids: str) -> Iterator[None]:
    """Rows of the application that refer to jobs."""
    id_type = "text" if h.dialect == "sqlite" else "uuid"
    h.sql(f"CREATE TABLE conformance_note (job_id {id_type} PRIMARY KEY REFERENCES {{job}} (id) {kind})")
    try:
        for each in ids:
            h.sql("INSERT INTO conformance_note (job_id) SELECT id FROM {job} WHERE id = :id", id=each)
        yield
    finally:
        h.sql("DROP TABLE conformance_note")


def gone(counts: PruneCounts) -> tuple[int, int]:
    return counts.removed, counts.archived


@CASES
async def after_their_time(h: Harness) -> None:
    """By default what completed goes after 7 days, what was cancelled after 30, dead letters after 90."""
    done = await finished(h)
    dropped = await h.put_one()
    await cancel(h, dropped)
    dead = await dead_letter(h)
    waiting = await h.put_one()
    for days, left in ((6, 4), (1, 3), (22, 3), (1, 2), (59, 2), (1, 1)):
        h.clock.advance(days * DAY)
        await prune(h)
        assert h.count("job") == left, f"after {days} more days"
    assert [await h.find(job_id) for job_id in (done, dropped, dead)] == [None, None, None]
    assert (await h.job(waiting)).status is Status.PENDING


@CASES
async def operators_and_types_say_how_long(h: Harness) -> None:
    """A setting for the type wins over one for all, that over the type's own, that over the default."""
    await h.run(lambda: register_types([_kept("mine", Keep(completed=DAY)), _kept("ours", Keep(completed=2 * DAY))]))
    for name in ("mine", "ours", "other", "kept"):
        await finished(h, type_name=name)
    h.set_setting("keep_completed:kept", "forever")
    h.clock.advance(DAY)
    assert gone(await prune(h)) == (1, 0)
    assert _types(h) == {"ours", "other", "kept"}
    h.set_setting("keep_completed:other", 24 * 3600)
    assert gone(await prune(h)) == (1, 0)
    assert _types(h) == {"ours", "kept"}
    h.set_setting("keep_completed", 3600)
    assert gone(await prune(h)) == (1, 0)
    h.clock.advance(1000 * DAY)
    assert gone(await prune(h)) == (0, 0)
    assert _types(h) == {"kept"}


@CASES
async def nothing_is_kept(h: Harness) -> None:
    """With 0, what has ended goes at the next walk."""
    h.set_setting("keep_completed", 0)
    await finished(h)
    assert gone(await prune(h)) == (1, 0)
    assert h.count("job") == 0


@CASES
async def a_chain_goes_as_a_whole(h: Harness) -> None:
    """Not before its last job has ended; then with steps, logs, attempts, blocker rows and keys."""
    blocker = await finished(h)
    chain = await send_one(h, keyed(blockers=[blocker]))
    await h.fail(await h.claim_one())
    await go_on(h, await h.claim_one())
    h.sql(
        "INSERT INTO {job_step} (job_id, name, lease_generation, saved_at) "
        "SELECT id, 'a', 1, created_at FROM {job} WHERE chain_id = :id",
        id=chain,
    )
    h.sql(
        "INSERT INTO {job_log} (job_id, lease_generation, logged_at, level, message) "
        "SELECT id, 1, created_at, 'info', 'm' FROM {job} WHERE chain_id = :id",
        id=chain,
    )
    h.sql(
        "INSERT INTO {job_signal} (chain_id, name, payload, sent_at) "
        "SELECT chain_id, 'n', 'null', created_at FROM {job} WHERE id = :id",
        id=chain,
    )
    h.clock.advance(100 * DAY)
    assert gone(await prune(h, older_than=timedelta())) == (1, 0)  # what it waited for, and has read
    assert (await h.run(lambda: get_chain(chain))).job_count == 2
    await h.complete(await h.claim_one())
    counts = await prune(h, older_than=timedelta())
    assert (counts.removed, counts.jobs) == (1, 2)
    assert [h.count(table) for table in _TABLES] == [0] * len(_TABLES)


@CASES
async def what_unfinished_jobs_need_stays(h: Harness) -> None:
    """While a job waits for it, is pending or runs, and while it might be tried again; once that completed it goes."""
    blocker = await finished(h, output='"paid"')
    waiting = await send_one(h, behind(blocker))

    async def stays(status: Status, older_than: int = 0) -> None:
        assert (await h.job(waiting)).status is status
        counts = await prune(h, older_than=timedelta(seconds=older_than))
        assert (gone(counts), h.count("job")) == ((0, 0), 2)
        h.clock.advance(timedelta(minutes=1))

    await stays(Status.PENDING)
    lease = await h.claim_one()
    await stays(Status.RUNNING)
    await h.fail(lease, is_final=True)
    await stays(Status.DEAD_LETTER, older_than=1)
    h.set_setting("keep_dead_letter", "forever")
    h.clock.advance(400 * DAY)
    counts = await prune(h)
    assert (gone(counts), counts.needed) == ((0, 0), 1)
    await retry(h, waiting)
    lease = await h.claim_one()
    assert [each.output for each in await h.run(lambda: read_blockers(waiting))] == ["paid"]
    await h.complete(lease)
    assert gone(await prune(h)) == (1, 0)
    assert await h.find(blocker) is None


@CASES
async def children_of_unfinished_jobs_stay(h: Harness) -> None:
    """Whoever enqueued a chain by itself may still ask for its output, until it has completed."""
    (parent,) = await h.put_and_claim()
    child = await finished(h, output='"paid"')
    assert await bear(h, parent, child)
    h.clock.advance(100 * DAY)
    assert (await prune(h)).needed == 1
    assert [each.output for each in await h.run(lambda: read_children(parent.id))] == [msgspec.Raw(b'"paid"')]
    await h.complete(parent)
    assert gone(await prune(h)) == (1, 0)


@CASES
async def children_of_those_who_wait_stay(h: Harness) -> None:
    """While their parent is blocked, asleep, due or a dead letter, nothing of them goes, to the archive or for good."""
    h.set_setting("archive", value=True)
    (parent,) = await h.put_and_claim()
    children = await h.put(2)
    assert await bear(h, parent, *children)
    await wait_for(h, parent, *children)
    for status in (Status.BLOCKED, Status.PENDING):
        await h.complete(await h.claim_one(), output='"paid"')
        h.clock.advance(8 * DAY)
        assert (await h.job(parent.id)).status is status
        assert gone(await prune(h)) == (0, 0)
    again = await h.claim_one()
    await h.run(lambda: snooze_jobs([Postponement(again.id, again.lease_generation, milliseconds(365 * DAY))]))
    assert gone(await prune(h)) == (0, 0)
    h.clock.advance(365 * DAY)
    await h.fail(await h.claim_one(), is_final=True)
    assert gone(await prune(h)) == (0, 0)
    found = await h.run(lambda: read_children(parent.id), read_only=True)
    assert [bytes(each.output) for each in found] == [b'"paid"'] * 2


@CASES
async def archived_children_are_told_of(h: Harness) -> None:
    """A job that asked for a child and was given one that others had long before, because of its key."""
    h.set_setting("archive", value=True)
    done, dead = await finished(h, output='{"paid": 1}'), await dead_letter(h)
    h.clock.advance(91 * DAY)
    assert gone(await prune(h)) == (0, 2)
    (parent,) = await h.put_and_claim()
    assert await bear(h, parent, done, dead)
    first, second = await h.run(lambda: read_children(parent.id), read_only=True)
    assert (first.status, bytes(first.output), first.error) == (Status.COMPLETED, b'{"paid": 1}', None)
    assert second.error is not None
    assert (second.status, second.error.message, second.name) == (Status.DEAD_LETTER, "no such order", "parts")


@CASES
async def who_waits_for_a_failure_keeps_it(h: Harness) -> None:
    """A dead letter behind which somebody is blocked stays, however long that takes."""
    dead = await dead_letter(h)
    waiting = await send_one(h, behind(dead))
    h.clock.advance(1000 * DAY)
    assert (await prune(h)).needed == 1
    await retry(h, dead)
    await h.complete(await h.claim_one())
    assert (await h.job(waiting)).status is Status.PENDING


@CASES
async def keys_for_ever_outlive_their_chains(h: Harness) -> None:
    """Others are forgotten with the chain."""
    for key, scope in (("a", "forever"), ("b", "unfinished")):
        await send_one(h, keyed(key, scope=scope))
        await h.complete(await h.claim_one())
    h.clock.advance(8 * DAY)
    assert gone(await prune(h)) == (2, 0)
    assert [row[0] for row in h.sql("SELECT key FROM {deduplication}")] == ["a"]
    (kept,) = await send(h, keyed("a", scope="forever"))
    assert kept.outcome == "kept"


@CASES
async def what_began_anew_stays(h: Harness) -> None:
    """Seen as a dead letter and retried since, even if it is one again: it has not had its time."""
    dead = await dead_letter(h)
    doomed = await seen(h, dead)
    await retry(h, dead)
    assert await h.run(lambda: prune_chains(doomed)) == Pruned()
    await h.fail(await h.claim_one(), is_final=True)
    assert await h.run(lambda: prune_chains(doomed)) == Pruned()
    assert (await h.job(dead)).status is Status.DEAD_LETTER


@CASES
async def what_ended_again_stays(h: Harness) -> None:
    """Cancelled, retried and cancelled: nobody has held it meanwhile, but it ended just now."""
    chain = await h.put_one()
    await cancel(h, chain)
    doomed = await seen(h, chain)
    h.clock.advance(30 * DAY)
    await retry(h, chain)
    await cancel(h, chain)
    assert await h.run(lambda: prune_chains(doomed)) == Pruned()
    assert gone(await prune(h)) == (0, 0)
    assert await h.run(partial(prune_chains, await seen(h, chain))) == Pruned(removed=1, jobs=1)


@CASES
async def to_the_microsecond(h: Harness) -> None:
    """Not before its time, and with the first walk after that: one that comes just before does not pass it by."""
    h.set_setting("keep_completed", 60)
    retention = await h.run(read_retention, read_only=True)
    for odd in (1, 499, 500, 999):
        h.clock.now = h.clock.now.replace(microsecond=odd)
        await finished(h)
        places: dict[timedelta, Place | None] = {}
        h.clock.advance(timedelta(seconds=60, microseconds=-1))
        early = await prune(h, walk=Walk(retention, places))
        assert (early.seen, early.removed) == (0, 0)
        h.clock.advance(timedelta(microseconds=1))
        assert gone(await prune(h, walk=Walk(retention, places))) == (1, 0), odd


@CASES.on_postgres
async def locked_chains_are_passed_by(h: Harness) -> None:
    """One row that somebody has locked holds up nobody, and goes another time."""
    ids = [await finished(h) for _ in range(3)]
    with h.holding("SELECT id FROM {job} WHERE id = :id FOR UPDATE", id=ids[1]):
        counts = await prune(h, older_than=timedelta())
    assert (counts.removed, counts.locked) == (2, 1)
    assert gone(await prune(h, older_than=timedelta())) == (1, 0)


@CASES
async def page_by_page(h: Harness) -> None:
    """Many that ended at the same instant, among which some stay: all others go, and none is looked at twice."""
    many = 2 * PAGE + 50
    leases = await h.put_and_claim(1)
    await h.fail(*leases, is_final=True)
    for _ in range(2):
        await h.put(many // 2)
        claimed = [*await h.claim(PAGE), *await h.claim(PAGE)]
        await h.complete(*(lease_of(each) for each in claimed))
    h.clock.advance(7 * DAY)
    counts = await prune(h)
    assert (counts.seen, counts.removed, h.count("job")) == (many + 1, many, 1)


@CASES
async def goes_on_where_it_was(h: Harness) -> None:
    """What a walk has looked at is not looked at by the next one; from the beginning, it is."""
    h.set_setting("keep_completed:old", 30 * 24 * 3600)
    await finished(h, type_name="old")
    await finished(h)
    h.clock.advance(8 * DAY)
    places: dict[timedelta, Place | None] = {}
    retention = await h.run(read_retention, read_only=True)
    first = await prune(h, walk=Walk(retention, places))
    assert (first.seen, first.removed) == (2, 1)
    await finished(h)
    h.clock.advance(8 * DAY)
    again = await prune(h, walk=Walk(retention, places))
    assert (again.seen, again.removed) == (1, 1)
    assert (await prune(h)).seen == 1
    h.clock.advance(30 * DAY)
    late = await prune(h, walk=Walk(retention, places))
    assert (late.removed, h.count("job")) == (1, 0)


@CASES
async def a_dry_walk_only_counts(h: Harness) -> None:
    """What would go, and what would stay because it is needed."""
    blocker = await finished(h)
    await send_one(h, behind(blocker))
    await h.claim()
    h.set_setting("archive:sum", value=True)
    await h.put(1, type_name="other", queue="q")
    await h.complete(*[lease_of(each) for each in await h.claim(queues=["q"])])
    await h.put(2, queue="q")
    await h.complete(*[lease_of(each) for each in await h.claim(queues=["q"])])
    h.clock.advance(8 * DAY)
    counts = await prune(h, is_dry=True)
    assert (counts.removed, counts.archived, counts.needed, counts.jobs) == (1, 2, 1, 0)
    assert (h.count("job"), h.count("job_archive")) == (5, 0)


@CASES
async def archived_chains_are_still_served(h: Harness) -> None:
    """Each job and the chain as they were; waiting for it, blockers that read it, and new ones."""
    (lease,) = await h.put_and_claim(input={"n": 1}, tenant="acme", headers=None)
    await go_on(h, lease)
    await h.complete(await h.claim_one(), output='{"paid": 9.5}')
    jobs = [await h.job(row[0]) for row in _ids(h)]
    chain, sight = await h.run(lambda: get_chain(lease.id)), await h.run(lambda: look_at_chain(lease.id))
    h.set_setting("archive", value=True)
    h.clock.advance(8 * DAY)
    counts = await prune(h)
    assert (gone(counts), counts.jobs) == ((0, 1), 2)
    assert (h.count("job"), h.count("job_archive")) == (0, 2)
    assert [_shown(await h.job(job.id)) for job in jobs] == [_shown(job) for job in jobs]
    archived = await h.run(lambda: get_chain(lease.id))
    assert (archived.status, archived.output, archived.job_count) == (chain.status, chain.output, chain.job_count)
    assert (archived.created_at, archived.finished_at) == (chain.created_at, chain.finished_at)
    assert await h.run(lambda: look_at_chain(lease.id)) == sight
    waiting = await send_one(h, behind(lease.id))
    assert (await h.job(waiting)).status is Status.PENDING
    (blocker,) = await h.run(lambda: read_blockers(waiting))
    assert (blocker.status, blocker.output) == (Status.COMPLETED, {"paid": 9.5})


@CASES
async def archived_failures_are_told_of(h: Harness) -> None:
    """A dead letter in the archive has its error; who asked to run in spite of it does."""
    dead = await dead_letter(h)
    h.set_setting("archive", value=True)
    h.clock.advance(91 * DAY)
    assert gone(await prune(h)) == (0, 1)
    waiting = await send_one(h, behind(dead, on_failure="run"))
    assert (await h.job(waiting)).status is Status.PENDING
    (blocker,) = await h.run(lambda: read_blockers(waiting))
    assert blocker.error is not None
    assert (blocker.status, blocker.error.message) == (Status.DEAD_LETTER, "no such order")


@CASES
async def archiving_and_deleting_are_one(h: Harness) -> None:
    """Cut off anywhere in between, the chain is where it was, and nothing of it anywhere else."""
    (lease,) = await h.put_and_claim()
    await go_on(h, lease)
    await h.complete(await h.claim_one())
    doomed = await seen(h, lease.id, is_archived=True)
    await _open(h)
    for name in ("archive_chains", "delete_chains"):
        await refused(_Cut, h.run(partial(_cut_after, name, partial(prune_chains, doomed))))
        assert (h.count("job"), h.count("job_archive")) == (2, 0)
        assert (await h.job(lease.id)).status is Status.COMPLETED
    assert await h.run(lambda: prune_chains(doomed)) == Pruned(archived=1, jobs=2)
    assert (h.count("job"), h.count("job_archive")) == (0, 2)


@CASES
async def the_archive_is_kept_for_its_time(h: Harness) -> None:
    """For a year, if nobody says otherwise; PostgreSQL drops whole weeks of it."""
    h.set_setting("archive", value=True)
    first = await finished(h)
    h.clock.advance(8 * DAY)
    await prune(h)
    h.clock.advance(180 * DAY)
    second = await finished(h)
    h.clock.advance(8 * DAY)
    await prune(h)
    assert h.count("job_archive") == 2
    h.clock.advance(185 * DAY)
    counts = await prune(h)
    assert counts.closed == 1 if h.dialect == "sqlite" else counts.closed >= 1
    assert await h.run(lambda: find_chain(first)) is None
    await refused(JobNotFound, h.run(lambda: get_job(first)))
    assert (await h.job(second)).status is Status.COMPLETED
    h.set_setting("keep_archive", 24 * 3600)
    h.clock.advance(14 * DAY)
    await prune(h)
    assert h.count("job_archive") == 0


@CASES
async def what_is_needed_stays_in_the_archive(h: Harness) -> None:
    """Whoever found its blocker or child there reads it until it has completed, however long that takes."""
    h.set_setting("archive", value=True)
    (lease,) = await h.put_and_claim()
    await go_on(h, lease)
    await h.complete(await h.claim_one(), output='"paid"')
    child, other = await finished(h, output="7"), await finished(h)
    h.clock.advance(8 * DAY)
    assert gone(await prune(h)) == (0, 3)
    waiting = await send_one(h, behind(lease.id))
    parent = await h.claim_one()
    assert await bear(h, parent, child)
    for _ in range(2):
        h.clock.advance(380 * DAY)
        await prune(h)
        assert h.count("job_archive") == 3
        assert [each.output for each in await h.run(lambda: read_blockers(waiting))] == ["paid"]
        (found,) = await h.run(lambda: read_children(waiting))
        assert (found.status, bytes(found.output)) == (Status.COMPLETED, b"7")
        assert (await h.run(lambda: get_chain(lease.id))).job_count == 2
        assert await h.run(lambda: find_chain(other)) is None
    await h.complete(parent)
    h.clock.advance(380 * DAY)
    await prune(h)
    assert await h.run(lambda: find_chain(lease.id)) is None


@CASES
async def rows_of_the_application_keep_their_jobs(h: Harness) -> None:
    """A violated foreign key isolates that chain, is counted, and pruning goes on; with the row gone it goes too."""
    for kind in ("", "ON DELETE RESTRICT", "DEFERRABLE INITIALLY DEFERRED"):
        ids = [await finished(h) for _ in range(5)]
        with references(h, kind, *ids[2:4]):
            h.clock.advance(8 * DAY)
            counts = await prune(h)
            assert (counts.removed, counts.referenced) == (3, 2), kind
            assert [str(row[0]) for row in _ids(h)] == ids[2:4]
            h.sql("DELETE FROM conformance_note")
            assert gone(await prune(h)) == (2, 0)


@CASES
async def whoever_comes_to_wait_meanwhile(h: Harness) -> None:
    """Race: a job is put behind a chain that is being removed; it is refused, or it finds what it waited for."""
    (other,) = h.neighbours(1)
    for _ in range(_RACES):
        chain = await finished(h, output='"paid"')
        doomed = await seen(h, chain)
        job = behind(chain)
        enqueued, _ = await asyncio.gather(
            h.run(partial(enqueue_guarded, [job], None)),
            other.run(partial(prune_chains, doomed)),
            return_exceptions=True,
        )
        if isinstance(enqueued, BaseException):
            assert isinstance(enqueued, ChainNotFound), enqueued
            assert await h.find(chain) is None
        else:
            lease = await h.claim_one()
            assert [each.output for each in await h.run(partial(read_blockers, job.id))] == ["paid"]
            await h.complete(lease)


@CASES
async def whoever_comes_to_need_what_is_archived(h: Harness) -> None:
    """Race: a job is put behind a chain that is dropped from the archive; it is refused, or reads it for ever."""
    (other,) = h.neighbours(1)
    h.set_setting("archive", value=True)
    for _ in range(_RACES // 2):
        chain = await finished(h, output='"paid"')
        h.clock.advance(8 * DAY)
        assert (await prune(h)).archived >= 1
        h.clock.advance(15 * DAY)
        job = behind(chain)
        enqueued, closed = await asyncio.gather(
            h.run(partial(enqueue_guarded, [job], None)),
            other.run(partial(close_archive, DAY)),
            return_exceptions=True,
        )
        assert isinstance(closed, int), closed
        if isinstance(enqueued, BaseException):
            assert isinstance(enqueued, ChainNotFound), enqueued
            assert await h.run(partial(find_chain, chain)) is None
        else:
            h.clock.advance(15 * DAY)
            await h.run(partial(close_archive, DAY))
            lease = await h.claim_one()
            assert [each.output for each in await h.run(partial(read_blockers, job.id))] == ["paid"]
            await h.complete(lease)


class _Cut(HoldfastError):
    """The connection is lost, or the process dies."""


def _cut_after(name: str, verb: Callable[[], Operation[Any]]) -> Operation[Any]:
    """The verb as far as the statement of that name, which is sent."""
    operation = verb()
    rows: Rows | None = None
    while True:
        statement = next(operation) if rows is None else operation.send(rows)
        rows = yield statement
        if statement.name == name:
            raise _Cut


async def _open(h: Harness) -> None:
    """A walk with nothing to remove makes room in the archive."""
    h.set_setting("archive", value=True)
    await prune(h)


def _kept(name: str, keep: Keep) -> JobType:
    signature = CallSignature(name, lambda: None, (), 1000)
    return JobType(name, "default", 0, Retry(), None, signature, PayloadCodec(name, None), keep=keep)


def _types(h: Harness) -> set[str]:
    return {row[0] for row in h.sql("SELECT type_name FROM {job}")}


def _ids(h: Harness) -> list[tuple[str]]:
    return [(str(row[0]),) for row in h.sql("SELECT id FROM {job} ORDER BY seq")]


def _shown(job: Job) -> dict[str, Any]:
    return msgspec.structs.asdict(job)
