"""What may be stored as JSON, and what comes back."""

from __future__ import annotations

import enum
import math
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidJobType, InvalidPayload, PayloadTooLarge
from holdfast.model.payload import PayloadCodec, from_json, to_json


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Point:
    x: float
    label: str | None = None


class Movie(TypedDict):
    title: str
    year: int


class Pair(NamedTuple):
    left: int
    right: str


@attrs.define
class Crate:
    weight: Decimal


class Struct(msgspec.Struct):
    when: datetime


class Flat(msgspec.Struct, forbid_unknown_fields=True):
    number: float
    text: str


class Order(pydantic.BaseModel):
    number: int
    total: Decimal
    tags: set[str] = set()
    ratio: float | None = None


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 2**70),
        (int, -(2**63)),
        (float, 0.1),
        (float, 1e300),
        (bool, True),
        (str, "grüße 👩‍👩‍👧 \u2028 \\u0000"),
        (None, None),
        (bytes, b"\x00\xff"),
        (datetime, datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)),
        (datetime, datetime(2026, 1, 2, 3, 4, 5)),  # noqa: DTZ001 - a payload may be naive
        (date, date(2026, 1, 2)),
        (time, time(3, 4, 5)),
        (timedelta, timedelta(days=1, microseconds=7)),
        (Decimal, Decimal("10.10")),
        (Decimal, Decimal("1E+30")),
        (uuid.UUID, uuid.UUID(int=7)),
        (Colour, Colour.RED),
        (Level, Level.HIGH),
        (Literal["a", 2], "a"),
        (Point, Point(1.5)),
        (Point, Point(1.5, "x")),
        (Movie, Movie(title="M", year=1931)),
        (Pair, Pair(1, "r")),
        (Crate, Crate(Decimal("1.50"))),
        (Struct, Struct(datetime(2026, 1, 1, tzinfo=UTC))),
        (Order, Order(number=1, total=Decimal("9.90"), tags={"a", "b"})),
        (list[Order], [Order(number=1, total=Decimal(1))]),
        (dict[str, Point | None], {"a": Point(1.0), "b": None}),
        (int | None, None),
        (int | str, "x"),
        (int | str, 5),
        (list[int] | None, [1]),
        (tuple[int, str], (1, "a")),
        (set[int], {1, 2}),
        (dict[int, str], {1: "a"}),
        (Any, {"a": [1, None, {"b": 0.5}]}),
        (Annotated[int, msgspec.Meta(ge=0)], 3),
        (list[Any], []),
        (dict[str, Any], {}),
    ],
    ids=lambda value: f"{value!r:.40}",
)
def test_round_trip(annotation: Any, value: object) -> None:
    """By type hint, the value comes back equal and of the same type."""
    codec: PayloadCodec[Any] = PayloadCodec("job", annotation)
    found = codec.decode(codec.encode(value))
    assert found == value
    assert type(found) is type(value)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(_json)
def test_any_json_round_trips(value: object) -> None:
    """Whatever JSON can say is stored and read back."""
    codec: PayloadCodec[Any] = PayloadCodec("job", Any)
    assert codec.decode(codec.encode(value)) == value
    assert from_json(to_json(value)) == value


class _Model(pydantic.BaseModel):
    ratio: float | None
    text: str = ""


_CIRCLE: list[Any] = []
_CIRCLE.append(_CIRCLE)


