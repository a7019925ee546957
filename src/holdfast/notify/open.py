"""Which notifier belongs to which store."""

from __future__ import annotations

import secrets
from collections.abc import Collection

from holdfast.notify.base import ChainListener, Hinter, Silence, Waker
from holdfast.notify.polling import PollingListener, PollingWaker


def work_channel(prefix: str) -> str:
    """The channel on which work is announced."""
    return f"{prefix}_work"


def lease_channel(prefix: str) -> str:
    """The channel on which workers are told that something has happened to jobs they hold."""
    return f"{prefix}_lease"


def chain_channel(prefix: str) -> str:
    """A channel on which the ends of chains are told to one waiting process and nobody else."""
    return f"{prefix}_chain_{secrets.token_hex(8)}"


def open_hinter(dialect: str, conninfo: str, channel_prefix: str, *, is_enabled: bool) -> Hinter:
    """The sending end for a store."""
    if dialect != "postgres" or not is_enabled:
        return Silence()
    from holdfast.notify.postgres import PostgresHinter

    return PostgresHinter(conninfo, work_channel(channel_prefix))


def open_waker(dialect: str, conninfo: str, channel_prefix: str, queues: Collection[str], *, is_enabled: bool) -> Waker:
    """The receiving end for a store; `conninfo` is a URL, or a path for SQLite."""
    if not is_enabled:
        return PollingWaker()
    if dialect == "postgres":
        from holdfast.notify.postgres import PostgresWaker

        return PostgresWaker(conninfo, work_channel(channel_prefix), frozenset(queues), lease_channel(channel_prefix))
    from holdfast.notify.sqlite import DataVersionWaker

    return DataVersionWaker(conninfo)


def open_chain_listener(dialect: str, conninfo: str, channel: str, *, is_enabled: bool) -> ChainListener:
    """For those who wait for chains; made and used on one event loop, as a waker is."""
    if not is_enabled:
        return PollingListener()
    if dialect == "postgres":
        from holdfast.notify.postgres import PostgresChainListener

        return PostgresChainListener(conninfo, channel)
    from holdfast.notify.sqlite import FileListener

    return FileListener(conninfo)
