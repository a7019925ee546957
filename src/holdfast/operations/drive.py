"""The two runners that drive a verb: what to do is the verb's, how to wait is theirs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.operations.statement import ATOMICALLY, Operation, Rows, Statement

T = TypeVar("T")


def drive(
    operation: Operation[T], execute: Callable[[Statement], Rows], begin: Callable[[], object] | None = None
) -> T:
    """Run to the end in this thread; `begin` opens a transaction, where there is none anyway."""
    try:
        statement = next(operation)
        if statement is ATOMICALLY:
            if begin is not None:
                begin()
            statement = operation.send(())
        while True:
            statement = operation.send(execute(statement))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a generator's value is not typed
    finally:
        operation.close()


async def adrive(
    operation: Operation[T],
    execute: Callable[[Statement], Awaitable[Rows]],
    begin: Callable[[], Awaitable[object]] | None = None,
) -> T:
    """Run to the end on the event loop."""
    try:
        statement = next(operation)
        if statement is ATOMICALLY:
            if begin is not None:
                await begin()
            statement = operation.send(())
        while True:
            statement = operation.send(await execute(statement))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a generator's value is not typed
    finally:
        operation.close()