def _deep(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("annotation", "value", "named"),
    [
        (float, math.nan, "nan"),
        (float, math.inf, "inf"),
        (float | None, math.nan, "nan"),
        (float | None, -math.inf, "inf"),
        (Any, math.nan, "nan"),
        (Any, {"a": [1, {"b": math.inf}]}, "$.a[1].b"),
        (list[float | None], [1.0, None, math.nan], "[2]"),
        (Point, Point(math.nan), "nan"),
        (Any, Point(math.inf), "inf"),
        (dict[str, float | None], {"k": math.nan}, "k"),
        (_Model, _Model(ratio=math.nan), "ratio"),
        (_Model, _Model(ratio=1, text="a\x00"), "U+0000"),
        (str, "a\x00b", "U+0000"),
        (Any, {"a": ["ok", "\x00"]}, "$.a[1]"),
        (Any, {"\x00": 1}, "key"),
        (str, "\ud800", "surrogate"),
        (Any, {"a": "x\udfff"}, "surrogate"),
        (Any, {"\ud800": 1}, "surrogate"),
        (Any, _CIRCLE, "contains itself"),
        (Any, _deep(100_000), "nested"),
        (Any, object(), "object"),
        (Any, {"a": object()}, "object"),
        (Any, lambda: 1, "function"),
        (Any, {1j}, "complex"),
        (int, "7", "int"),
        (int, 7.5, "int"),
        (str, 7, "str"),
        (list[int], [1, "2"], "$[1]"),
        (Movie, {"title": "M"}, "year"),
        (Colour, "green", "green"),
        (Order, {"number": "x", "total": 1}, "number"),
        (Literal["a"], "b", "b"),
        (Annotated[int, msgspec.Meta(ge=0)], -1, "0"),
        (None, 1, "null"),
        (Flat, {"number": math.nan, "text": ""}, "nan at $.number"),
        (Flat, {"number": 1, "text": math.inf}, "inf at $.text"),
        (Flat, {"number": 1, "text": "", math.nan: 2}, "nan at $ (key)"),
        (Flat, {"number": 1, "text": "null", "more": -math.inf}, "-inf at $.more"),
        (Flat, {"number": 1, "text": None}, "$.text"),
        (Flat, {"number": 1, "text": "\x00"}, "U+0000"),
        (Flat, {"number": _deep(400), "text": "null"}, "$.number"),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_refused(annotation: Any, value: object, named: str) -> None:
    """Refused before anything is sent, with the owner and the place or the value in the message."""
    codec: PayloadCodec[Any] = PayloadCodec("send_receipt", annotation)
    with pytest.raises(InvalidPayload) as caught:
        codec.encode(value)
    assert caught.value.type_name == "send_receipt"
    assert str(caught.value).startswith("send_receipt: ")
    assert named in caught.value.problem


def test_nothing_is_refused_by_mistake() -> None:
    """Texts and values that look like trouble: the words null and nan, and a backslash before u0000."""
    codec: PayloadCodec[Any] = PayloadCodec("job", Any)
    for value in ({"a": None, "b": "null NaN Infinity"}, "\\u0000", ["\\", "u0000"], {"null": None}):
        assert codec.decode(codec.encode(value)) == value


def test_limit_is_exact() -> None:
    """A payload of the limit passes, one byte more is refused with both numbers."""
    codec: PayloadCodec[Any] = PayloadCodec("job", str, 100)
    assert len(codec.encode("x" * 98)) == 100
    with pytest.raises(PayloadTooLarge, match=r"101 bytes.*100") as caught:
        codec.encode("x" * 99)
    assert (caught.value.size, caught.value.limit) == (101, 100)
    with pytest.raises(PayloadTooLarge):
        codec.encode("ö" * 50)


@pytest.mark.parametrize("annotation", [object, type(lambda: 1), list[object], complex, dict[str, PayloadCodec[Any]]])
def test_types_that_could_never_be_read_are_refused(annotation: Any) -> None:
    """At definition, not when the first job runs."""
    with pytest.raises(InvalidJobType, match="job: "):
        PayloadCodec("job", annotation)


def test_accepts_null() -> None:
    """Known beforehand, so that a handler without a result costs nothing."""
    answers = [PayloadCodec("job", kind).accepts_null for kind in (None, Any, int | None, int, str, Order)]
    assert answers == [True, True, True, False, False, False]


def test_recursive_types() -> None:
    """A type that contains itself is walked once."""

    class Tree(msgspec.Struct):
        children: list[Tree] = []

    Tree.__annotations__["children"] = list[Tree]
    codec: PayloadCodec[Any] = PayloadCodec("job", Tree)
    assert codec.decode(codec.encode(Tree([Tree()]))) == Tree([Tree()])


def test_nesting_has_a_limit() -> None:
    """What is accepted can be read on any stack and by SQLite; brackets in texts and beside each other do not count."""
    codec: PayloadCodec[Any] = PayloadCodec("job", Any)
    assert codec.decode(codec.encode(_deep(500))) == _deep(500)
    with pytest.raises(InvalidPayload, match="more than 500 levels"):
        codec.encode(_deep(501))
    flats: tuple[Any, ...] = ([[]] * 2_000, "[" * 2_000, ['[{"' * 500, "\\\\" * 9], {"[": "{" * 600})
    for flat in flats:
        assert codec.decode(codec.encode(flat)) == flat


def test_garbage_in_the_database() -> None:
    """What cannot be read is InvalidPayload, whoever wrote it."""
    codec: PayloadCodec[Any] = PayloadCodec("job", int)
    for data in (b"", b"{", b"\xff", b'"x"', b"[1"):
        with pytest.raises(InvalidPayload):
            codec.decode(data)
