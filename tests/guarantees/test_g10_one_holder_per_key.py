"""G10: Jobs of one partition key have one lease holder at a time, in order, whoever works and whoever crashes."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.crew.database import Database
from tests.crew.key_jobs import KeyCrew, calls, overlaps, overtakers
from tests.crew.key_race import KeyRace, Verdict
from tests.crew.process import STEADY, Crew
from tests.crew.report import say

RACE_SECONDS = 5.0


@pytest.fixture
def seed() -> int:
    """`HOLDFAST_SEED=…` repeats a run, as far as races can be repeated."""
    seed = int(os.environ.get("HOLDFAST_SEED") or random.SystemRandom().randrange(2**32))
    say(f"seed {seed}")
    return seed


@pytest.mark.parametrize("ordering", ["fifo", "serial", "mixed"])
def test_claims_race_for_few_keys(crew: Crew, database: Database, ordering: str, seed: int) -> None:
    """Judged by monotonic time: no two hold a key at once, none overtakes another, none is left behind."""
    race = KeyRace(crew.jobs.app, lambda: crew.jobs.note.call(number=1), ordering, seed)
    verdict = race.run(RACE_SECONDS)
    say(f"{database.statuses()}, {dict(race.counts)}")
    assert verdict == Verdict()
    assert race.counts["turns"] > 50
    assert race.counts["zombies refused"] > 0
    assert database.statuses()["completed"] > 100


@pytest.fixture
def affinity(request: pytest.FixtureRequest) -> Any:
    """Whether the workers share the keys out among themselves; whoever comes or goes changes that."""
    return getattr(request, "param", "any")


@pytest.fixture
def key_crew(database: Database, tmp_path: Path, affinity: Any) -> Iterator[KeyCrew]:
    """Three workers, each with more slots than there are keys."""
    crew = KeyCrew(database, tmp_path, replace(STEADY, concurrency=8, affinity=affinity))
    with crew.app.client() as client:
        client.list_jobs()  # creates the schema
    for _ in range(3):
        crew.start()
    yield crew
    crew.end()
    say((tmp_path / "key workers.log").read_text()[-20_000:])


def dead_letters(database: Database) -> list[int]:
    """Jobs that were in three crashes, guilty or not; nobody waits for them."""
    rows = database.query(f"SELECT CAST(input AS text) FROM {database.job} WHERE status = 'dead_letter'")
    return [json.loads(text)["number"] for (text,) in rows]


@pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
def test_workers_that_come_and_go(key_crew: KeyCrew, database: Database, seed: int) -> None:
    """SIGTERM at random: every job is finished once, in the order of its key, and alone."""
    dice = random.Random(seed)  # noqa: S311 - reproducible on purpose
    with key_crew.app.client() as client:
        client.enqueue_many(calls(key_crew.app, 600, 3, dice.choice))
    for _ in range(4):
        time.sleep(dice.uniform(0.2, 0.8))
        assert key_crew.stop(dice.randrange(3)) == 0

    statuses = database.wait_finished()

    events = key_crew.ledger.read()
    assert set(statuses) == {"completed"}
    assert overlaps(events) == []
    assert overtakers(events, ()) == []
    assert sorted(number for event, _, number, _ in events if event == "finished") == list(range(600))


@pytest.mark.parametrize("affinity", ["any", "ring"], indirect=True)
@pytest.mark.parametrize("database", ["sqlite", "pg18"], indirect=True)
def test_workers_that_are_killed(key_crew: KeyCrew, database: Database, seed: int) -> None:
    """SIGKILL and SIGTERM at random: what a dead worker had in hand is run again, before what comes behind it."""
    dice = random.Random(seed)  # noqa: S311 - reproducible on purpose
    with key_crew.app.client() as client:
        client.enqueue_many(calls(key_crew.app, 600, 3, dice.choice))
    for _ in range(5):
        time.sleep(dice.uniform(0.1, 1.0))
        if dice.random() < 0.6:
            key_crew.kill(dice.randrange(3))
        else:
            assert key_crew.stop(dice.randrange(3)) == 0

    statuses = database.wait_finished()

    events = key_crew.ledger.read()
    lost = dead_letters(database)
    assert len(lost) <= 3
    assert set(statuses) <= {"completed", "dead_letter"}
    assert overlaps(events) == []
    assert overtakers(events, lost) == []
    assert {number for event, _, number, _ in events if event == "finished"} | set(lost) == set(range(600))
