"""How limits are dealt out, as numbers."""

from __future__ import annotations

import random

import pytest

from holdfast.model.rate import TokenBucket
from holdfast.model.sharing import MILLIONTHS, Limits, Share, deal, fair_parts


@pytest.mark.parametrize(
    ("total", "wishes", "parts"),
    [
        (10, {}, {}),
        (10, {"a": 3}, {"a": 3}),
        (10, {"a": 30}, {"a": 10}),
        (10, {"a": 30, "b": 30}, {"a": 5, "b": 5}),
        (10, {"b": 30, "a": 30, "c": 30}, {"a": 4, "b": 3, "c": 3}),
        (10, {"a": 1, "b": 30, "c": 30}, {"a": 1, "b": 5, "c": 4}),
        (10, {"a": 0, "b": 2, "c": 30}, {"a": 0, "b": 2, "c": 8}),
        (2, {"a": 9, "b": 9, "c": 9}, {"a": 1, "b": 1, "c": 0}),
        (1, {"a": 0, "b": 9}, {"a": 0, "b": 1}),
    ],
)
def test_fair_parts(total: int, wishes: dict[str, int], parts: dict[str, int]) -> None:
    """As equal as wishes allow, and nothing is left that somebody wants."""
    assert fair_parts(total, wishes) == parts


def test_fair_parts_of_any_wishes() -> None:
    """All of it, or all that is wanted; nobody gets more than another who wants more."""
    chance = random.Random(7)  # noqa: S311 - a lot, drawn again the same
    for _ in range(2000):
        wishes = {f"w{number}": chance.randint(0, 12) for number in range(chance.randint(0, 9))}
        total = chance.randint(1, 40)
        parts = fair_parts(total, wishes)
        assert sum(parts.values()) == min(total, sum(wishes.values()))
        assert all(parts[who] <= wish for who, wish in wishes.items())
        hungry = [parts[who] for who, wish in wishes.items() if parts[who] < wish]
        assert max(parts.values(), default=0) <= min(hungry, default=total) + 1


def test_what_cannot_be_divided_goes_round() -> None:
    """Nobody has it for ever, and those who want nothing are no turn of their own."""
    wishes = {"a": 9, "b": 0, "c": 9, "d": 9}
    assert [fair_parts(1, wishes, turn) for turn in range(4)] == [
        {"a": 1, "b": 0, "c": 0, "d": 0},
        {"a": 0, "b": 0, "c": 1, "d": 0},
        {"a": 0, "b": 0, "c": 0, "d": 1},
        {"a": 1, "b": 0, "c": 0, "d": 0},
    ]
    assert fair_parts(8, wishes, 2) == {"a": 3, "b": 0, "c": 2, "d": 3}
    keeps = deal(Limits(1), Share("a", permits=1, in_use=1, wanted=1), [Share("b", wanted=1)], at=30)
    assert (keeps.share.permits, keeps.allowed) == (1, 0)


def test_takes_what_is_free() -> None:
    """The fair part, as far as others have given theirs back."""
    dealt = deal(Limits(10), Share("a", wanted=9), [Share("b", permits=8, in_use=8, wanted=9)])
    assert (dealt.share.permits, dealt.allowed, dealt.is_owed) == (2, 2, True)
    dealt = deal(Limits(10), dealt.share, [Share("b", permits=5, in_use=5, wanted=9)])
    assert (dealt.share.permits, dealt.allowed, dealt.is_owed) == (5, 5, False)


def test_gives_back_what_it_does_not_use() -> None:
    """And claims no more until it has given back the rest."""
    dealt = deal(Limits(10), Share("a", permits=10, in_use=7, wanted=10), [Share("b", wanted=10)])
    assert (dealt.share.permits, dealt.allowed, dealt.is_owed) == (7, 5, False)


def test_a_lowered_limit() -> None:
    """Nobody grows, and everybody goes down to his part of the new one."""
    others = [Share("b", permits=5, in_use=1, wanted=5)]
    dealt = deal(Limits(4), Share("a", permits=5, in_use=0, wanted=5), others)
    assert (dealt.share.permits, dealt.allowed) == (2, 2)
    dealt = deal(Limits(4), Share("c", in_use=0, wanted=5), [dealt.share, *others])
    assert (dealt.share.permits, dealt.is_owed) == (0, True)


