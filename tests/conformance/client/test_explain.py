"""`client.explain`: why a job does not run."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path

from holdfast import App
from holdfast.model.ring import Ring
from holdfast.model.scan_position import Lane
from holdfast.model.taste import taste
from holdfast.operations.claim_jobs import claim_jobs, find_lanes
from holdfast.operations.worker_life import WorkerIdentity, register_worker
from tests.conformance.client.conftest import Place, settled


def test_a_job_behind_another(tmp_path: Path) -> None:
    """In its key, in a paused queue, without a worker; each is told."""
    app = App(f"sqlite:///{tmp_path / 'shop.db'}")

    @app.job(partition_key=lambda number: "k")
    def book(number: int) -> None: ...

    with app.client() as client:
        first, second = client.enqueue_many([book.call(number=1), book.call(number=2)])
        client.queues.pause("default")
        told = client.explain(second)
        assert told[0] == f"it is behind job {first.id} of partition key 'k', which is pending"
        assert told[1].startswith("queue 'default' is paused since ")
        assert told[2] == "no live worker serves queue 'default'"
        client.complete_job(first.id)
        assert client.explain(first) == []
        assert not any("behind" in reason for reason in client.explain(second))
    app.close()


def test_a_job_that_waits_for_its_concurrency_key(tmp_path: Path) -> None:
    """Told only where that is what it waits for."""
    app = App(f"sqlite:///{tmp_path / 'shop.db'}")

    @app.job(concurrency_key="acme")
    def fetch(page: int) -> None: ...

    with app.client() as client:
        client.queues.limit("default", key_concurrency=1)
        first, second = client.enqueue_many([fetch.call(page=1), fetch.call(page=2)])
        assert not any("acme" in reason for reason in client.explain(second))
        store = app.store.sync()
        lanes = [
            Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1)
            for lane in store.run(lambda: find_lanes(["default"]), read_only=True)
        ]
        (claimed,) = store.run(lambda: claim_jobs("somebody", lanes, 10, timedelta(minutes=1)))
        assert claimed.id == first.id
        assert client.explain(second)[0] == "of concurrency key 'acme' 1 jobs may run at a time"
        store.close()
    app.close()


def test_a_job_of_a_tenant_that_takes_turns(tmp_path: Path) -> None:
    """How many take turns, and how many of its own are before it."""
    app = App(f"sqlite:///{tmp_path / 'shop.db'}")

    @app.job()
    def book(number: int) -> None: ...

    with app.client() as client:
        client.queues.limit("default", fair_by="tenant")
        ours = client.enqueue_many([book.call(number=number) for number in range(4)], tenant="acme")
        assert client.explain(ours[0]) == ["no live worker serves queue 'default'"]
        client.enqueue(book.call(number=4), tenant="wayne")
        assert client.explain(ours[3])[:2] == [
            "tenants take turns in queue 'default', and 2 have jobs that are due",
            "it is behind 3 other jobs of its tenant 'acme'",
        ]
    app.close()


async def test_a_key_that_is_another_workers(place: Place) -> None:
    """The worker that is named takes the job at once, and nobody else on the ring does."""

    @place.app.job(partition_key=lambda number: f"order:{number}")
    def book(number: int) -> None: ...

    store = place.app.store.sync()
    members = ["ada", "bob", "cleo"]
    for member in members:
        identity = WorkerIdentity(id=member, version="1", queues=["default"], metadata={"affinity": "ring"})
        store.run(partial(register_worker, identity))
    chain = await settled(place.client.enqueue(book.call(number=1)))
    (told,) = await settled(place.client.explain(chain))
    assert told.startswith("its partition key is in bucket ")
    assert " of queue 'default', which is worker " in told
    (owner,) = [member for member in members if f" worker {member}'s; others take it in " in told]
    ring = Ring(members)
    claimed_by = []
    for member in sorted(members, key=lambda member: member == owner):
        only = taste(owned={"default": ring.owned_by(member)})
        lanes = [
            Lane(lane.queue, lane.priority, lane.ready_at, lane.seq - 1)
            for lane in store.run(lambda: find_lanes(["default"]), read_only=True)
        ]
        claim = store.run(partial(claim_jobs, member, lanes, 10, timedelta(minutes=1), taste=only))
        claimed_by += [member for _ in claim]
    assert claimed_by == [owner]
    store.close()
