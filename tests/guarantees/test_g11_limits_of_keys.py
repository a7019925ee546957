"""G11: Concurrency and rate limits are never exceeded; here those of concurrency keys."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from tests.crew.database import Database
from tests.crew.process import BRISK, Crew
from tests.crew.waiting import wait_for

LIMIT = 3
JOBS = 120
RATE, BURST = 20, 5


@contextmanager
def watched(database: Database) -> Iterator[Counter[str]]:
    """The most jobs of each key that were seen running, asked as often as the database answers."""
    most: Counter[str] = Counter()
    stopping = threading.Event()
    text = f"""
        SELECT concurrency_key, count(*) FROM {database.table("job")}
        WHERE status = 'running' AND concurrency_key IS NOT NULL GROUP BY concurrency_key
    """

    def look() -> None:
        while not stopping.is_set():
            for key, count in database.query(text):
                most[key] = max(most[key], count)
            time.sleep(0.005)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        stopping.set()
        looking.join()


def test_killed_workers_do_not_widen_the_limit_of_a_key(crew: Crew, database: Database) -> None:
    """Three processes, two keys with three places each; one process is killed, another comes; all jobs are run."""
    with crew.jobs.app.client() as client:
        client.queues.limit("default", key_concurrency=LIMIT)
        calls = [crew.jobs.note.call(number=number, pause=0.03) for number in range(JOBS)]
        client.enqueue_many([call.options(concurrency_key="ab"[n % 2]) for n, call in enumerate(calls)])
    config = replace(BRISK, concurrency=8)
    with watched(database) as most:
        workers = [crew.start(config) for _ in range(3)]
        wait_for(lambda: len(crew.ledger.numbers("started")) > 15, "they have begun")
        busy = {entry.pid for entry in crew.ledger.read("started")}
        next(worker for worker in workers if worker.pid in busy).kill()
        crew.start(config)
        database.wait_finished(90)
    assert most == {"a": LIMIT, "b": LIMIT}
    assert crew.ledger.numbers("finished") == set(range(JOBS))


def test_a_key_starts_no_faster_than_its_rate(crew: Crew, database: Database) -> None:
    """Two processes: in any t seconds no more than burst + rate × t starts, by the database; and hardly fewer."""
    with crew.jobs.app.client() as client:
        client.queues.limit("default", key_rate=RATE, key_burst=BURST)
        calls = [crew.jobs.note.call(number=number) for number in range(60)]
        client.enqueue_many([call.options(concurrency_key="k") for call in calls])
    for _ in range(2):
        crew.start(BRISK)
    database.wait_finished(60)
    moments = database.query(f"SELECT last_attempt_at FROM {database.table('job')} ORDER BY last_attempt_at")
    starts = [_seconds(moment) for (moment,) in moments]
    for first, began in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= BURST + RATE * (starts[last] - began) + 0.01
    assert starts[-1] - starts[0] < 3 * (60 - BURST) / RATE


def _seconds(moment: datetime | str) -> float:
    return (moment if isinstance(moment, datetime) else datetime.fromisoformat(moment)).timestamp()
