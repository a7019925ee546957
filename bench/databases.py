"""The databases that are measured: durable, as users run them."""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from tools.postgres_server import DURABLE, PostgresServer, available

PREFERRED_MAJOR = 15

#: loaded, but asleep until a database asks for it
_COUNTING = {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "none"}


class Database(ABC):
    """One database; `fresh` gives an empty one for a measurement."""

    def __init__(self, name: str, dialect: str) -> None:
        self.name = name
        self.dialect = dialect
        self.url = ""

    @abstractmethod
    def fresh(self) -> AbstractContextManager[None]:
        """`url` names an empty database inside the block."""


class SqliteDatabase(Database):
    def __init__(self) -> None:
        super().__init__("SQLite, synchronous=FULL", "sqlite")

    @contextmanager
    def fresh(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory() as folder:
            self.url = f"sqlite:///{Path(folder) / 'bench.db'}"
            yield


class PostgresDatabase(Database):
    def __init__(self, server: PostgresServer, major: int) -> None:
        super().__init__(f"PostgreSQL {major}, fsync on", "postgres")
        self._server = server
        self._count = 0

    @contextmanager
    def fresh(self) -> Iterator[None]:
        self._count += 1
        name = f"bench_{self._count}"
        self._server.create_database(name)
        self.url = self._server.url(name)
        try:
            yield
        finally:
            # Otherwise what comes next is measured beside the vacuum of what is over.
            self._server.address.drop_database(name)


def databases(dialects: Sequence[str], major: int | None, *, is_counting: bool = False) -> Iterator[Database]:
    """Each of the asked-for databases, running while it is measured; `is_counting`: it can count statements."""
    if "sqlite" in dialects:
        yield SqliteDatabase()
    if "postgres" in dialects:
        installed = available()
        chosen = major or (PREFERRED_MAJOR if PREFERRED_MAJOR in installed else max(installed))
        settings = {**DURABLE, **(_COUNTING if is_counting and _can_count(installed[chosen]) else {})}
        with PostgresServer(installed[chosen], settings=settings) as server:
            yield PostgresDatabase(server, chosen)


def _can_count(bin_dir: Path) -> bool:
    return any(bin_dir.parent.glob("lib/**/pg_stat_statements.so"))
