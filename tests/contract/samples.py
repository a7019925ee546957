"""One statement per verb, as its operation sends it, for batches of any size."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Raw, structs

from holdfast.model.call import Extras, JobDocument
from holdfast.model.job import JobError
from holdfast.model.job_filter import JobFilter
from holdfast.model.job_type import CallSignature, JobType
from holdfast.model.payload import PayloadCodec
from holdfast.model.retry import Retry
from holdfast.model.scan_position import Lane
from holdfast.operations.alike_jobs import AlikeJobs
from holdfast.operations.blockers import hold_blockers
from holdfast.operations.check_origin import check_origin
from holdfast.operations.claim_jobs import claim_jobs, claim_suspect, find_lanes, find_tenants
from holdfast.operations.complete_jobs import Completion, complete_jobs
from holdfast.operations.continue_jobs import Continuation, continue_jobs
from holdfast.operations.copied_lines import MANY
from holdfast.operations.enqueue_guarded import enqueue_guarded
from holdfast.operations.enqueue_jobs import enqueue_jobs, find_given, insert_alike, insert_jobs
from holdfast.operations.fail_jobs import Failure, fail_jobs
from holdfast.operations.find_ahead import find_ahead
from holdfast.operations.find_turn import find_turn
from holdfast.operations.get_chain import get_chain
from holdfast.operations.get_job import get_job, list_attempts
from holdfast.operations.identify_database import identify_database
from holdfast.operations.lease import Lease
from holdfast.operations.list_chains import list_chains
from holdfast.operations.list_jobs import list_blocked_jobs, list_jobs
from holdfast.operations.migrate import Functions, Migration, migrate
from holdfast.operations.notify_work import notify_work
from holdfast.operations.reap_jobs import Reapable, reap_jobs
from holdfast.operations.register_types import register_types
from holdfast.operations.release_jobs import release_jobs, release_orphans
from holdfast.operations.renew_leases import renew_leases
from holdfast.operations.settle_chains import settle_chains
from holdfast.operations.statement import Bulk, Operation, Rows, Statement
from holdfast.operations.sweep_blockers import sweep_blockers
from holdfast.operations.sweep_keys import find_stranded, free_keys
from holdfast.operations.sweep_limits import Room, find_limited, forget_limits, free_limits
from holdfast.operations.take_turn import find_starved, in_turn
from holdfast.operations.take_write_lock import take_write_lock
from holdfast.operations.worker_life import (
    WorkerIdentity,
    forget_workers,
    heard_steadily,
    heartbeat,
    register_worker,
    retire_worker,
)
from tests.contract.backlog import (
    FAIR,
    FIRST_FINISHED,
    GIANT,
    GONE,
    LIVING,
    PRIORITIES,
    QUEUES,
    RUNNING,
    UNUSED,
    PostgresFill,
    job_id,
)
from tests.contract.control_samples import CONTROL_SAMPLES
from tests.contract.retention_samples import RETENTION_SAMPLES
from tests.contract.schedule_samples import SCHEDULE_SAMPLES
from tests.contract.waiting_samples import WAITING_SAMPLES
from tests.contract.worker_samples import WORKER_SAMPLES

_LEASE = timedelta(seconds=60)
_LAST_OF_GIANT = job_id(PostgresFill("job").last_fair // 2 * 2)
_WORKER = "sampler"
_IDENTITY = WorkerIdentity(id=_WORKER, version="0.1.0", queues=QUEUES)
_NOW = datetime.now(UTC)
_EVERY_FIELD = JobFilter(
    ids=job_id(1), chain_ids=job_id(1), status="completed", type_name="x", chain_type_name="x", queue="x", tenant="x",
    partition_key="x", since=_NOW, until=_NOW,
)  # fmt: skip
_EVERY_CHAIN_FIELD = dataclasses.replace(_EVERY_FIELD, ids=None)


def sample(dialect: str, verb: str, size: int = 1) -> Statement:
    """The verb's statement for a batch of `size`; ` again` after its name means a batch that was sent before."""
    if verb.endswith(" again"):
        return _AGAIN[verb](size)
    if verb == "claim_jobs by turns":
        return _claim_by_turns(dialect, size)[0]
    return next(statement for statement in _BY_VERB[verb](dialect, size) if statement.name == verb)


def sampled_verbs() -> set[str]:
    return set(_BY_VERB)


def _held(size: int) -> list[str]:
    return [job_id(n) for n in range(1, size + 1)]


def _finished(size: int) -> list[str]:
    return [job_id(FIRST_FINISHED + n) for n in range(size)]


