"""Who is woken by what is put up."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.notify.board import DEAF_SECONDS, Board, BoardListener, BoardWaker


@pytest.mark.parametrize("kind", ["waker", "listener"])
async def test_who_waits_when_hints_cease_looks_at_once(kind: str) -> None:
    """Not when its hour is up: a hint may be lost already. And from then on it looks often."""
    board = Board()
    ear = BoardWaker(board, ["default"]) if kind == "waker" else BoardListener(board)
    waiting = asyncio.create_task(ear.wait(3600.0))
    await asyncio.sleep(0)
    assert board.has_idle

    board.fall_deaf()

    async with asyncio.timeout(DEAF_SECONDS / 2):
        assert await waiting
    async with asyncio.timeout(DEAF_SECONDS * 10):
        assert not await ear.wait(3600.0)


async def test_deafness_is_told_once() -> None:
    """A transport that goes on failing does not wake everybody each time."""
    board = Board()
    ear = BoardWaker(board, ["default"])
    ear.start()
    board.fall_deaf()
    assert await ear.wait(3600.0)

    board.fall_deaf()

    waiting = asyncio.create_task(ear.wait(3600.0))
    await asyncio.sleep(0)
    assert board.has_idle
    waiting.cancel()
