"""The two runners of verbs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.operations.drive import adrive, drive
from holdfast.operations.statement import Operation, Rows, Statement

Runner = Callable[[Operation[Any], Callable[[Statement], Rows]], Any]


def _async(operation: Operation[Any], execute: Callable[[Statement], Rows]) -> Any:
    async def answer(statement: Statement) -> Rows:
        return execute(statement)

    return asyncio.run(adrive(operation, answer))


_runners = pytest.mark.parametrize("run", [drive, _async], ids=["sync", "async"])


@_runners
def test_rows_go_back_to_the_verb(run: Runner) -> None:
    """Each statement's rows are the value of its yield; the verb's return value is the result."""

    def verb() -> Operation[list[str]]:
        first = yield Statement("a")
        second = yield Statement("b", {"n": first[0][0]})
        return [first[0][0], second[0][0]]

    assert run(verb(), lambda statement: [(f"{statement.name}{statement.parameters.get('n', '')}",)]) == ["a", "ba"]


@_runners
def test_verb_without_a_statement(run: Runner) -> None:
    """A verb may have nothing to send."""

    def verb() -> Operation[int]:
        for name in list[str]():
            yield Statement(name)
        return 7

    assert run(verb(), lambda statement: []) == 7


@_runners
def test_failed_statement_ends_the_verb(run: Runner) -> None:
    """The error reaches the caller, and the verb is closed."""
    closed = []

    def verb() -> Operation[None]:
        try:
            yield Statement("a")
        finally:
            closed.append(True)

    def fail(statement: Statement) -> Rows:
        raise ConnectionError(statement.name)

    with pytest.raises(ConnectionError):
        run(verb(), fail)
    assert closed == [True]


@_runners
def test_errors_of_the_verb_reach_the_caller(run: Runner) -> None:
    """Whatever a verb raises on seeing its rows."""

    def verb() -> Operation[None]:
        yield Statement("a")
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run(verb(), lambda statement: [])
