"""For how long autovacuum was at work in a database, and how often it came to an end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.asking import Asking, asking

#: asked so often: a vacuum that takes less than this may be missed, and many of them even out
_SAMPLE_SECONDS = 0.2

_IS_AT_WORK = """
SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND datname = current_database()
AND query LIKE 'autovacuum:%'
"""
_ENDED = "SELECT coalesce(sum(autovacuum_count + autoanalyze_count), 0) FROM pg_stat_user_tables"


class Vacuuming:
    """`seconds` and `count` grow while it watches; both stay zero on SQLite."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.count = 0


@contextmanager
def watching_vacuum(dialect: str, url: str) -> Iterator[Vacuuming]:
    """Not by the statistics, which have times from PostgreSQL 18 on only, and of vacuums that have ended."""
    seen = Vacuuming()
    if dialect != "postgres":
        yield seen
        return
    stopping = threading.Event()

    def watch(ask: Asking) -> None:
        while not stopping.wait(_SAMPLE_SECONDS):
            seen.seconds += _SAMPLE_SECONDS * ask.value(_IS_AT_WORK)

    with asking(dialect, url) as ask:
        before = ask.value(_ENDED)
        watcher = threading.Thread(target=watch, args=[ask])
        watcher.start()
        try:
            yield seen
        finally:
            stopping.set()
            watcher.join()
        seen.count = int(ask.value(_ENDED) - before)
