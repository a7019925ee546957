"""Verbs that a second run would answer otherwise, made fit to be repeated after a commit that was not answered."""

from __future__ import annotations

from typing import Generic, TypeVar

from holdfast.errors import SerializationConflict
from holdfast.operations.statement import ATOMICALLY, Operation, Statement, Verb
from holdfast.operations.within import within

T = TypeVar("T")


class Repeatable(Generic[T]):
    """Remembers what its last try did, if that was committed, and asks about that before it does anything again.

    What a person does has no id that would show it is done: a job cancelled a moment ago, by us or by somebody else,
    cannot be cancelled.  The number of a transaction is the server's, so after a fail-over to a server that has not
    got the transaction the answer may be that of another one.
    """

    def __init__(self, verb: Verb[T]) -> None:
        self._verb = verb
        self._transaction: str | None = None
        self._result: list[T] = []

    def run(self) -> Operation[T]:
        """The verb, or what came of it before."""
        yield ATOMICALLY
        if self._transaction is not None and self._result:
            ((status,),) = yield Statement("find_transaction", {"transaction": self._transaction})
            if status == "committed":
                return self._result[0]
            if status == "in progress":
                raise SerializationConflict(
                    "the connection was lost during the commit, and the server has not ended that transaction yet; "
                    "look whether it was done before you try again"
                )
        self._result.clear()
        ((self._transaction,),) = yield Statement("name_transaction")
        self._result.append((yield from within(self._verb())))
        return self._result[0]
