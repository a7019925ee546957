"""settings: what operators have set holds, is on record, and can be taken back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.model.retry import Retry
from holdfast.model.settings import RetrySettings, checked_setting, checked_value
from holdfast.operations.forget_audit import forget_audit
from holdfast.operations.settings import list_settings, set_setting, unset_setting
from holdfast.operations.worker_life import Pulse, WorkerIdentity, heartbeat
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import DEAD_AFTER, Harness

CASES = Cases("settings")

_IDENTITY = WorkerIdentity(id="w1", version="1.2.3", queues=["default"])


async def put(h: Harness, name: str, value: object, type_name: str | None = None) -> None:
    key, stored = checked_setting(name, type_name), checked_value(name, value)
    await h.run(lambda: set_setting(key, stored, "ada"))


async def shown(h: Harness) -> list[tuple[str, str | None, Any]]:
    found = await h.run(list_settings, read_only=True)
    return [(each.name, each.type_name, each.value) for each in found]


async def pulse(h: Harness) -> Pulse:
    return await h.run(lambda: heartbeat(_IDENTITY, DEAD_AFTER, is_draining=False))


@CASES
async def set_changed_and_taken_back(h: Harness) -> None:
    """Of all types and of one, each for itself; the last value holds, with its time."""
    await put(h, "max_attempts", 7)
    await put(h, "max_attempts", 3, "send:mail")
    await put(h, "keep_completed", timedelta(days=1), "send:mail")
    await put(h, "archive", value=True)
    h.clock.advance(60)
    await put(h, "max_attempts", 9)
    assert await shown(h) == [
        ("archive", None, True),
        ("keep_completed", "send:mail", 86400.0),
        ("max_attempts", None, 9),
        ("max_attempts", "send:mail", 3),
    ]
    changed = {each.name: each.changed_at for each in await h.run(list_settings) if each.type_name is None}
    assert (changed["max_attempts"], changed["archive"]) == (h.now, h.now - timedelta(minutes=1))
    assert await h.run(lambda: unset_setting("max_attempts:send:mail", "ada")) is True
    assert await h.run(lambda: unset_setting("max_attempts:send:mail", "ada")) is False
    assert [name for name, *_ in await shown(h)] == ["archive", "keep_completed", "max_attempts"]


@CASES
async def who_set_what_is_on_record(h: Harness) -> None:
    """Each change, with the value; taking back what was not set too."""
    await put(h, "retry_initial", 2.5, "send")
    await h.run(lambda: unset_setting("retry_initial:send", None))
    await h.run(lambda: unset_setting("archive", "bob"))
    rows = h.sql("SELECT actor, verb, outcome, CAST(detail AS text) FROM {audit} ORDER BY seq")
    assert [tuple(row[:3]) for row in rows] == [
        ("ada", "set_setting", "set"),
        (None, "unset_setting", "unset"),
        ("bob", "unset_setting", "not_set"),
    ]
    assert [part for part in ('"retry_initial"', '"send"', "2.5") if part not in rows[0][3]] == []


@CASES
async def heartbeats_bring_what_is_set_for_retries(h: Harness) -> None:
    """And nothing else: no worker asks for it."""
    await h.register("w1")
    assert (await pulse(h)).settings is None
    await put(h, "max_attempts", 7)
    assert (await pulse(h)).settings is None
    await put(h, "retry_initial", 10)
    await put(h, "retry_factor", 3.0, "send")
    heard = (await pulse(h)).retry_settings
    assert heard == RetrySettings({None: {"initial": 10}, "send": {"factor": 3.0}})
    assert heard.over(Retry(jitter=0), "send").delay(3, 0.5) == timedelta(seconds=90)
    assert heard.over(Retry(jitter=0), "other").delay(3, 0.5) == timedelta(seconds=40)
    await h.run(lambda: unset_setting("retry_initial", None))
    await h.run(lambda: unset_setting("retry_factor:send", None))
    assert (await pulse(h)).retry_settings == RetrySettings()


@CASES
async def attempts_are_those_that_are_set(h: Harness) -> None:
    """For the type before for all; at once, and back again."""
    await put(h, "max_attempts", 1, "sum")
    await put(h, "max_attempts", 9)
    (lease,) = await h.put_and_claim()
    assert (await h.fail(lease)).dead == {lease.id}
    await h.run(lambda: unset_setting("max_attempts:sum", None))
    (lease,) = await h.put_and_claim()
    assert (await h.fail(lease)).dead == set()


@CASES
async def the_record_of_old_deeds_goes_in_batches(h: Harness) -> None:
    """The oldest first; what is younger than it is kept stays, and everything stays for a minute."""
    for number in range(5):
        await put(h, "max_attempts", number + 1)
    h.clock.advance(60)
    await put(h, "max_attempts", 9)
    assert await h.run(lambda: forget_audit(timedelta(days=1))) == 0
    assert await h.run(lambda: forget_audit(timedelta())) == 0
    h.clock.advance(0.001)
    assert [await h.run(lambda: forget_audit(timedelta(), 2)) for _ in range(4)] == [2, 2, 1, 0]
    assert h.count("audit") == 1
    h.clock.advance(timedelta(days=1))
    assert await h.run(lambda: forget_audit(timedelta(days=1))) == 1
