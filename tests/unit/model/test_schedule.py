"""Which ticks are due, by policy; and what a schedule cannot be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import App, Dedup
from holdfast.errors import InvalidInput, InvalidJobType, InvalidOption, InvalidPayload
from holdfast.model.call import JobDocument
from holdfast.model.schedule import (
    GRACE,
    MOST_AT_ONCE,
    Definition,
    IntervalTiming,
    Rule,
    checked_definition,
    checked_rule,
    due_ticks,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

rules = st.builds(
    lambda when, policy: Rule(**when, **policy),
    st.sampled_from([
        {"cron": "* * * * *"},
        {"cron": "*/10 * * * * *"},
        {"cron": "0 * * * *"},
        {"cron": "0 7 * * mon", "timezone": "Europe/Vienna"},
        {"interval_ms": 90_000},
    ]),
    st.sampled_from([
        {"catch_up": "skip"},
        {"catch_up": "one"},
        {"catch_up": "one", "max_age_ms": 3_600_000},
        {"catch_up": "all", "max_age_ms": 120_000},
        {"catch_up": "all", "max_age_ms": 86_400_000},
    ]),
)  # fmt: skip


def every_tick(rule: Rule, first: datetime, now: datetime) -> list[datetime]:
    found, tick = list[datetime](), rule.timing.next_after(first - timedelta.resolution)
    while tick is not None and tick <= now:
        found.append(tick)
        tick = rule.timing.next_after(tick)
    return found


@given(rule=rules, late=st.integers(0, 12 * 3600))
@settings(max_examples=150, deadline=None)
def test_due_ticks(rule: Rule, late: int) -> None:
    """As one would choose them from a list of all: by policy, oldest first; the rest is dealt with."""
    first = rule.timing.next_after(START)
    assert first is not None
    now = first + timedelta(seconds=late)
    candidates = every_tick(rule, first, now)
    is_missed = first < now - GRACE
    oldest = now - (GRACE if rule.max_age_ms is None else timedelta(milliseconds=rule.max_age_ms))
    if not is_missed:
        wanted = candidates
    elif rule.catch_up == "one":
        wanted = [candidates[-1]] if rule.max_age_ms is None or candidates[-1] >= oldest else []
    else:
        wanted = [tick for tick in candidates if tick >= oldest]
    due = due_ticks(rule, first, now)
    assert due.ticks == wanted[:MOST_AT_ONCE]
    assert due.next_at == (wanted[MOST_AT_ONCE] if len(wanted) > MOST_AT_ONCE else rule.timing.next_after(now))


def test_long_silence_of_a_busy_schedule() -> None:
    """Years of seconds are not walked through."""
    rule = Rule(cron="* * * * * *", catch_up="one")
    now = START + timedelta(days=4000)
    assert due_ticks(rule, START, now).ticks == [now]
    assert len(due_ticks(Rule(cron="* * * * * *"), START, now).ticks) == 61


@given(seconds=st.integers(0, 10**9), interval=st.integers(1000, 10**9))
def test_intervals_are_whole_since_1970(seconds: int, interval: int) -> None:
    """The next tick is later than any moment, by no more than the interval."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, milliseconds=7)
    span = timedelta(milliseconds=interval)
    tick = IntervalTiming(span).next_after(moment)
    assert tick is not None
    assert moment < tick <= moment + span
    assert not (tick - datetime(1970, 1, 1, tzinfo=UTC)) % span


def test_digests_differ_with_anything_that_was_given() -> None:
    """And are the same for the same."""
    job = JobDocument("", "report", msgspec.Raw(b"{}"), "default")
    variants = [
        Definition("a", checked_rule("0 * * * *"), job),
        Definition("a", checked_rule("1 * * * *"), job),
        Definition("a", checked_rule("0 * * * *", options={"timezone": "Europe/Vienna"}), job),
        Definition("a", checked_rule("0 * * * *", options={"catch_up": "one"}), job),
        Definition("a", checked_rule("0 * * * *", options={"overlap": "skip"}), job),
        Definition("a", checked_rule("0 * * * *", options={"jitter": 1}), job),
        Definition("a", checked_rule(every=60), job),
        Definition("a", checked_rule("0 * * * *"), msgspec.structs.replace(job, priority=1)),
        Definition("a", checked_rule("0 * * * *"), msgspec.structs.replace(job, input=msgspec.Raw(b'{"a":1}'))),
    ]
    assert len({each.digest for each in variants}) == len(variants)
    assert variants[0].digest == Definition("b", checked_rule("0 * * * *"), job).digest


