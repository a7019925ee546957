"""From calls to documents, and from answers to chains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Call
from holdfast.client.batch import Batch
from holdfast.errors import InvalidOption
from holdfast.model.ids import Ids, new_id
from holdfast.model.job import Outcome
from holdfast.model.status import Status


@pytest.fixture
def call(tmp_path: Path) -> Call[Any]:
    app = App(f"sqlite:///{tmp_path / 'never-opened.db'}")

    @app.job()
    def work(n: int) -> None: ...

    return work.call(n=1)


def test_order_and_ids(call: Call[Any]) -> None:
    """Documents in the order of the calls, each with an id of its own."""
    batch = Batch((call for _ in range(5)), {}, Ids())
    ids = [document.id for document in batch.documents]
    assert ids == sorted(set(ids))
    assert [chain.id for chain in batch.chains({})] == ids
    assert {chain.outcome for chain in batch.chains({})} == {Outcome.CREATED}


def test_existing_jobs_are_kept(call: Call[Any]) -> None:
    """The answer says which given ids were there before, and in which state."""
    known = new_id()
    batch = Batch([call.options(id=known), call], {}, Ids())
    first, second = batch.chains({known: Status.COMPLETED})
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
