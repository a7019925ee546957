"""Hints for one process: how the database tells who is to be told, where it cannot tell them itself.

A worker or waiter that hears through Redis or NATS announces an address instead of a channel to notify.  The statement
that ends a chain or touches a running job returns such a letter among the queues that got work, and whoever ran it
sends it on.  No queue is called so: the names of queues are printable.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import NamedTuple

from holdfast.notify.base import counted
from holdfast.notify.board import Board

_MARK = "\x01"
_ELSEWHERE = "*"


class Letter(NamedTuple):
    """`text` is "chain ID" or "lease WORKER"."""

    inbox: str
    text: str


def new_address() -> str:
    """Of a process; the database tells it from a channel by its first character."""
    return _ELSEWHERE + secrets.token_hex(8)


def sorted_out(work: Iterable[str]) -> tuple[dict[str, int], list[Letter]]:
    """How much work is in which queue, and what is to be told to whom."""
    queues: dict[str, int] = {}
    letters: list[Letter] = []
    for name, count in counted(work).items():
        if name.startswith(_MARK):
            inbox, _, text = name.removeprefix(_MARK).partition(" ")
            letters.append(Letter(inbox, text))
        else:
            queues[name] = count
    return queues, letters


def letter(address: str, text: str) -> str:
    """As the database writes it."""
    return f"{_MARK}{address} {text}"


def read(board: Board, text: str) -> None:
    """Put up what came with a letter."""
    kind, _, subject = text.partition(" ")
    if kind == "chain":
        board.tell_chain(subject)
    elif kind == "lease":
        board.tell_lease(subject)