def _beginning(dialect: str) -> Any:
    return 0 if dialect == "postgres" else ""


def _leases(ids: Iterable[str]) -> list[Lease]:
    return [Lease(id_, 1) for id_ in ids]


def _claim(dialect: str, size: int) -> list[Statement]:
    beginning = _beginning(dialect)
    lanes = [Lane(queue, priority, beginning, 0) for priority in PRIORITIES for queue in QUEUES]
    return _sent(claim_jobs(_WORKER, lanes, size, _LEASE, prefetch=True, start=beginning))


def _claim_plain(size: int) -> list[Statement]:
    lanes = [Lane(queue, priority, 0, 0) for priority in PRIORITIES for queue in QUEUES]
    return _sent(claim_jobs(_WORKER, lanes, size, _LEASE, prefetch=True, start=0, plain=True))


def _claim_by_turns(dialect: str, size: int) -> list[Statement]:
    """The tenant with the most, some that have little, and one that has nothing."""
    names = [GIANT, *(f"tenant {number}" for number in range(1, 30)), "nobody"]
    lanes = [Lane(FAIR, 0, _beginning(dialect), 0, name) for name in names]
    return _sent(claim_jobs(_WORKER, lanes, size, _LEASE, most=math.ceil(size / 4)))


def _complete(ids: Iterable[str]) -> list[Statement]:
    return _sent(complete_jobs(_WORKER, [Completion(id_, 1, "1") for id_ in ids]))


def _enqueue(ids: list[str], channel: str | None = None) -> list[Statement]:
    documents = [JobDocument(id_, "report", Raw(b'{"order_id":1}'), "default") for id_ in ids]
    return _sent(enqueue_jobs(documents, channel, given_ids=ids))


def _insert(ids: list[str]) -> list[Statement]:
    documents = [JobDocument(id_, "report", Raw(b'{"order_id":1}'), "default") for id_ in ids]
    return _sent(insert_jobs(documents, "holdfast_work"))


def _insert_bulk(ids: list[str], bulk: Bulk) -> list[Statement]:
    documents = [JobDocument(id_, "report", Raw(b'{"order_id":1}'), "default") for id_ in ids]
    return _sent(insert_jobs(documents, None, bulk))


def _insert_alike(ids: list[str]) -> list[Statement]:
    shared = JobDocument("", "report", Raw(b""), "default")
    return _sent(insert_alike(AlikeJobs(ids, [b'{"order_id":1}'] * len(ids), shared), None, Bulk.ROWS))


def _fail(ids: Iterable[str]) -> list[Statement]:
    error = JobError("ValueError", "no")
    return _sent(fail_jobs(_WORKER, [Failure(id_, 1, error, 1000, is_final=False, max_attempts=5) for id_ in ids]))


def _pending() -> list[Statement]:
    return _sent(list_jobs(JobFilter(status="pending")), [[0]])


def _orphans(size: int) -> list[Statement]:
    return _sent(release_orphans(LIVING, [job_id(n) for n in range(size + 1, RUNNING + 1)]))


def _reap(size: int) -> list[Statement]:
    numbers = range(RUNNING + 1, RUNNING + 1 + size)
    rows = [
        Reapable(
            *(job_id(n), 1, "report", GONE, 1, 0, 5, None),
            is_owner_dead=True,
            is_unstarted=False,
            is_uncertain=False,
            queue="default",
            chain_id=job_id(n),
            tenant=None,
        )
        for n in numbers
    ]
    find, reap = _sent(reap_jobs(_WORKER, timedelta(seconds=20)), rows)
    return [structs.replace(find, literals={"limit": size}), reap]


def _migrate() -> list[Statement]:
    fresh = _sent(migrate([Migration(1, "first_schema", "0.1.0")]), [], [[False]], [])
    functions = Functions((), "0.1.0", "digest")
    known = _sent(migrate([Migration(1, "first_schema", "0.1.0")], functions), [], [[True]], [[1, "", ""]], [[None]])
    return fresh + known


def _guarded(ids: list[str]) -> list[JobDocument]:
    """Jobs with keys that wait for chains which have not ended."""
    return [
        JobDocument(
            id_,
            "report",
            Raw(b'{"order_id":1}'),
            "default",
            more=Extras(
                deduplication_key=id_,
                deduplication_scope="unfinished",
                on_conflict="replace",
                blockers=[job_id(1)],
                waiting_for=1,
            ),
        )
        for id_ in ids
    ]


def _new(size: int) -> list[str]:
    return [job_id(UNUSED + n) for n in range(size)]


