"""A payment provider that the shop calls: slow now and then, particular about cards, and with a memory of its own.

What it knows lies in a directory, as the knowledge of a real one lies elsewhere: no crash of a worker touches it.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from pathlib import Path

#: in the directory of the demo
GATEWAY = "payment-provider"

GOOD_CARD = "4242"
#: the first request for it is not answered
SLOW_CARD = "4000"
#: every request for it is refused, until somebody rings up the bank
BLOCKED_CARD = "4100"

_SECONDS = 0.03


class CardRefused(Exception):
    """Asking again does not help."""


@dataclass(frozen=True, slots=True)
class Payment:
    """The provider's answer."""

    reference: str
    cents: int


class Gateway:
    """`take` may be called again with the same key, and takes the money once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(exist_ok=True)

    async def take(self, key: str, card: str, cents: int) -> Payment:
        await asyncio.sleep(_SECONDS)
        if card == SLOW_CARD and self._note(f"asked-{key}"):
            raise ConnectionError("the payment provider did not answer")
        if card == BLOCKED_CARD and not (self._directory / "unblocked").exists():
            raise CardRefused(f"card {card} is blocked; the bank must be asked")
        self._note(f"paid-{key}", str(cents))
        return Payment(f"payment-{key}", cents)

    def unblock_cards(self) -> None:
        """The call to the bank."""
        self._note("unblocked")

    def taken(self) -> list[int]:
        """The amounts of all payments, in cents."""
        return [int(paid.read_text()) for paid in self._directory.glob("paid-*")]

    def _note(self, name: str, text: str = "") -> bool:
        """Whether it is new; of two who note the same at once, one is the first."""
        # Written apart and then given its name: whoever is killed in the middle has noted nothing.
        draft = self._directory / f"draft-{uuid.uuid4().hex}"
        draft.write_text(text)
        try:
            (self._directory / name).hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True
