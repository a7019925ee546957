"""From calls to documents, and from answers to chains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import App, Call, Chain
from holdfast.client.batch import Batch
from holdfast.errors import InvalidOption
from holdfast.model.call import EnqueueOptions
from holdfast.model.ids import Ids, new_id
from holdfast.model.job import Outcome
from holdfast.model.job_type import JobType
from holdfast.model.payload import to_json
from holdfast.model.status import Status
from holdfast.operations.copied_lines import MANY
from holdfast.operations.statement import Bulk


@pytest.fixture
def call(tmp_path: Path) -> Call[Any]:
    app = App(f"sqlite:///{tmp_path / 'never-opened.db'}")

    @app.job()
    def work(n: int) -> None: ...

    return work.call(n=1)


def _known(call: Call[Any]) -> dict[str, JobType]:
    return {call.job_type.name: call.job_type}


def answered(batch: Batch, existing: list[str]) -> list[Chain[Any]]:
    """The chains of a plain batch, when the database says that these ids were there before, and completed."""
    answers: dict[str, Any] = {
        "enqueue_jobs": [[to_json(existing).decode(), 0]],
        "find_given": [[job_id, "work", 0, "completed"] for job_id in existing],
    }
    operation = batch.write(None)
    statement = next(operation)
    try:
        while True:
            statement = operation.send(answers.get(statement.name, ()))
    except StopIteration as end:
        chains: list[Chain[Any]] = end.value
        return chains


def test_order_and_ids(call: Call[Any]) -> None:
    """Documents in the order of the calls, each with an id of its own."""
    batch = Batch((call for _ in range(5)), {}, Ids(), _known(call))
    ids = [document.id for document in batch.documents]
    assert ids == sorted(set(ids))
    chains = answered(batch, existing=[])
    assert [chain.id for chain in chains] == ids
    assert {chain.outcome for chain in chains} == {Outcome.CREATED}


def test_only_the_first_try_can_be_sure_that_nothing_is_there(call: Call[Any]) -> None:
    """And only where all ids were made for it, and no job has an option that the short statement leaves out."""
    batch = Batch([call, call], {}, Ids(), _known(call))
    assert [next(batch.write(None)).name for _ in range(3)] == ["insert_jobs", "enqueue_jobs", "enqueue_jobs"]
    batch = Batch([call], {}, Ids(), _known(call))
    assert [next(batch.write(None)).name for _ in range(2)] == ["insert_job", "enqueue_jobs"]
    others: list[EnqueueOptions] = [{"id": new_id()}, {"tenant": "t"}, {"flags": ["f"]}, {"partition_key": "k"}]
    for options in others:
        batch = Batch([call], options, Ids(), _known(call))
        assert next(batch.write(None)).name == "enqueue_jobs"


@pytest.mark.parametrize(
    ("bulk", "alike", "mixed"),
    [(Bulk.LINES, "copy_jobs", "copy_jobs"), (Bulk.ROWS, "insert_alike", "insert_rows"), (None, *["insert_jobs"] * 2)],
)
def test_many_go_as_the_store_takes_them(call: Call[Any], bulk: Bulk | None, alike: str, mixed: str) -> None:
    """The first time; what they are told the second time depends on what is there."""
    batch = Batch([call] * MANY, {"queue": "q"}, Ids(), _known(call))
    assert [next(batch.write(None, bulk)).name for _ in range(2)] == [alike, "enqueue_jobs"]
    batch = Batch([call] * MANY + [call.options(priority=1)], {"queue": "q"}, Ids(), _known(call))
    assert [next(batch.write(None, bulk)).name for _ in range(2)] == [mixed, "enqueue_jobs"]


@pytest.mark.parametrize("bulk", Bulk)
def test_what_all_have_does_not_make_plain_what_is_not(call: Call[Any], bulk: Bulk) -> None:
    """Options of the whole enqueue that need a document of each."""
    for options in ({"delay": 1}, {"tenant": "t"}, {"partition_key": "k"}, {"blockers": [new_id()]}, {"expires": 1}):
        batch = Batch([call] * MANY, options, Ids(), _known(call))  # type: ignore[arg-type]  # literal options
        assert next(batch.write(None, bulk)).name not in {"copy_jobs", "insert_alike", "insert_rows"}


def test_what_is_sent_again_is_what_was_sent(call: Call[Any]) -> None:
    """Under the same ids, and with the options of the enqueue."""
    batch = Batch([call] * 3, {"queue": "q"}, Ids(), _known(call))
    statement = next(batch.write(None, Bulk.ROWS))
    assert statement.rows is not None
    ids = [values[0] for _, pieces in statement.rows() for values in pieces]
    assert [(document.id, document.queue) for document in batch.documents] == [(job_id, "q") for job_id in ids]
    assert [chain.id for chain in answered(batch, existing=[])] == ids


def test_existing_jobs_are_kept(call: Call[Any]) -> None:
    """The answer says which given ids were there before, and in which state."""
    known = new_id()
    batch = Batch([call.options(id=known), call], {}, Ids(), _known(call))
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
            Batch(calls, options, Ids(), _known(call))  # type: ignore[arg-type]  # literal options
        assert caught.value.option == "id"


@pytest.mark.parametrize("wrong", [None, "work", 7, {"n": 1}, print])
def test_not_a_call(call: Call[Any], wrong: Any) -> None:
    """What was not made with .call(…) is refused, also in the middle of a batch."""
    with pytest.raises(InvalidOption, match=r"call\(") as caught:
        Batch([call, wrong], {}, Ids(), _known(call))
    assert caught.value.option == "call"


def test_empty(call: Call[Any]) -> None:
    """No calls make no documents; options are checked all the same."""
    assert Batch([], {}, Ids(), {}).documents == []
    with pytest.raises(InvalidOption):
        Batch([], {"priority": 1.5}, Ids(), {})  # type: ignore[typeddict-item]  # that is the point


def test_work(call: Call[Any]) -> None:
    """How much there is in which queue, for the hints."""
    batch = Batch([call, call.options(queue="b"), call], {}, Ids(), _known(call))
    assert batch.work == {"default": 2, "b": 1}
    assert batch.is_all_told
    assert Batch([call, call], {"queue": "q"}, Ids(), _known(call)).work == {"q": 2}


def test_silent_work(call: Call[Any]) -> None:
    """What nobody is to be told of is not counted; a call's own word wins over the batch's."""
    batch = Batch([call, call.options(notify=True, queue="b")], {"notify": False}, Ids(), _known(call))
    assert batch.work == {"b": 1}
    assert not batch.is_all_told
    assert Batch([call.options(notify=False)], {}, Ids(), _known(call)).work == {}
    assert Batch([call, call], {"notify": False}, Ids(), _known(call)).work == {}
    with pytest.raises(InvalidOption, match="notify"):
        Batch([call], {"notify": "no"}, Ids(), _known(call))  # type: ignore[typeddict-item]  # that is the point