def _enqueue_guarded(size: int, *, is_taken: bool = False) -> list[Statement]:
    """Every statement that it may send: with keys that are free, or that others hold and that are to be replaced."""
    jobs = _guarded(_new(size))
    holders = _finished(size)
    keys = [[place, holders[place] if is_taken else jobs[place].id, "judge" if is_taken else "taken"]
            for place in range(size)]  # fmt: skip
    blockers = [[job_id(1), "running"]]
    if not is_taken:
        return _sent(enqueue_guarded(jobs, None), [], keys, blockers, [["[]", 0]])[1:]
    judged = [[place, holders[place], True, True, "pending", None] for place in range(size)]
    return _sent(enqueue_guarded(jobs, None), [], keys, judged, blockers, [], [], [])[1:]


def _take_over(size: int) -> list[Statement]:
    """The keys' holders were not started in time."""
    jobs = _guarded(_new(size))
    holders = _held(size)
    keys = [[place, holders[place], "judge"] for place in range(size)]
    judged = [[place, holders[place], False, True, "pending", holders[place]] for place in range(size)]
    return _sent(enqueue_guarded(jobs, None), [], keys, judged, [[job_id(1), "running"]])[1:]


def _reject(size: int) -> list[Statement]:
    """Some keys are free, and the last one is not."""
    jobs = _guarded(_new(size + 1))
    for job in jobs:
        job.extras.on_conflict = "reject"
    keys = [[place, jobs[place].id, "taken"] for place in range(size)]
    operation = enqueue_guarded(jobs, None)
    judged = [[size, job_id(1), True, False, "running", None]]
    return _sent(operation, [], [*keys, [size, job_id(1), "judge"]], judged)[1:]


def _continue(ids: list[str]) -> list[Statement]:
    nexts = [JobDocument(id_, "report", Raw(b'{"order_id":1}'), "default") for id_ in _new(len(ids))]
    return _sent(continue_jobs(_WORKER, [Continuation(id_, 1, next_) for id_, next_ in zip(ids, nexts, strict=True)]))


def _kept(size: int) -> list[Statement]:
    jobs = _guarded(_new(size))
    for job in jobs:
        job.extras.on_conflict = "keep"
    keys = [[place, holder, "kept"] for place, holder in enumerate(_finished(size))]
    return _sent(enqueue_guarded(jobs, None), [], keys)[1:]


def _types() -> list[Statement]:
    def report(order_id: int) -> None: ...

    signature = CallSignature("report", report, (), 1024)
    job_type = JobType("report", "default", 0, Retry(), None, signature, PayloadCodec("report", None, 1024))
    return _sent(register_types([job_type]))


def _sent(operation: Operation[Any], *answers: Rows) -> list[Statement]:
    """What a verb sends while the database answers so."""
    return [next(operation), *(operation.send(answer) for answer in answers)]


