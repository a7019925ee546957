"""Why a job does not run, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from holdfast.model.explanation import reasons_not_to_run
from holdfast.model.job import Job
from holdfast.model.operating import QueueRecord, WorkerRecord
from holdfast.model.ring import Ring, bucket_of
from holdfast.model.status import Status

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
LATER = "2026-11-15 12:00:05+00:00"
PAUSED = QueueRecord(name="mail", paused_at=NOW, resume_at=NOW + timedelta(hours=1), pause_reason="it is down")
FULL = QueueRecord(name="mail", concurrency=2, running=2)


class Chain(NamedTuple):
    chain_id: str
    status: Status | None


class Step(NamedTuple):
    name: str
    kind: str
    lease_generation: int
    ends_at: datetime | None = None
    signal: str | None = None
    is_open: bool = True


class Kid(NamedTuple):
    name: str
    chain_id: str
    status: Status | None
    is_resolved: bool


class Other(NamedTuple):
    id: str
    status: Status


class Turn(NamedTuple):
    tenants: int
    is_more: bool = False
    ahead: int = 0
    is_far: bool = False


def job(**fields: Any) -> Job:
    known: dict[str, Any] = {
        "id": "j1", "seq": 1, "type_name": "send", "queue": "mail", "priority": 0, "chain_id": "j1",
        "chain_type_name": "send", "chain_index": 0, "input": {}, "status": Status.PENDING, "held": False, "attempt": 0,
        "crash_count": 0, "created_at": NOW, "scheduled_at": NOW, "ready_at": NOW, "lease_generation": 0,
    }  # fmt: skip
    return Job(**(known | fields))


def worker(**fields: Any) -> WorkerRecord:
    known: dict[str, Any] = {
        "id": "w1", "status": "alive", "started_at": NOW, "last_seen_at": NOW, "version": "1", "queues": ["mail"],
        "metadata": {"types": ["send"], "forbidden_flags": []}, "running": 0, "is_leader": False, "silent_ms": 0,
    }  # fmt: skip
    return WorkerRecord(**(known | fields))


def reasons(one: Job, **given: Any) -> list[str]:
    return reasons_not_to_run(one, now=NOW, **({"workers": [worker()]} | given))


def test_nothing_in_the_way() -> None:
    assert reasons(job()) == ["nothing is in its way: the next worker with a free slot takes it"]


@pytest.mark.parametrize("status", [Status.RUNNING, Status.COMPLETED, Status.DEAD_LETTER, Status.CANCELLED])
def test_nothing_to_explain(status: Status) -> None:
    assert reasons(job(status=status), workers=[]) == []


def test_blocked() -> None:
    """By what has not completed; with a way out where nothing else helps."""
    chains = [
        Chain("a", Status.COMPLETED),
        Chain("b", Status.RUNNING),
        Chain("c", Status.DEAD_LETTER),
        Chain("d", None),
    ]
    assert reasons(job(status=Status.BLOCKED, on_blocker_failure="wait"), blockers=chains) == [
        "it waits for chain b, which is running",
        "it waits for chain c, which is dead letter; retry that chain, or cancel this job",
    ]


@pytest.mark.parametrize(
    ("fields", "given", "words"),
    [
        ({"ready_at": NOW + timedelta(hours=3)}, {}, "it is scheduled for 2026-11-15 15:00:00+00:00, in 3 hours"),
        (
            {"ready_at": NOW + timedelta(seconds=5), "attempt": 2},
            {},
            f"its next attempt is at {LATER}, in 5.0 seconds",
        ),
        ({"expires_at": NOW}, {}, "it was not started by 2026-11-15 12:00:00+00:00 and is about to be cancelled"),
        ({"crash_count": 2}, {}, "2 of its workers died: it is started when a worker has nothing else to do"),
        (
            {"partition_key": "k", "held": True},
            {"ahead": Other("j0", Status.RUNNING)},
            "it is behind job j0 of partition key 'k', which is running",
        ),
        ({}, {"turn": Turn(3)}, "tenants take turns in queue 'mail', and 3 have jobs that are due"),
        (
            {},
            {"turn": Turn(32, is_more=True)},
            "tenants take turns in queue 'mail', and 32 or more have jobs that are due",
        ),
        ({"tenant": "acme"}, {"turn": Turn(1, ahead=7)}, "it is behind 7 other jobs of its tenant 'acme'"),
        (
            {"tenant": "acme"},
            {"turn": Turn(1, ahead=100, is_far=True)},
            "it is behind 100 or more other jobs of its tenant 'acme'",
        ),
        ({"tenant": "acme"}, {"turn": Turn(1)}, "nothing is in its way: the next worker with a free slot takes it"),
        (
            {},
            {"queue": PAUSED},
            "queue 'mail' is paused since 2026-11-15 12:00:00+00:00, until 2026-11-15 13:00:00+00:00: it is down",
        ),
        (
            {},
            {"queue": FULL},
            "queue 'mail' may run 2 jobs at a time, and 2 are claimed",
        ),
        ({}, {"queue": QueueRecord(name="mail", rate=0.5, burst=1)}, "queue 'mail' starts at most 0.5 jobs per second"),
        ({}, {"workers": []}, "no live worker serves queue 'mail'"),
        ({}, {"workers": [worker(status="dead"), worker(queues=["web"])]}, "no live worker serves queue 'mail'"),
        ({"type_name": "sing"}, {}, "no live worker of queue 'mail' knows job type 'sing'"),
        (
            {"flags": ["big", "gpu"]},
            {"workers": [worker(metadata={"forbidden_flags": ["gpu"]}), worker(metadata={"forbidden_flags": ["big"]})]},
            "every live worker of queue 'mail' that knows its type forbids flags of it: big, gpu",
        ),
        (
            {"flags": ["big", "gpu"]},
            {"workers": [worker(metadata={"forbidden_flags": ["gpu"]}), worker(metadata={"forbidden_flags": None})]},
            "a function of worker w1 decides whether flags of it are forbidden: big, gpu",
        ),
    ],
)
def test_in_the_way(fields: dict[str, Any], given: dict[str, Any], words: str) -> None:
    assert reasons(job(**fields), **given) == [words]


def test_one_worker_is_enough() -> None:
    """That serves, knows and takes it; one in SQL says nothing of itself."""
    refusing = worker(metadata={"types": ["send"], "forbidden_flags": ["gpu"]})
    assert len(reasons(job(flags=["gpu"]), workers=[refusing, worker(metadata={})])) == 1
    assert reasons(job(flags=["gpu"]), workers=[refusing, worker(metadata={})])[0].startswith("nothing is in its way")


def on_ring(name: str, **fields: Any) -> WorkerRecord:
    return worker(**({"id": name, "metadata": {"types": ["send"], "affinity": "ring"}} | fields))


def test_a_key_of_another_worker() -> None:
    """Told until anybody may take it, of a job that its owner could take right now."""
    waiting = job(partition_key="k", ready_at=NOW - timedelta(seconds=4))
    ring = [on_ring("w1"), on_ring("w2"), on_ring("w3")]
    bucket = bucket_of("k")
    told = (
        f"its partition key is in bucket {bucket} of queue 'mail', which is worker "
        f"{Ring(['w1', 'w2', 'w3']).owners[bucket]}'s; others take it in 6.0 seconds"
    )
    assert reasons(waiting, workers=ring) == [told]
    others = [on_ring("w4", status="draining"), on_ring("w5", status="dead"), on_ring("w6", queues=["web"])]
    assert reasons(waiting, workers=[*ring, *others]) == [told]


@pytest.mark.parametrize(
    ("fields", "workers"),
    [
        ({"partition_key": None}, [on_ring("w1"), on_ring("w2")]),
        ({"ready_at": NOW - timedelta(seconds=10)}, [on_ring("w1"), on_ring("w2")]),
        ({"ready_at": NOW + timedelta(seconds=1)}, [on_ring("w1"), on_ring("w2")]),
        ({"held": True}, [on_ring("w1"), on_ring("w2")]),
        ({}, [on_ring("w1")]),
        ({}, [on_ring("w1"), on_ring("w2"), worker(id="w3")]),
    ],
)
def test_a_key_that_anybody_takes(fields: dict[str, Any], workers: list[WorkerRecord]) -> None:
    """None, one that is due for long, not yet, or held; workers that are alone or take what they find."""
    told = reasons(job(**({"partition_key": "k"} | fields)), workers=workers)
    assert not any("bucket" in reason for reason in told)


def test_several_at_once() -> None:
    """All of them are told."""
    queue = QueueRecord(name="mail", paused_at=NOW)
    assert len(reasons(job(ready_at=NOW + timedelta(days=3)), queue=queue, workers=[])) == 3


SOON = NOW + timedelta(seconds=5)


@pytest.mark.parametrize(
    ("status", "step", "told"),
    [
        (Status.PENDING, Step("nap", "sleep", 3, SOON), f"it sleeps ('nap') until {LATER}, for another 5.0 seconds"),
        (
            Status.PENDING,
            Step("nap", "signal", 3, SOON, "go"),
            f"it waits for signal 'go' until {LATER}, for another 5.0 seconds",
        ),
        (Status.BLOCKED, Step("nap", "signal", 3, None, "go"), "it waits for signal 'go'"),
    ],
)
def test_waits_of_its_own(status: Status, step: Step, told: str) -> None:
    """What its handler has begun to wait for under its last generation."""
    waiting = job(status=status, step="nap", lease_generation=3, ready_at=SOON)
    assert reasons(waiting, steps=[step]) == [told]


@pytest.mark.parametrize(
    "step",
    [
        Step("nap", "sleep", 2, SOON),  # it was claimed since
        Step("other", "sleep", 3, SOON),
        Step("nap", "signal", 3, SOON, "go", is_open=False),
    ],
)
def test_waits_that_are_over(step: Step) -> None:
    """A job that waits for its next attempt waits for nothing else."""
    waiting = job(step="nap", lease_generation=3, ready_at=SOON, attempt=1)
    assert reasons(waiting, steps=[step]) == [f"its next attempt is at {LATER}, in 5.0 seconds"]


def test_children() -> None:
    """How many of how many, and which."""
    kids = [
        Kid("left", "c1", Status.COMPLETED, is_resolved=True),
        Kid("right", "c2", Status.RUNNING, is_resolved=False),
        Kid("third", "c3", Status.DEAD_LETTER, is_resolved=False),
        Kid("fourth", "c4", None, is_resolved=False),
    ]
    assert reasons(job(status=Status.BLOCKED, lease_generation=1), children=kids) == [
        "it waits for 3 of its 4 children",
        "child 'right', chain c2, is running",
        "child 'third', chain c3, is dead letter; retry that chain, or cancel this job",
        "child 'fourth', chain c4, is gone",
    ]
