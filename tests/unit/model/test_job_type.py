"""What a function's signature says about its jobs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest

from holdfast.errors import HoldfastError, InvalidJobType, InvalidPayload
from holdfast.model.job_type import CallSignature


class Ctx:
    """Stands for a context type."""


def _signature(function: Callable[..., Any]) -> CallSignature:
    return CallSignature("job", function, (Ctx,), 10_000)


def _plain(a: int, b: str = "x", *, c: float | None = None) -> None: ...


def test_arguments_by_place_and_name() -> None:
    """Both ways of calling store the same."""
    signature = _signature(_plain)
    assert signature.encode((1, "y"), {}) == signature.encode((1,), {"b": "y"}) == b'{"a":1,"b":"y"}'
    assert signature.decode(b'{"a":1,"b":"y"}') == {"a": 1, "b": "y"}


def test_defaults_are_not_stored() -> None:
    """An omitted argument is the handler's business when it runs."""
    signature = _signature(_plain)
    assert signature.encode((1,), {}) == b'{"a":1}'
    assert signature.decode(b'{"a":1}') == {"a": 1}


def test_null_is_not_omitted() -> None:
    """None given is None received, whatever the default."""
    signature = _signature(_plain)
    assert signature.decode(signature.encode((1,), {"c": None})) == {"a": 1, "c": None}


@pytest.mark.parametrize(
    ("args", "kwargs", "named"),
    [
        ((), {}, "a"),
        ((1,), {"z": 1}, "z"),
        (("1",), {}, "a"),
        ((1,), {"b": 2}, "b"),
        ((1,), {"c": "2.5"}, "c"),
        ((True,), {}, "a"),
        ((1.5,), {}, "a"),
        ((1, "b", 2.0, 4), {}, "3 arguments"),
        ((1,), {"a": 1}, "a"),
        ((None,), {}, "a"),
    ],
)
def test_wrong_arguments_are_named(args: tuple[object, ...], kwargs: dict[str, object], named: str) -> None:
    """Missing, unknown, of the wrong type, too many or given twice."""
    with pytest.raises(InvalidPayload) as caught:
        _signature(_plain).encode(args, kwargs)
    assert named in caught.value.problem
    assert caught.value.type_name == "job"


def test_context_comes_first() -> None:
    """It is no argument of the job."""

    def handler(ctx: Ctx, a: int) -> None: ...

    signature = _signature(handler)
    assert (signature.wants_context, signature.names) == (True, ("a",))
    assert signature.encode((1,), {}) == b'{"a":1}'


def test_context_by_type_not_by_name() -> None:
    """A parameter called ctx of another type is an argument."""

    def handler(ctx: int) -> None: ...

    assert not _signature(handler).wants_context


def _args(*values: int) -> None: ...
def _kwargs(**values: int) -> None: ...
def _positional(a: int, /) -> None: ...
def _late_context(a: int, ctx: Ctx) -> None: ...
def _unresolvable(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point
def _unresolvable_attribute(a: dt.missing) -> None: ...  # type: ignore[name-defined]  # that is the point
def _unresolvable_return() -> Missing: ...  # type: ignore[name-defined]  # noqa: F821 - as above
def _unreadable(a: Callable[[], int]) -> None: ...
def _custom(a: Ctx2) -> None: ...


class Ctx2:
    """A class that JSON knows nothing of."""


def _nested_custom(a: dict[str, list[Ctx2 | None]]) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        _args,
        _kwargs,
        _positional,
        _late_context,
        _unresolvable,
        _unresolvable_attribute,
        _unresolvable_return,
        _custom,
        _nested_custom,
        _unreadable,
    ],
    ids=lambda function: function.__name__,
)
def test_refused_signatures(function: Callable[..., Any]) -> None:
    """What could never be stored and read back is refused at definition, with the job type in the message."""
    with pytest.raises(InvalidJobType, match="job: "):
        _signature(function)


def test_hint_that_is_no_python() -> None:
    """A hint that cannot even be parsed."""

    def handler(a: int) -> None: ...

    handler.__annotations__["a"] = "list["
    with pytest.raises(InvalidJobType, match="type hint"):
        _signature(handler)


def test_no_hints_means_anything_goes() -> None:
    """Without hints every JSON value is accepted, with and without a default."""

    def handler(a, b=5): ...  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - that is the point

    signature = _signature(handler)
    assert signature.decode(signature.encode(({"x": [1, None]},), {"b": None})) == {"a": {"x": [1, None]}, "b": None}
    assert signature.decode(signature.encode((1,), {})) == {"a": 1}


def test_no_parameters() -> None:
    """A job without arguments stores an empty object."""

    def handler() -> None: ...

    assert _signature(handler).encode((), {}) == b"{}"
    with pytest.raises(InvalidPayload):
        _signature(handler).encode((), {"a": 1})


@pytest.mark.parametrize(
    "name", ["self", "cls", "name", "args", "kwargs", "type", "id", "_private", "größe", "options"]
)
def test_parameter_names(name: str) -> None:
    """Any name that Python allows."""
    namespace: dict[str, Any] = {}
    exec(f"def handler({name}: int, other: int = 2) -> None: ...", namespace)  # noqa: S102 - names come from this test
    signature = _signature(namespace["handler"])
    assert signature.decode(signature.encode((), {name: 1})) == {name: 1}


def test_stored_input_of_another_time() -> None:
    """Input that no longer fits is an error of ours, not of the codec's library."""
    with pytest.raises(HoldfastError):
        _signature(_plain).decode(b'{"a":"text"}')
    with pytest.raises(HoldfastError):
        _signature(_plain).decode(b"not json")