_BY_VERB: Mapping[str, Callable[[str, int], list[Statement]]] = {
    **CONTROL_SAMPLES,
    **RETENTION_SAMPLES,
    **SCHEDULE_SAMPLES,
    **WAITING_SAMPLES,
    **WORKER_SAMPLES,
    "add_blockers": lambda _, size: _enqueue_guarded(size),
    "chain_statuses": lambda _, size: _kept(size),
    "check_origin": lambda _, size: _sent(check_origin("1", timedelta(seconds=20))),
    "claim_jobs": _claim,
    "claim_plain": lambda _, size: _claim_plain(size),
    "count_pending": lambda _, size: _pending(),
    "claim_suspect": lambda _, size: _sent(claim_suspect(_WORKER, QUEUES, _LEASE)),
    "complete_jobs": lambda _, size: _complete(_held(size)),
    "continue_jobs": lambda _, size: _continue(_held(size)),
    "enqueue_jobs": lambda _, size: _enqueue([job_id(UNUSED + n) for n in range(size)], "holdfast_work"),
    "expire_holders": lambda _, size: _take_over(size),
    "fail_jobs": lambda _, size: _fail(_held(size)),
    "find_functions": lambda _, size: _migrate(),
    "find_lanes": lambda _, size: _sent(find_lanes([*QUEUES, FAIR])),
    "find_tenants": lambda _, size: _sent(find_tenants(FAIR, "tenant 4990")),
    "find_migrations": lambda _, size: _migrate(),
    "find_starved": lambda _, size: _sent(find_starved(_held(size))),
    "find_turn": lambda _, size: _sent(find_turn(_LAST_OF_GIANT, FAIR)),
    "find_ahead": lambda _, size: _sent(find_ahead(job_id(1))),
    "find_stranded": lambda _, size: _sent(find_stranded(("default", "k"))),
    "find_limited": lambda _, size: _sent(find_limited(("default", "k"))),
    "free_limits": lambda _, size: _sent(free_limits([Room("default", f"k{n}", 2) for n in range(size)])),
    "forget_limits": lambda _, size: _sent(forget_limits()),
    "free_keys": lambda _, size: _sent(free_keys([("default", f"k{n}") for n in range(size)])),
    "find_unsettled": lambda _, size: _sent(sweep_blockers((job_id(1), 0)), [])[1:],
    "find_given": lambda _, size: _sent(find_given(_guarded(_held(size)), _held(size))),
    "find_reapable": lambda _, size: _reap(size),
    "forget_workers": lambda _, size: _sent(forget_workers(timedelta(seconds=20))),
    "get_chain": lambda _, size: _sent(get_chain(job_id(1))),
    "get_job": lambda _, size: _sent(get_job(job_id(1))),
    "hold_chains": lambda _, size: _enqueue_guarded(size),
    "heard_steadily": lambda _, size: _sent(heard_steadily(timedelta(seconds=20))),
    "heartbeat": lambda _, size: _sent(heartbeat(_IDENTITY, timedelta(seconds=20), is_draining=False)),
    "identify_database": lambda _, size: _sent(identify_database()),
    "copy_jobs": lambda _, size: _insert_bulk([job_id(UNUSED + n) for n in range(MANY)], Bulk.LINES),
    "insert_job": lambda _, size: _insert([job_id(UNUSED)]),
    "insert_alike": lambda _, size: _insert_alike([job_id(UNUSED + n) for n in range(max(2, size))]),
    "insert_jobs": lambda _, size: _insert([job_id(UNUSED + n) for n in range(max(2, size))]),
    "insert_rows": lambda _, size: _insert_bulk([job_id(UNUSED + n) for n in range(max(2, size))], Bulk.ROWS),
    "judge_keys": lambda _, size: _enqueue_guarded(size, is_taken=True),
    "list_attempts": lambda _, size: _sent(list_attempts(job_id(1))),
    "list_blocked_jobs": lambda _, size: _sent(list_blocked_jobs(job_id(1))),
    "list_chains": lambda _, size: _sent(list_chains(_EVERY_CHAIN_FIELD)),
    "list_jobs": lambda _, size: _sent(list_jobs(_EVERY_FIELD)),
    "lock_chain": lambda _, size: _sent(get_chain(job_id(1), lock=True)),
    "lock_job": lambda _, size: _sent(get_job(job_id(1), lock=True)),
    "lock_migrations": lambda _, size: _migrate(),
    "notify_work": lambda _, size: _sent(notify_work("holdfast_work", QUEUES)),
    "point_keys": lambda _, size: _enqueue_guarded(size, is_taken=True),
    "read_migrations": lambda _, size: _migrate(),
    "reap_jobs": lambda _, size: _reap(size),
    "record_migration": lambda _, size: _migrate(),
    "register_types": lambda _, size: _types(),
    "register_worker": lambda _, size: _sent(register_worker(_IDENTITY)),
    "release_jobs": lambda _, size: _sent(release_jobs(_leases(_held(size)))),
    "release_orphans": lambda _, size: _orphans(size),
    "renew_leases": lambda _, size: _sent(renew_leases(_leases(_held(size)), _LEASE)),
    "replace_jobs": lambda _, size: _enqueue_guarded(size, is_taken=True),
    "retire_worker": lambda _, size: _sent(retire_worker(_WORKER)),
    "return_keys": lambda _, size: _reject(size),
    "sees_commits": lambda _, size: _sent(hold_blockers(_guarded(_new(size))), *[[]] * 6),
    "settle_chains": lambda _, size: _sent(settle_chains(_finished(size))),
    "take_keys": lambda _, size: _enqueue_guarded(size),
    "take_turn": lambda _, size: _sent(in_turn(_held(1)[0], _LEASE, complete_jobs(_WORKER, [])), [])[1:],
    "stamp_functions": lambda _, size: _migrate(),
    "take_write_lock": lambda _, size: _sent(take_write_lock()),
}

_AGAIN: Mapping[str, Callable[[int], Statement]] = {
    "complete_jobs again": lambda size: _complete(_finished(size))[0],
    "enqueue_jobs again": lambda size: _enqueue(_held(size))[0],
    "fail_jobs again": lambda size: _fail(_finished(size))[0],
    "release_jobs again": lambda size: _sent(release_jobs(_leases(_finished(size))))[0],
    "renew_leases again": lambda size: _sent(renew_leases(_leases(_finished(size)), _LEASE))[0],
}
