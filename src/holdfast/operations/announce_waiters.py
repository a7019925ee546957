"""Say which chains somebody waits for, so that whoever ends one of them tells him; PostgreSQL only."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.payload import to_json
from holdfast.operations.statement import Operation, Statement


def announce_waiters(channel: str, chain_ids: Iterable[str]) -> Operation[None]:
    """The end of each is notified on `channel`, with the chain's id; good for an hour, then announce again."""
    yield Statement("announce_waiters", {"channel": channel, "chains": _listing(chain_ids)})


def withdraw_waiters(channel: str, chain_ids: Iterable[str]) -> Operation[None]:
    """No more of that."""
    yield Statement("withdraw_waiters", {"channel": channel, "chains": _listing(chain_ids)})


def _listing(chain_ids: Iterable[str]) -> str:
    return to_json(sorted(set(chain_ids))).decode()
