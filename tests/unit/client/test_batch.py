"""From calls to documents, and from answers to chains."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Call, Chain, Job
from holdfast.client.batch import Batch
from holdfast.errors import InvalidOption
from holdfast.model.ids import Ids, new_id
from holdfast.model.job import Outcome
from holdfast.model.payload import to_json
from holdfast.model.status import Status


@pytest.fixture
def call(tmp_path: Path) -> Call[Any]:
    app = App(f"sqlite:///{tmp_path / 'never-opened.db'}")

    @app.job()
    def work(n: int) -> None: ...

    return work.call(n=1)


def answered(batch: Batch, existing: list[str]) -> list[Chain[Any]]:
    """The chains of a plain batch, when the database says that these ids were there before, and completed."""
    operation = batch.write(None)
    next(operation)
    try:
        answer: Any = [[to_json(existing).decode(), 0]]
        while True:
            operation.send(answer)
            answer = [[_completed(existing[0])]]
    except StopIteration as end:
        chains: list[Chain[Any]] = end.value
        return chains


def _completed(job_id: str) -> bytes:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    job = Job(
        id=job_id,
        seq=1,
        type_name="work",
        queue="default",
        priority=0,
        chain_id=job_id,
        chain_type_name="work",
        chain_index=0,
        input={},
        status=Status.COMPLETED,
        held=False,
        attempt=1,
        crash_count=0,
        lease_generation=1,
        created_at=moment,
        scheduled_at=moment,
        ready_at=moment,
    )
    return to_json(job)


def test_order_and_ids(call: Call[Any]) -> None:
    """Documents in the order of the calls, each with an id of its own."""
    batch = Batch((call for _ in range(5)), {}, Ids())
    ids = [document.id for document in batch.documents]
    assert ids == sorted(set(ids))
    chains = answered(batch, existing=[])
    assert [chain.id for chain in chains] == ids
    assert {chain.outcome for chain in chains} == {Outcome.CREATED}


def test_existing_jobs_are_kept(call: Call[Any]) -> None:
    """The answer says which given ids were there before, and in which state."""
    known = new_id()
    batch = Batch([call.options(id=known), call], {}, Ids())
    first, second = answered(batch, existing=[known])
    assert (first.id, first.outcome, first.status) == (known, Outcome.KEPT, Status.COMPLETED)
    assert (second.outcome, second.status) == (Outcome.CREATED, Status.PENDING)


def test_one_id_for_several_jobs(call: Call[Any]) -> None:
    """Shared by the enqueue, or given twice, in whatever spelling."""
    job_id = new_id()
    for calls, options in (
        ([call, call], {"id": job_id}),
        ([call.options(id=job_id), call.options(id=job_id)], {}),
        ([call.options(id=job_id), call.options(id=job_id.upper())], {}),
    ):
        with pytest.raises(InvalidOption) as caught:
            Batch(calls, options, Ids())  # type: ignore[arg-type]  # literal options
        assert caught.value.option == "id"


@pytest.mark.parametrize("wrong", [None, "work", 7, {"n": 1}, print])
def test_not_a_call(call: Call[Any], wrong: Any) -> None:
    """What was not made with .call(…) is refused, also in the middle of a batch."""
    with pytest.raises(InvalidOption, match=r"call\(") as caught:
        Batch([call, wrong], {}, Ids())
    assert caught.value.option == "call"


def test_empty(call: Call[Any]) -> None:
    """No calls make no documents; options are checked all the same."""
    assert Batch([], {}, Ids()).documents == []
    with pytest.raises(InvalidOption):
        Batch([], {"priority": 1.5}, Ids())  # type: ignore[typeddict-item]


def test_queues(call: Call[Any]) -> None:
    """Each once, for the hints."""
    assert Batch([call, call.options(queue="b"), call], {}, Ids()).queues == {"default", "b"}
