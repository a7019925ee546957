"""A verb as part of another one."""

from __future__ import annotations

from typing import TypeVar

from holdfast.operations.statement import ATOMICALLY, Operation

T = TypeVar("T")


def within(operation: Operation[T]) -> Operation[T]:
    """The transaction that it asks for is there already."""
    try:
        statement = next(operation)
        if statement is ATOMICALLY:
            statement = operation.send(())
        while True:
            statement = operation.send((yield statement))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a generator's value is not typed
    finally:
        operation.close()
