"""From a URL to a store."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import InvalidOption, MissingExtra
from holdfast.model.clock import Clock
from holdfast.model.identifiers import checked_channel, checked_prefix, checked_schema
from holdfast.stores.base import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreConfig:
    """How to reach and name things in the database.

    - `schema` ("holdfast"): PostgreSQL schema of all objects.
    - `prefix` (none on PostgreSQL, "holdfast_" on SQLite): in front of every table and index.
    - `id_type` ("uuid"): column type of job ids on PostgreSQL, `uuid` or `text`.
    - `channel` ("holdfast"): prefix of the notification channels.
    - `auto_migrate` (no; SQLite always): migrate on first use.
    - `synchronous` ("full"): SQLite's durability; "normal" may lose acknowledged commits at power loss.
    - `journal` ("wal"): SQLite's journal mode, `wal` or `delete`.
    - `clock` (the database's): replaces the clock in tests.
    - `pool_size` (10): most connections a client opens on PostgreSQL.
    - `pooled` (found out for each connection): whether a pooler stands before PostgreSQL that hands its connections
      from transaction to transaction. Through one nothing is prepared and nothing is set. False says that there is
      none, or one that keeps sessions.
    """

    schema: str = "holdfast"
    prefix: str | None = None
    id_type: str = "uuid"
    channel: str = "holdfast"
    auto_migrate: bool = False
    synchronous: str = "full"
    journal: str = "wal"
    clock: Clock | None = None
    pool_size: int = 10
    pooled: bool | None = None

    def __post_init__(self) -> None:
        checked_schema(self.schema)
        if self.prefix is not None:
            checked_prefix(self.prefix)
        checked_channel(self.channel)
        if type(self.pool_size) is not int or self.pool_size < 1:
            raise InvalidOption("pool_size", self.pool_size, "must be a whole number of at least 1")
        if self.pooled not in (None, True, False):
            raise InvalidOption("pooled", self.pooled, "must be True, False, or None to find out")
        for option, allowed in (
            ("id_type", ("uuid", "text")),
            ("synchronous", ("full", "normal")),
            ("journal", ("wal", "delete")),
        ):
            if getattr(self, option) not in allowed:
                raise InvalidOption(option, getattr(self, option), f"must be one of {', '.join(allowed)}")


def open_store(url: str, config: StoreConfig) -> Store:
    """The store that `url` names; opens no connection yet."""
    scheme = url.partition(":")[0]
    if scheme == "sqlite":
        from holdfast.stores.sqlite import SqliteStore

        return SqliteStore(url, config)
    if scheme in ("postgresql", "postgres"):
        try:
            from holdfast.stores.postgres import PostgresStore
        except ImportError as error:
            raise MissingExtra("postgres", error.name or "psycopg") from None
        return PostgresStore(url, config)
    raise InvalidOption("url", url, "must start with postgresql:// or sqlite:///")