def test_what_others_run_beyond_their_permits_is_not_free() -> None:
    """They ran it before there was a limit."""
    dealt = deal(Limits(10), Share("a", wanted=10), [Share("b", permits=0, in_use=8)])
    assert dealt.share.permits == 2


def test_rates_go_with_bursts() -> None:
    """Whoever may save up half of the burst has half of the rate."""
    limits = Limits(None, 3_000_001, 10)
    first = deal(limits, Share("a", wanted=1), []).share
    assert (first.permits, first.rate, first.burst) == (0, 3_000_001, 10)
    second = deal(limits, Share("b", wanted=50), [first])
    assert (second.share.rate, second.share.burst, second.is_owed) == (0, 0, True)
    first = deal(limits, first, [second.share._replace(wanted=50)]).share
    assert (first.rate, first.burst) == (1_500_000, 5)
    second = deal(limits, second.share, [first])
    assert (second.share.rate, second.share.burst, second.is_owed) == (1_500_000, 5, False)


def test_who_wants_nothing_has_no_rate() -> None:
    """It is for those who do."""
    limits = Limits(None, 3_000_000, 10)
    idle = deal(limits, Share("a", wanted=0, rate=3_000_000, burst=10), [Share("b", wanted=1)]).share
    assert (idle.rate, idle.burst) == (0, 0)


def test_nobody_misses_what_is_kept() -> None:
    """Who is full just now, and alone, goes on saving up; where the limit has become less, no more than that."""
    full = Share("a", rate=3_000_000, burst=10)
    assert deal(Limits(None, 3_000_000, 10), full, [Share("b")]).share == full
    less = deal(Limits(None, 1_000_000, 5), full, []).share
    assert (less.rate, less.burst) == (1_000_000, 5)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("seconds", [1, 10, 25, 31, 60, 600])
def test_slow_rates_are_used(seconds: int, workers: int) -> None:
    """One start in so many seconds: a turn is long enough to save it up, though each begins with nothing."""
    limits = Limits(None, MILLIONTHS // seconds, 1)
    shares = {name: Share(name, wanted=1) for name in "abc"[:workers]}
    buckets = {name: TokenBucket(0.0) for name in shares}
    starts = 0
    for now in range(100 * max(seconds, 10)):
        for name, bucket in buckets.items():
            if now % 5 == 0:
                others = [share for share in shares.values() if share.worker_id != name]
                shares[name] = deal(limits, shares[name], others, at=now).share
                bucket.resize(shares[name].rate / MILLIONTHS, shares[name].burst, now)
            if bucket.level(now) >= 1:
                bucket.take(1, now)
                bucket.settle(1, now)
                bucket.started(0, now)
                starts += 1
    assert starts >= 0.7 * 100 * max(seconds, 10) / seconds


def test_a_new_burst_does_not_make_a_new_rate() -> None:
    """As long as somebody still goes by the old one."""
    stale = Share("a", wanted=1, rate=1_000_000, burst=1)
    dealt = deal(Limits(None, 1_000_000, 20), Share("b", wanted=1), [stale])
    assert (dealt.share.burst, dealt.share.rate) == (10, 0)


def ask(limits: Limits, shares: dict[str, Share], name: str, in_use: int, wanted: int) -> None:
    others = [share for share in shares.values() if share.worker_id != name]
    shares[name] = deal(limits, shares[name]._replace(in_use=in_use, wanted=wanted), others).share
    assert sum(share.permits for share in shares.values()) <= (limits.concurrency or 0)
    assert sum(share.burst for share in shares.values()) <= (limits.burst or 0)
    assert sum(share.rate for share in shares.values()) <= (limits.rate or 0)


def test_any_sequence_keeps_the_sums() -> None:
    """Whatever is asked in whatever order: never more than there is, and in the end all of it."""
    chance = random.Random(11)  # noqa: S311 - as above
    for _ in range(200):
        limits = Limits(chance.randint(1, 20), chance.randint(1, 5_000_000), chance.randint(1, 20))
        names = [f"w{number}" for number in range(chance.randint(1, 6))]
        shares = {name: Share(name) for name in names}
        for _ in range(60):
            name = chance.choice(names)
            ask(limits, shares, name, chance.randint(0, shares[name].permits), chance.randint(0, 8))
        for name in names * 3:
            ask(limits, shares, name, 0, 100)
        assert sum(share.permits for share in shares.values()) == limits.concurrency
        assert sum(share.burst for share in shares.values()) == limits.burst
