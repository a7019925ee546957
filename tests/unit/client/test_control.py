"""A verb on its way, without a database: what it wants to run next, and what it makes of the answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from holdfast.client.control import ControlWork, Step
from holdfast.model.control import ControlOutcome, ControlResult, Progress
from holdfast.model.ids import Ids, new_ids
from holdfast.model.job_filter import JobFilter
from holdfast.operations.control import ControlBatch, Orders
from holdfast.operations.find_targets import FoundTargets, SeqRange
from holdfast.operations.statement import Operation, Statement

MAIL = JobFilter(queue="mail")


def _never(ids: Sequence[str], orders: Orders) -> Operation[ControlBatch]:
    """The verb is not run here."""
    yield Statement("never")
    return ControlBatch([])


def _work(chains: Any, verb: str = "cancel", **options: Any) -> ControlWork:
    return ControlWork(verb, _never, Ids(), chains, **options)


def _next(work: ControlWork) -> Step:
    step = work.next_step()
    assert step is not None
    return step


def _asked(step: Step) -> tuple[Any, ...]:
    """What the verb of the step would be called with."""
    assert isinstance(step.verb, partial)
    return step.verb.args


def _batch(ids: Sequence[str], *locked: str, woken: str = "mail") -> ControlBatch:
    outcomes = {each: ControlOutcome.LOCKED if each in locked else ControlOutcome.CANCELLED for each in ids}
    return ControlBatch([ControlResult(id=each, outcome=outcome) for each, outcome in outcomes.items()], {woken})


def test_ids_are_one_transaction() -> None:
    """However many; patiently, and the chains' tails are meant."""
    ids = new_ids(2_000)
    work = _work(ids, actor="ada", strict=True)
    step = _next(work)
    assert _asked(step) == (ids, Orders(actor="ada", is_strict=True, is_patient=True, is_chain=True))
    assert not step.is_read_only
    work.receive(_batch(ids))
    assert work.next_step() is None
    assert [result.id for result in work.results] == ids
    assert (work.take_woken(), work.take_woken()) == ({"mail"}, set())


def test_nothing_named() -> None:
    """Nothing is run."""
    work = _work([])
    assert work.next_step() is None
    assert work.results == []


def test_a_filter_comes_back_to_what_was_locked() -> None:
    """After everything else, with growing pauses; what stays locked is reported once, in the end."""
    ids = new_ids(4)
    seen: list[Progress] = []
    work = _work(MAIL, progress=seen.append)
    assert _next(work).is_read_only
    work.receive(SeqRange(100, 300))
    assert _next(work).is_read_only
    work.receive(FoundTargets(ids[:2], 200))
    step = _next(work)
    assert _asked(step) == (ids[:2], Orders(is_patient=False, is_chain=False))
    work.receive(_batch(ids[:2], ids[1]))
    search = _next(work)
    assert _asked(search)[1] == SeqRange(200, 300)
    work.receive(FoundTargets(ids[2:], 300))
    _next(work)
    work.receive(_batch(ids[2:], ids[3]))
    again = _next(work)
    assert (_asked(again)[0], again.pause > 0) == ([ids[1], ids[3]], True)
    work.receive(_batch([ids[1], ids[3]], ids[3]))
    pauses = []
    while (step_again := work.next_step()) is not None:
        assert _asked(step_again)[0] == [ids[3]]
        pauses.append(step_again.pause)
        work.receive(_batch([ids[3]], ids[3]))
    assert pauses == sorted(pauses)
    assert len(pauses) > 1
    assert [(result.id, result.outcome) for result in work.results] == [
        (ids[0], "cancelled"),
        (ids[2], "cancelled"),
        (ids[1], "cancelled"),
        (ids[3], "locked"),
    ]
    assert seen == [Progress(2, 0.5), Progress(4, 1.0), Progress(4, 1.0)]


def test_an_empty_database() -> None:
    """There is nothing to search."""
    work = _work(MAIL)
    _next(work)
    work.receive(SeqRange(0, 0))
    assert work.next_step() is None
    assert work.results == []


def test_a_stretch_without_targets() -> None:
    """Is passed by, and the search goes on."""
    work = _work(MAIL)
    _next(work)
    work.receive(SeqRange(0, 200))
    _next(work)
    work.receive(FoundTargets([], 100))
    assert _asked(_next(work))[1] == SeqRange(100, 200)


@pytest.mark.parametrize(
    ("verb", "asked", "meant"),
    [
        ("cancel", None, ("blocked", "pending", "running")),
        ("cancel", ["pending", "completed"], ("pending",)),
        ("retry", None, ("cancelled", "dead_letter")),
        ("retry", ["pending"], ()),
        ("reschedule", None, ("blocked", "pending")),
        ("delete", None, None),
        ("delete", ["completed"], ("completed",)),
    ],
)
def test_only_states_that_the_verb_is_for(verb: str, asked: list[str] | None, meant: tuple[str, ...] | None) -> None:
    """A filter that says nothing of states, or too much, means those."""
    work = _work(JobFilter(queue="mail", status=asked), verb)
    _next(work)
    work.receive(SeqRange(0, 10))
    assert _asked(_next(work))[0].status == meant
