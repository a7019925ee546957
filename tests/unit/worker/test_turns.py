"""The outcomes of a run are written in its order: completions together, what goes back together, all else alone."""

from __future__ import annotations

from holdfast.model.job import JobError
from holdfast.operations.complete_jobs import Completion
from holdfast.operations.fail_jobs import Failure
from holdfast.operations.lease import Lease
from holdfast.worker.turns import Turns

RUN = 7


def done(name: str) -> Completion:
    return Completion(name, 1)


def failed(name: str) -> Failure:
    return Failure(name, 1, JobError("x", "y"), delay_ms=0, is_final=False, max_attempts=5)


def back(name: str) -> Lease:
    return Lease(name, 1)


def test_completions_go_together() -> None:
    turns: Turns[Completion | Lease] = Turns()
    assert all(turns.take(done(name), (RUN, place)) for place, name in enumerate("abc"))
    assert [turns.written((RUN, place)) for place in range(3)] == [[], [], []]


def test_what_goes_back_goes_together() -> None:
    turns: Turns[Completion | Lease | Failure] = Turns()
    assert turns.take(failed("a"), (RUN, 0))
    assert not turns.take(back("b"), (RUN, 1))
    assert not turns.take(back("c"), (RUN, 2))
    assert turns.written((RUN, 0)) == [back("b"), back("c")]


def test_anything_else_waits_for_what_is_in_front() -> None:
    turns: Turns[Completion | Lease] = Turns()
    assert turns.take(done("a"), (RUN, 0))
    assert turns.take(done("b"), (RUN, 1))
    assert not turns.take(back("c"), (RUN, 2))
    assert turns.written((RUN, 1)) == []
    assert turns.written((RUN, 0)) == [back("c")]
    assert turns.written((RUN, 2)) == []


def test_nothing_passes_what_is_no_completion() -> None:
    turns: Turns[Completion | Lease | Failure] = Turns()
    assert turns.take(failed("a"), (RUN, 0))
    assert not turns.take(done("b"), (RUN, 1))
    assert not turns.take(back("c"), (RUN, 2))
    assert turns.written((RUN, 0)) == [done("b")]
    assert turns.written((RUN, 1)) == [back("c")]
    assert turns.written((RUN, 2)) == []


def test_what_waits_is_not_passed_by_a_completion() -> None:
    turns: Turns[Completion | Lease] = Turns()
    assert turns.take(done("a"), (RUN, 0))
    assert not turns.take(back("b"), (RUN, 1))
    assert not turns.take(done("c"), (RUN, 2))
    assert turns.written((RUN, 0)) == [back("b")]
    assert turns.written((RUN, 1)) == [done("c")]


def test_runs_do_not_wait_for_each_other() -> None:
    turns: Turns[Completion | Lease] = Turns()
    assert turns.take(back("a"), (1, 0))
    assert turns.take(back("b"), (2, 0))


def test_where_a_row_is_locked_only_the_first_is_tried_again() -> None:
    """The others come after it, in their order, however they came back."""
    turns: Turns[Completion | Lease] = Turns()
    for place, name in enumerate("abcd"):
        assert turns.take(done(name), (RUN, place))
    assert turns.written((RUN, 0)) == []
    assert not turns.stuck(done("d"), (RUN, 3))
    assert not turns.stuck(done("c"), (RUN, 2))
    assert turns.stuck(done("b"), (RUN, 1))
    assert not turns.take(done("e"), (RUN, 4))
    assert turns.written((RUN, 1)) == [done("c"), done("d"), done("e")]


def test_what_is_sent_already_is_called_back_from_behind_one_that_is_locked() -> None:
    turns: Turns[Completion | Lease] = Turns()
    for place, name in enumerate("ab"):
        assert turns.take(done(name), (RUN, place))
    assert not turns.must_wait(done("b"), (RUN, 1))
    assert turns.stuck(done("a"), (RUN, 0))
    assert turns.must_wait(done("b"), (RUN, 1))
    assert turns.written((RUN, 0)) == [done("b")]
    assert not turns.must_wait(done("b"), (RUN, 1))
