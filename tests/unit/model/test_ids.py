"""Job ids."""

from __future__ import annotations

import itertools
import threading
import time
import uuid

import pytest

from holdfast.errors import InvalidOption
from holdfast.model.ids import checked_uuid, new_id, new_ids


def test_bits_of_version_7() -> None:
    """Version, variant and the milliseconds of now, in canonical text."""
    before = time.time_ns() // 1_000_000
    text = new_id()
    value = uuid.UUID(text)
    assert str(value) == text
    assert value.version == 7
    assert value.variant == uuid.RFC_4122
    assert before <= value.int >> 80 <= before + 60_000


def test_rising_and_unique() -> None:
    """200,000 ids, of batches and one by one, each greater than the one before."""
    made = new_ids(100_000)
    made += [new_id() for _ in range(1_000)]
    made += [job_id for _ in range(99) for job_id in new_ids(1_000)]
    assert len(made) == 200_000
    assert all(first < second for first, second in itertools.pairwise(made))
    assert all(uuid.UUID(job_id).version == 7 for job_id in made[::97])


def test_distinct_across_threads() -> None:
    """Threads never share an id, and each sees its own rise."""
    made: list[list[str]] = [[] for _ in range(8)]

    def make(own: list[str]) -> None:
        for _ in range(200):
            own.extend(new_ids(25))

    threads = [threading.Thread(target=make, args=(own,)) for own in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({job_id for own in made for job_id in own}) == 8 * 200 * 25
    assert all(own == sorted(own) for own in made)


def test_clock_that_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids go on rising when the machine's clock does not."""
    first = new_id()
    monkeypatch.setattr(time, "time_ns", time.monotonic_ns)
    assert first < new_id()


def test_more_than_a_millisecond_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one and together, while the clock stands still."""
    now = time.time_ns() + 10**9
    monkeypatch.setattr(time, "time_ns", lambda: now)
    made = [new_id() for _ in range(5_000)]
    made += new_ids(5_000)
    made += [new_id() for _ in range(5_000)]
    assert all(first < second for first, second in itertools.pairwise(made))
    assert {uuid.UUID(job_id).variant for job_id in made} == {uuid.RFC_4122}


def test_no_ids() -> None:
    """None asked for, none made."""
    assert new_ids(0) == []


def test_random_part_differs() -> None:
    """Two processes that count alike would still differ: the last 62 bits are noise."""
    for made in (new_ids(1_000), [new_id() for _ in range(1_000)]):
        noise = [uuid.UUID(job_id).int & (1 << 62) - 1 for job_id in made]
        assert len(set(noise)) == 1_000
        for bit in range(62):
            assert 350 < sum(each >> bit & 1 for each in noise) < 650


@pytest.mark.parametrize("spelling", [str, uuid.UUID, str.upper, lambda text: f"urn:uuid:{text}", lambda t: f"{{{t}}}"])
def test_given_ids_become_canonical(spelling: object) -> None:
    """Whatever the spelling, one text is stored."""
    job_id = new_id()
    assert callable(spelling)
    assert checked_uuid(spelling(job_id)) == job_id


@pytest.mark.parametrize("wrong", ["", "x", 17, None, b"0198c5a0", "0198c5a0-5b1e-7c3a-9d1b-3f2a6c0e4d1", object()])
def test_other_ids_are_refused(wrong: object) -> None:
    """The error names the value and shows what a UUID looks like."""
    with pytest.raises(InvalidOption, match="must be a UUID") as caught:
        checked_uuid(wrong)
    assert caught.value.option == "id"
    assert caught.value.value is wrong
