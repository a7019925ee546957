"""Calls and their options."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import msgspec
import pytest

from holdfast.errors import InvalidOption
from holdfast.model.call import Call, EnqueueOptions, JobDocument, check_options
from holdfast.model.ids import new_id
from holdfast.model.job import Chain, Outcome
from holdfast.model.job_type import CallSignature, JobType
from holdfast.model.payload import PayloadCodec
from holdfast.model.retry import Retry
from holdfast.model.ring import bucket_of
from holdfast.model.status import Status


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
    assert _call().document("x", EnqueueOptions(**every)) == _call().document("x", {})  # type: ignore[typeddict-item]  # as it comes from JSON
    assert _call(queue="slow").options(**every).document("x", {}).queue == "slow"


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
        ("partition_key", ""),
        ("partition_key", "x" * 201),
        ("partition_key", "a\tb"),
        ("partition_key", "a\x00"),
        ("partition_key", 17),
        ("ordering", "lifo"),
        ("ordering", ""),
        ("ordering", ["fifo"]),
        ("shards", 0),
        ("shards", 1025),
        ("shards", True),
        ("shards", "2"),
        ("concurrency_key", ""),
        ("concurrency_key", 5),
        ("flags", "gpu"),
        ("flags", b"gpu"),
        ("flags", 5),
        ("flags", [5]),
        ("flags", [""]),
        ("flags", {"gpu": 1}),
        ("flags", [str(number) for number in range(101)]),
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


@pytest.mark.parametrize(("option", "value"), [("ordering", "fifo"), ("shards", 2)])
def test_order_needs_a_key(option: str, value: object) -> None:
    """Found when the call is enqueued: the key may come from either side, or from the type."""
    options: Any = {option: value}
    with pytest.raises(InvalidOption, match="needs a partition_key") as caught:
        _call().document("x", options)
    assert (caught.value.option, caught.value.value) == (option, value)
    for document in (
        _call(**options).document("x", {"partition_key": "k"}),
        _call(partition_key="k").document("x", options),
    ):
        assert document.extras.partition_key in ("k", "k#0", "k#1")


def test_partition_key() -> None:
    """In order of enqueue unless said otherwise, with the bucket that the ring knows."""
    extras = _call(partition_key="k").document("x", {}).extras
    assert (extras.partition_key, extras.partition_bucket, extras.ordering) == ("k", bucket_of("k"), "fifo")
    assert _call(partition_key="k", ordering="serial").document("x", {}).extras.ordering == "serial"
    assert _call(flags=["b", "a", "b"]).document("x", {}).extras.flags == ["a", "b"]
    assert _call(flags=(word for word in "ab")).document("x", {}).extras.flags == ["a", "b"]
    assert _call(flags=[]).document("x", {}).extras.flags is None


def test_shards() -> None:
    """A sub-key by the id, or by the deduplication key; one is the key itself; they fit into a key."""
    call = _call(partition_key="k", shards=5)
    found = {call.document(new_id(), {}).extras.partition_key for _ in range(200)}
    assert found == {f"k#{number}" for number in range(5)}
    extras = call.document("x", {}).extras
    assert extras.partition_key is not None
    assert extras.partition_bucket == bucket_of(extras.partition_key)
    assert len({call.document(new_id(), {"dedup": "d"}).extras.partition_key for _ in range(20)}) == 1
    assert call.options(shards=1).document("x", {}).extras.partition_key == "k"
    assert call.options(partition_key="x" * 195).document("x", {}).extras.partition_key is not None
    with pytest.raises(InvalidOption, match=r"partition_key='xxx.*195"):
        call.options(partition_key="x" * 196).document("x", {})


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


_CHAIN: Chain[Any] = Chain(new_id(), "send", Status.PENDING, Outcome.CREATED)


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ([_CHAIN], [_CHAIN.id]),
        (_CHAIN, [_CHAIN.id]),
        ((_CHAIN.id,), [_CHAIN.id]),
        ({uuid.UUID(_CHAIN.id)}, [_CHAIN.id]),
        ((each for each in [_CHAIN.id]), [_CHAIN.id]),
        ([], None),
    ],
)
def test_blockers(given: Any, stored: list[str] | None) -> None:
    """A chain, or chains and ids in anything that can be walked through."""
    document = _call(blockers=given).document("x", {}) if given != [] else _call().document("x", {"blockers": given})
    assert document.extras.blockers == stored


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("0198c5a0", "must be a list of chains"),
        (b"0198c5a0", "must be a list of chains"),
        (uuid.UUID(_CHAIN.id), "must be a list of chains"),
        (7, "must be a list of chains"),
        ({_CHAIN.id: 1}, "must be a list of chains"),
        ([7], "this is neither"),
        ([None], "this is neither"),
        ([[_CHAIN]], "this is neither"),
        ([""], "printable"),
        ([_CHAIN, _CHAIN.id], "named twice"),
        (["x" * 5000], "printable"),
    ],
)
def test_bad_blockers(given: Any, words: str) -> None:
    """Each is an error about blockers, in a few words."""
    with pytest.raises(InvalidOption, match=words) as caught:
        _call(blockers=given)
    assert caught.value.option == "blockers"
    assert len(str(caught.value)) < 300


def test_calls_are_no_blockers() -> None:
    """Nor is what was not enqueued yet; its fields are not shown."""
    with pytest.raises(InvalidOption, match="a Call") as caught:
        _call(blockers=[_call()])
    assert len(str(caught.value)) < 200
