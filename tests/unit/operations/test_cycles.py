"""Cycles in a graph of waits."""

from __future__ import annotations

import random

import pytest

from holdfast.operations.cycles import Wait, cycles_among, reaches


def waits(*ways: str) -> list[Wait]:
    """`ab` is a chain a that waits for a chain b."""
    return [Wait(way[0], f"job of {way[0]}", way[1]) for way in ways]


@pytest.mark.parametrize(
    ("ways", "found"),
    [
        ([], []),
        (["ab", "bc", "ac", "cd"], []),
        (["aa"], [{"a"}]),
        (["ab", "ba"], [{"a", "b"}]),
        (["xa", "ab", "bc", "ca", "cy"], [{"a", "b", "c"}]),
        (["ab", "ba", "cd", "de", "ec", "bc"], [{"a", "b"}, {"c", "d", "e"}]),
        (["ax", "ay", "xz", "yz", "zq", "qy"], [{"y", "z", "q"}]),
    ],
)
def test_cycles(ways: list[str], found: list[set[str]]) -> None:
    """Each is a closed way, whatever leads to it or away from it."""
    cycles = list(cycles_among(waits(*ways)))
    assert [{wait.chain_id for wait in cycle} for cycle in cycles] == found
    for cycle in cycles:
        assert all(wait.blocked_by == cycle[(place + 1) % len(cycle)].chain_id for place, wait in enumerate(cycle))


@pytest.mark.parametrize("seed", range(200))
def test_one_is_found_if_there_is_one(seed: int) -> None:
    """Compared with asking of every chain whether it reaches itself."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    ways = {chance.choice("abcdefgh") + chance.choice("abcdefgh") for _ in range(chance.randint(1, 12))}
    graph: dict[str, set[str]] = {}
    for way in ways:
        graph.setdefault(way[0], set()).add(way[1])
    is_circular = any(reaches(onward, chain, graph) for chain, onward in graph.items())
    assert bool(list(cycles_among(waits(*sorted(ways))))) is is_circular


def test_a_long_way() -> None:
    """Deeper than Python's stack."""
    chain = [Wait(str(number), "", str(number + 1)) for number in range(20_000)]
    (cycle,) = cycles_among([*chain, Wait("20000", "", "0")])
    assert len(cycle) == 20_001
