"""Names of steps, and the types in which their results come back."""

from __future__ import annotations

import functools
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast.errors import DuplicateStep, InvalidOption, InvalidPayload
from holdfast.worker.steps import Steps, acall, call_plain


@dataclass
class Point:
    x: int


def point() -> Point:
    return Point(1)


async def apoint() -> Point:
    return Point(1)


def later() -> Awaitable[Point]:
    return apoint()


class Maker:
    def __call__(self) -> Point:
        return Point(1)

    def method(self) -> Point:
        return Point(1)


def untyped():  # type: ignore[no-untyped-def]  # noqa: ANN201 - as people write
    return Point(1)


@functools.wraps(point)
def wrapped(*args: Any) -> Any:
    return point(*args)


def unresolved() -> NoSuchType:  # type: ignore[name-defined]  # noqa: F821 - that is the point
    return {"x": 1}


@pytest.mark.parametrize("fn", [point, apoint, later, Maker(), Maker().method, functools.partial(point), wrapped])
def test_the_type_that_the_function_says(fn: Any) -> None:
    """However it is called."""
    codec = Steps("j").begin("one", fn)
    assert codec.decode(codec.encode(Point(1))) == Point(1)
    with pytest.raises(InvalidPayload):
        codec.encode("no point")


@pytest.mark.parametrize("fn", [untyped, unresolved, lambda: 1, int, print])
def test_anything_where_it_does_not_say(fn: Any) -> None:
    """What comes back is plain JSON."""
    codec = Steps("j").begin("one", fn)
    assert codec.decode(codec.encode((1, {"a": None}))) == [1, {"a": None}]


def test_names() -> None:
    """Once each, and printable."""
    steps = Steps("j")
    steps.begin("one", point)
    steps.begin("one:1", point)
    with pytest.raises(DuplicateStep, match="'one'"):
        steps.begin("one", point)
    for wrong in ("", "a\n", "x" * 300, 7):
        with pytest.raises(InvalidOption, match="step"):
            steps.begin(wrong, point)  # type: ignore[arg-type]  # that is the point


def test_a_result_larger_than_the_limit() -> None:
    """The app's payload limit holds."""
    with pytest.raises(InvalidPayload, match="limit"):
        Steps("j", limit=10).begin("one", untyped).encode("x" * 20)


async def test_calling() -> None:
    """An async handler takes either kind, a thread only plain ones."""
    assert await acall(point, (), {}) == Point(1)
    assert await acall(apoint, (), {}) == Point(1)
    assert call_plain(point, (), {}) == Point(1)
    with pytest.raises(TypeError, match="asynchronous"):
        call_plain(apoint, (), {})
