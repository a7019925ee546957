"""Who is measured, with which settings, and how the database tells that all of its jobs are acknowledged."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

_HOLDFAST_OVER = """
SELECT NOT EXISTS (SELECT 1 FROM {job} WHERE status = 'pending' AND {plain} AND crash_count = 0 AND queue = 'default')
   AND NOT EXISTS (SELECT 1 FROM {job} WHERE status = 'running' AND leased_by <> '')
"""
_HOLDFAST_KEEPS = "history kept; every completion fenced"
_HOLDFAST_BEST = {"dressed": True, "worker": {"concurrency": 500}}
_HOLDFAST_BEST_TOLD = (
    "concurrency=500, batches of at most 500; the handler has a context, a timeout and a middleware, "
    "and there is a listener of events"
)
_OWN_PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"
_RAW_TOLD = "claim and complete by UPDATE, 500 at a time, one connection per process; no fence, types or handlers"


@dataclass(frozen=True, kw_only=True)
class Contender:
    name: str
    title: str
    database: str
    #: where it is installed, and the program there that speaks for it
    environment: str
    adapter: str
    settings: Mapping[str, object] = field(default_factory=dict)
    #: the settings in words, and what an acknowledgement leaves behind
    told: str
    keeps: str
    #: SQL: is every one of {jobs} acknowledged? and how many are, where that can be seen afterwards
    is_over: str
    acknowledged: str | None = None
    #: how many jobs are drained at scale 1: some seconds of work
    jobs: int
    has_latency: bool = True
    #: whose figures are compared with everybody else's
    is_ours: bool = False


def _holdfast(name: str, title: str, database: str, environment: str, *, is_best: bool) -> Contender:
    is_postgres = database == "postgres"
    job = "holdfast.job" if is_postgres else "holdfast_job"
    plain = "NOT held AND NOT is_fair" if is_postgres else "held = 0 AND is_fair = 0"
    return Contender(
        name=name,
        title=title,
        database=database,
        environment=environment,
        adapter="holdfast",
        settings=_HOLDFAST_BEST if is_best else {},
        told=_HOLDFAST_BEST_TOLD if is_best else "none set",
        keeps=_HOLDFAST_KEEPS,
        is_over=_HOLDFAST_OVER.format(job=job, plain=plain),
        acknowledged=f"SELECT count(*) FROM {job} WHERE status = 'completed'",
        jobs=200_000 if is_postgres else 100_000,
        is_ours=True,
    )


def _holdfasts(database: str) -> list[Contender]:
    return [
        _holdfast("holdfast", "Holdfast, best settings", database, "newest", is_best=True),
        _holdfast("holdfast-default", "Holdfast, default settings", database, "newest", is_best=False),
        _holdfast("holdfast-own-python", f"Holdfast, best settings, {_OWN_PYTHON}", database, "own", is_best=True),
    ]


def _raw(database: str) -> Contender:
    return Contender(
        name="raw",
        title="raw SQL loop",
        database=database,
        environment="newest",
        adapter="raw_sql",
        told=_RAW_TOLD,
        keeps="history kept, unfenced",
        is_over="SELECT NOT EXISTS (SELECT 1 FROM raw_job WHERE status IN ('pending', 'running'))",
        acknowledged="SELECT count(*) FROM raw_job WHERE status = 'completed'",
        jobs=200_000,
        has_latency=False,
    )


def _graphile_worker(name: str, title: str, worker: Mapping[str, object], told: str, jobs: int) -> Contender:
    return Contender(
        name=name,
        title=title,
        database="postgres",
        environment="graphile-worker",
        adapter="graphile_worker",
        settings={"worker": worker},
        told=told,
        keeps="deletes, unfenced",
        is_over="SELECT NOT EXISTS (SELECT 1 FROM graphile_worker._private_jobs)",
        jobs=jobs,
    )


def _flexiq(database: str) -> Contender:
    jobs = "flexiq.jobs" if database == "postgres" else "jobs"
    archived = "flexiq.archived_jobs" if database == "postgres" else "archived_jobs"
    return Contender(
        name="flexiq",
        title="FlexiQ",
        database=database,
        environment="flexiq",
        adapter="flexiq",
        settings={
            "queue": {"workers": 16, "scheduler_batch_size": 100, "scheduler_poll_interval_ms": 5, "pool_size": 20}
        },
        told="16 worker threads, scheduler_batch_size 100, scheduler_poll_interval_ms 5, pool_size 20; "
        "no push_dispatch, which is slower; enqueue_many of 5,000",
        keeps="moved to an archive" + ("" if database == "postgres" else "; it sets synchronous=NORMAL"),
        is_over=f"SELECT NOT EXISTS (SELECT 1 FROM {jobs})",
        acknowledged=f"SELECT count(*) FROM {archived}",
        jobs=3_000,
    )


#: receipts of completions, and what was counted when their slots were emptied
_AWA_ACKNOWLEDGED = """
    coalesce((SELECT sum(cardinality(job_ids)) FROM awa.receipt_completion_batches), 0)
    + (SELECT count(*) FROM awa.done_entries)
    + coalesce((SELECT sum(pruned_completed_count) FROM awa.queue_terminal_rollups), 0)
