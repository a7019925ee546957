"""What is measured during a soak: sizes, what is written, memory."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from bench.databases import Database

Figures = dict[str, float]

TABLES, INDEXES, WAL, MEMORY = "tables, MB", "indexes, MB", "WAL per finished job, bytes", "memory, MB"
WAL_FILE = "WAL file, MB"
#: these must not grow
JUDGED = (TABLES, INDEXES, WAL, MEMORY, WAL_FILE)

_MEGABYTE = 1_000_000
_SIZES = """
SELECT sum(pg_table_size(oid)), sum(pg_indexes_size(oid)), sum(pg_stat_get_dead_tuples(oid)),
       (pg_current_wal_lsn() - '0/0')::float8
FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'm')
"""
_PLACES = "SELECT max(seq), count(*) FILTER (WHERE status = 'pending'), count(*) FROM {job}"


class Sampler:
    """Asks past the library; `finished` by the numbers that jobs have: what came and does not wait has finished."""

    def __init__(self, look: Callable[[], tuple[Figures, float, float]]) -> None:
        self._look = look
        self._last: tuple[float, float] | None = None

    def take(self, pids: Sequence[int]) -> Figures:
        """With the memory of these processes; what is a rate is one since the last time."""
        figures, written, finished = self._look()
        if written:
            before = self._last or (written, finished)
            figures[WAL] = (written - before[0]) / max(finished - before[1], 1)
        self._last = (written, finished)
        return figures | {MEMORY: sum(_resident(pid) for pid in pids) / _MEGABYTE, "finished": finished}


@contextmanager
def open_sampler(database: Database) -> Iterator[Sampler]:
    if database.dialect == "postgres":
        with psycopg.connect(database.url, autocommit=True) as connection:

            def look() -> tuple[Figures, float, float]:
                sizes = connection.execute(_SIZES).fetchone() or (0, 0, 0, 0)
                places = connection.execute(_PLACES.format(job="holdfast.job").encode()).fetchone() or (0, 0, 0)
                figures = {
                    TABLES: float(sizes[0]) / _MEGABYTE,
                    INDEXES: float(sizes[1]) / _MEGABYTE,
                    "dead tuples": float(sizes[2]),
                    "jobs in the table": float(places[2]),
                }
                return figures, float(sizes[3]), float((places[0] or 0) - places[1])

            yield Sampler(look)
        return
    path = Path(database.url.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as file:

        def look_into_file() -> tuple[Figures, float, float]:
            pages, free, size = (
                int(file.execute(f"PRAGMA {name}").fetchone()[0])
                for name in ("page_count", "freelist_count", "page_size")
            )
            places = file.execute(_PLACES.format(job="holdfast_job")).fetchone()
            figures = {
                TABLES: (pages - free) * size / _MEGABYTE,
                WAL_FILE: path.with_name(path.name + "-wal").stat().st_size / _MEGABYTE,
                "jobs in the table": float(places[2]),
            }
            return figures, 0.0, float((places[0] or 0) - places[1])

        yield Sampler(look_into_file)


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
