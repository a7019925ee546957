"""The payment provider of the demo is as troublesome as it claims, and takes money once."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.demo.gateway import BLOCKED_CARD, GOOD_CARD, SLOW_CARD, CardRefused, Gateway
from holdfast.cli.demo.orders import make_orders


async def test_the_same_key_pays_once(tmp_path: Path) -> None:
    """Whoever asks again gets the same payment; another process may ask."""
    first = await Gateway(tmp_path).take("1", GOOD_CARD, 500)
    assert await Gateway(tmp_path).take("1", GOOD_CARD, 500) == first
    await Gateway(tmp_path).take("2", GOOD_CARD, 300)
    assert sorted(Gateway(tmp_path).taken()) == [300, 500]


async def test_a_slow_card_is_answered_at_the_second_request(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    with pytest.raises(ConnectionError, match="did not answer"):
        await gateway.take("1", SLOW_CARD, 500)
    assert gateway.taken() == []
    assert (await gateway.take("1", SLOW_CARD, 500)).cents == 500


async def test_a_blocked_card_is_refused_until_it_is_unblocked(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    for _ in range(3):
        with pytest.raises(CardRefused, match="4100 is blocked"):
            await gateway.take("1", BLOCKED_CARD, 500)
    gateway.unblock_cards()
    await gateway.take("1", BLOCKED_CARD, 500)
    assert gateway.taken() == [500]


def test_orders_are_the_same_every_time() -> None:
    """Numbered from 1; one in ten with a slow card, one with a blocked one."""
    orders = make_orders(200)
    assert orders == make_orders(200)
    assert [order.id for order in orders] == list(range(1, 201))
    cards = [order.card for order in orders]
    assert [cards.count(card) for card in (BLOCKED_CARD, SLOW_CARD, GOOD_CARD)] == [1, 20, 179]