"""

CONTENDERS: list[Contender] = [
    *_holdfasts("postgres"),
    _raw("postgres"),
    _graphile_worker(
        "graphile-worker",
        "Graphile Worker, best settings",
        {
            "concurrentJobs": 100,
            "maxPoolSize": 10,
            "localQueue": {"size": 500},
            "completeJobBatchDelay": 0,
            "failJobBatchDelay": 0,
        },
        "concurrentJobs 100, localQueue.size 500, completeJobBatchDelay 0, failJobBatchDelay 0; addJobs of 5,000",
        200_000,
    ),
    _graphile_worker(
        "graphile-worker-default",
        "Graphile Worker, default settings",
        {"concurrentJobs": 10},
        "concurrentJobs 10 (the default of 1 is slower still), no local queue, no batches",
        20_000,
    ),
    Contender(
        name="pgqueuer",
        title="PgQueuer",
        database="postgres",
        environment="pgqueuer",
        adapter="pgqueuer",
        settings={"batch_size": 2000, "pool": 4},
        told="asyncpg pool, uvloop, batch_size 2,000, durability as installed; enqueue of 5,000 at once",
        keeps="deletes; a line per end in its log table",
        is_over="SELECT NOT EXISTS (SELECT 1 FROM pgqueuer)",
        acknowledged="SELECT count(*) FROM pgqueuer_log WHERE status = 'successful'",
        jobs=60_000,
    ),
    Contender(
        name="awa",
        title="Awa",
        database="postgres",
        environment="awa",
        adapter="awa",
        settings={"queue": {"max_workers": 500, "claimers": 2, "claim_batch_size": 500}, "runtime": {}},
        told="queue storage, max_workers 500, claimers 2, claim_batch_size 500; enqueue_many_copy of 5,000",
        keeps="receipts in batches; history kept until its slot rotates",
        is_over=f"SELECT ({_AWA_ACKNOWLEDGED}) >= {{jobs}}",
        acknowledged=f"SELECT {_AWA_ACKNOWLEDGED}",
        jobs=20_000,
    ),
    Contender(
        name="oban",
        title="Oban",
        database="postgres",
        environment="oban",
        adapter="oban",
        settings={"limit": 1000, "pool": 10},
        told="uvloop, limit 1,000, pool of 10; enqueue_many of 5,000",
        keeps="history kept; fenced by the time of the attempt",
        is_over="SELECT NOT EXISTS (SELECT 1 FROM oban_jobs WHERE state IN ('available', 'executing'))",
        acknowledged="SELECT count(*) FROM oban_jobs WHERE state = 'completed'",
        jobs=20_000,
    ),
    Contender(
        name="procrastinate",
        title="Procrastinate",
        database="postgres",
        environment="procrastinate",
        adapter="procrastinate",
        settings={"pool": 12, "worker": {"concurrency": 10}},
        told="psycopg connector, pool of 12, concurrency 10; batch_defer of 5,000",
        keeps="history kept, unfenced",
        is_over="SELECT NOT EXISTS (SELECT 1 FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))",
        acknowledged="SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'",
        jobs=4_000,
    ),
    _flexiq("postgres"),
    *_holdfasts("sqlite"),
    _raw("sqlite"),
    Contender(
        name="huey",
        title="Huey",
        database="sqlite",
        environment="huey",
        adapter="huey",
        settings={"consumer": {"workers": 1, "periodic": False, "initial_delay": 0.001, "max_delay": 0.001}},
        told="fsync on, results off, one worker thread per process, delays of 1 ms; no call for many",
        keeps="deleted when taken: at most once, no acknowledgement",
        is_over="SELECT NOT EXISTS (SELECT 1 FROM task)",
        jobs=10_000,
    ),
    Contender(
        name="litequeue",
        title="Litequeue",
        database="sqlite",
        environment="litequeue",
        adapter="litequeue",
        settings={"idle_seconds": 0.001},
        told="synchronous=FULL instead of its NORMAL; pop and done in a loop, 1 ms of sleep when empty; "
        "5,000 puts in a transaction",
        keeps="history kept, unfenced",
        is_over="SELECT NOT EXISTS (SELECT 1 FROM Queue WHERE status IN (0, 1))",
        acknowledged="SELECT count(*) FROM Queue WHERE status = 2",
        jobs=10_000,
    ),
    _flexiq("sqlite"),
    Contender(
        name="honker",
        title="Honker",
        database="sqlite",
        environment="honker",
        adapter="honker",
        settings={"batch": 100, "idle_seconds": 0.001},
        told="claim_batch and ack_batch of 100 in a loop, 1 ms of sleep when empty; 5,000 in a transaction; "
        "its own synchronous setting",
        keeps="deletes; fenced by the worker's name",
        is_over="SELECT NOT EXISTS (SELECT 1 FROM _honker_live)",
        jobs=50_000,
    ),
]
