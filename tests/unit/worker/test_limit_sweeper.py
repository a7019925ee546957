"""How much of a key is put back that has room round after round."""

from __future__ import annotations

import json
from collections import Counter
from typing import TypeVar

import pytest

from holdfast.operations.statement import Statement, Verb
from holdfast.worker.maintenance.limit_sweeper import LimitSweeper

T = TypeVar("T")


class Keys:
    """A store in which nobody ever takes anything: all keys have room for so many, for ever."""

    def __init__(self, keys: int, places: int = 1) -> None:
        self.keys = keys
        self.places = places
        self.freed: list[Counter[str]] = []

    async def run(self, verb: Verb[T], *, read_only: bool = False) -> T:
        operation = verb()
        statement = next(operation)
        assert isinstance(statement, Statement)
        rows: list[list[object]] = []
        if statement.name == "find_limited":
            rows = [["q", f"k{number}", self.places] for number in range(self.keys)]
        elif statement.name == "free_limits":
            for room in json.loads(str(statement.parameters["keys"])):
                self.freed[-1][room["concurrency_key"]] += room["places"]
        try:
            operation.send(rows)
        except StopIteration as end:
            answer: T = end.value
            return answer
        raise AssertionError(statement.name)


async def rounds(store: Keys, count: int) -> list[Counter[str]]:
    sweeper = LimitSweeper(store, lambda _: None)
    for _ in range(count):
        store.freed.append(Counter())
        await sweeper.run_once()
    return store.freed


async def test_twice_as_many_each_round_up_to_a_bound() -> None:
    """A thousand is what one statement puts back of a key."""
    assert [freed["k0"] for freed in await rounds(Keys(1), 12)] == [*(2**power for power in range(10)), 1000, 1000]


@pytest.mark.parametrize(("keys", "each"), [(10, 200), (300, 6), (999, 2)])
async def test_many_keys_share_what_is_put_back_in_vain(keys: int, each: int) -> None:
    """That may be all keys, when all workers are busy elsewhere."""
    assert (await rounds(Keys(keys), 12))[-1] == {f"k{number}": each for number in range(keys)}


async def test_other_room_begins_anew() -> None:
    """Somebody has come or gone, so the key gets on."""
    store = Keys(1, places=4)
    sweeper = LimitSweeper(store, lambda _: None)
    for places in (4, 4, 4, 3, 3, 4):
        store.places = places
        store.freed.append(Counter())
        await sweeper.run_once()
    assert [freed["k0"] for freed in store.freed] == [4, 8, 16, 3, 6, 4]


async def test_a_key_that_was_full_begins_anew() -> None:
    """It is forgotten."""
    store = Keys(1)
    sweeper = LimitSweeper(store, lambda _: None)
    for keys in (1, 1, 0, 1):
        store.keys = keys
        store.freed.append(Counter())
        await sweeper.run_once()
    assert [freed["k0"] for freed in store.freed] == [1, 2, 0, 1]