@pytest.mark.parametrize(
    ("cron", "every", "options", "option"),
    [
        (None, None, {}, "cron"),
        ("* * * * *", 60, {}, "cron"),
        ("* * * *", None, {}, "cron"),
        (None, 0, {}, "every"),
        (None, 0.5, {}, "every"),
        (None, -5, {}, "every"),
        (None, "60", {}, "every"),
        (None, float("nan"), {}, "every"),
        (None, 60, {"timezone": "Europe/Vienna"}, "timezone"),
        ("* * * * *", None, {"timezone": "Mars/Base"}, "timezone"),
        ("* * * * *", None, {"catch_up": "some"}, "catch_up"),
        ("* * * * *", None, {"overlap": "wait"}, "overlap"),
        ("* * * * *", None, {"max_age": 3600}, "max_age"),
        ("* * * * *", None, {"catch_up": "all", "max_age": 10}, "max_age"),
        ("* * * * *", None, {"catch_up": "all", "max_age": -1}, "max_age"),
        ("* * * * *", None, {"jitter": -1}, "jitter"),
        ("* * * * *", None, {"tz": "UTC"}, "tz"),
    ],
)
def test_bad_rules(cron: Any, every: Any, options: Any, option: str) -> None:
    """The error names the option and the value."""
    with pytest.raises(InvalidOption) as caught:
        checked_rule(cron, every, options)
    assert caught.value.option == option


def app_with_jobs() -> tuple[App, Any, Any]:
    app = App("sqlite:///nowhere.db", name="shop")

    @app.job()
    def report(region: str) -> None: ...

    @app.job(dedup=lambda key: Dedup(key, on_conflict="reject"))
    def picky(key: str) -> None: ...

    return app, report, picky


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"id": "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"}, "id"),
        ({"at": START}, "at"),
        ({"delay": 5}, "delay"),
        ({"blockers": ["0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d11"]}, "blockers"),
        ({"expires": START}, "expires"),
        ({"dedup": Dedup("k", on_conflict="reject")}, "dedup"),
    ],
)
def test_options_that_make_sense_once(options: Any, option: str) -> None:
    """A schedule refuses them."""
    _, report, _ = app_with_jobs()
    with pytest.raises(InvalidOption) as caught:
        checked_definition("s", checked_rule("@daily"), report.call(region="eu").options(**options))
    assert caught.value.option == option


def test_decorator_refuses_what_does_not_fit() -> None:
    """Before anything is registered: the wrong place, the wrong arguments, the wrong app, a name given twice."""
    app, report, picky = app_with_jobs()
    with pytest.raises(InvalidJobType, match=r"above @app\.job"):
        app.schedule("@daily")(lambda: None)  # type: ignore[type-var]  # wrong
    with pytest.raises(InvalidOption, match="cron expression"):
        app.schedule(lambda: None)  # type: ignore[arg-type]  # wrong
    with pytest.raises(InvalidPayload, match="region"):
        app.schedule("@daily")(report)
    with pytest.raises(InvalidPayload, match="continent"):
        app.schedule("@daily", arguments={"region": "eu", "continent": "x"})(report)
    with pytest.raises(InvalidPayload):
        app.schedule("@daily", arguments={"region": 5})(report)
    with pytest.raises(InvalidOption, match="must map"):
        app.schedule("@daily", arguments=["eu"])  # type: ignore[arg-type]  # wrong
    with pytest.raises(InvalidOption, match="on_conflict='reject'"):
        app.schedule("@daily", arguments={"key": "k"})(picky)
    with pytest.raises(InvalidJobType, match="another app"):
        app_with_jobs()[0].schedule("@daily", arguments={"region": "eu"})(report)
    with pytest.raises(InvalidInput):
        app.schedule("@daily", name="", arguments={"region": "eu"})(report)
    app.schedule("@daily", arguments={"region": "eu"})(report)
    app.schedule("@daily", arguments={"region": "eu"})(report)  # a module imported twice
    with pytest.raises(InvalidOption, match="another schedule") as caught:
        app.schedule("@hourly", arguments={"region": "eu"})(report)
    assert caught.value.value == "report"
