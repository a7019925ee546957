"""Calls and their options."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import msgspec
import pytest

from holdfast.errors import InvalidOption
from holdfast.model.call import Call, EnqueueOptions, JobDocument, check_options
from holdfast.model.ids import new_id
from holdfast.model.job_type import CallSignature, JobType
from holdfast.model.payload import PayloadCodec
from holdfast.model.retry import Retry


def _handler(n: int) -> None: ...


def _job_type(timeout: timedelta | None = None) -> JobType:
    signature = CallSignature("send", _handler, (), 1000)
    return JobType("send", "mail", 3, Retry(), timeout, signature, PayloadCodec("send", None))


def _call(**options: Any) -> Call[None]:
    job_type = _job_type()
    call: Call[None] = Call(job_type, job_type.signature.encode((1,), {}))
    return call.options(**options) if options else call


def test_document_has_the_types_values() -> None:
    """Without options, queue, priority and timeout are the job type's."""
    job_type = _job_type(timedelta(seconds=1.5))
    call: Call[None] = Call(job_type, job_type.signature.encode((1,), {}))
    document = call.document("an-id", {})
    assert document == JobDocument("an-id", "send", msgspec.Raw(b'{"n":1}'), "mail", 3, timeout_ms=1_500)


def test_options_override() -> None:
    """Options of the enqueue win over the type, those of the call over both."""
    call = _call(priority=-1, tenant="call")
    document = call.document("x", {"priority": 9, "queue": "slow", "max_attempts": 2})
    assert (document.priority, document.queue, document.max_attempts, document.tenant) == (-1, "slow", 2, "call")


def test_options_do_not_change_the_call() -> None:
    """A call can be reused with other options."""
    call = _call()
    assert call.options(priority=1) is not call
    assert call.document("x", {}).priority == 3


def test_none_is_absent() -> None:
    """None means not given, for every option."""
    every: dict[str, Any] = dict.fromkeys(get_type_hints(EnqueueOptions))
    assert _call().document("x", EnqueueOptions(**every)) == _call().document("x", {})  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("id", ""),
        ("id", 17),
        ("queue", ""),
        ("queue", "a\x00"),
        ("queue", 5),
        ("priority", 1.5),
        ("priority", True),
        ("priority", 32_768),
        ("priority", -32_769),
        ("priority", "high"),
        ("at", datetime(2026, 1, 1)),  # noqa: DTZ001 - naive on purpose
        ("at", "tomorrow"),
        ("at", 1_700_000_000),
        ("delay", -1),
        ("delay", math.nan),
        ("delay", "5m"),
        ("delay", timedelta(days=40_000)),
        ("max_attempts", 0),
        ("max_attempts", 2.0),
        ("max_attempts", 40_000),
        ("tenant", ""),
        ("tenant", "x" * 201),
        ("headers", {"a": 1}),
        ("headers", {1: "a"}),
        ("headers", {"a": "\x00"}),
        ("headers", {"a": "\ud800"}),
        ("headers", [("a", "b")]),
        ("headers", "a=b"),
        ("headers", {"a": "x" * 20_000}),
        ("colour", "red"),
        ("tx", object()),
    ],
)
def test_bad_options_are_named(option: str, wrong: object) -> None:
    """Refused on the call and on the enqueue alike, before anything is sent."""
    options: Any = {option: wrong}
    with pytest.raises(InvalidOption) as caught:
        check_options(options)
    assert caught.value.option == option
    with pytest.raises(InvalidOption):
        _call().options(**options)


def test_at_and_delay_exclude_each_other() -> None:
    """Given together, or one by the call and one by the enqueue."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(InvalidOption, match="at="):
        check_options({"at": at, "delay": 5})
    with pytest.raises(InvalidOption, match="at="):
        _call(at=at).document("x", {"delay": 5})


def test_accepted_options() -> None:
    """Every option at the edge of what it may be."""
    job_id = new_id()
    options = EnqueueOptions(
        id=job_id, queue="q" * 200, priority=-32_768, at=datetime(9999, 1, 1, tzinfo=UTC), max_attempts=32_767,
        tenant="t", headers={"": "", "ü": "✓"},
    )  # fmt: skip
    document = _call().document("x", options)
    assert (document.id, document.priority, document.scheduled_at) == (job_id, -32_768, "9999-01-01T00:00:00.000000Z")
    assert document.headers is not None
    assert msgspec.json.decode(document.headers) == {"": "", "ü": "✓"}
    assert _call().document("x", {"delay": timedelta(microseconds=1)}).delay_ms == 1
    assert _call().document("x", {"delay": 0}).delay_ms == 0


def test_call_shows_what_it_is() -> None:
    """The representation names type and arguments."""
    assert repr(_call()) == '<Call send {"n":1}>'
