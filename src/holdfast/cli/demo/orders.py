"""The orders that come in: mostly harmless."""

from __future__ import annotations

import random

from holdfast.cli.demo.gateway import BLOCKED_CARD, GOOD_CARD, SLOW_CARD
from holdfast.cli.demo.shop import Order

_SEED = 20
_CUSTOMERS = ("ada", "bob", "eve", "joe", "kim", "lea", "max", "zoe")


def make_orders(count: int) -> list[Order]:
    """One card in ten is answered at the second request only, and one card in all is blocked."""
    dice = random.Random(_SEED)  # noqa: S311 - no secret
    cards = [BLOCKED_CARD, *[SLOW_CARD] * (count // 10)]
    cards += [GOOD_CARD] * (count - len(cards))
    dice.shuffle(cards)
    return [
        Order(number, dice.choice(_CUSTOMERS), card, dice.randrange(500, 20_000))
        for number, card in enumerate(cards, start=1)
    ]
