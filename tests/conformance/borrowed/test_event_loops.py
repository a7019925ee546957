"""A connection on another event loop than its own: refused where the driver is bound to one, harmless elsewhere."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.errors import WrongConnection
from holdfast.model.ids import new_id
from holdfast.operations.drive import adrive
from holdfast.operations.get_job import find_job
from tests.conformance.borrowed.kinds import KINDS, Kind
from tests.conformance.borrowed.shop import Shop


def _awaited(dialect: str, *, bound: bool) -> list[Any]:
    is_async = [kind for kind in KINDS if kind.dialect == dialect and ("sync" in kind.name or "aiosqlite" in kind.name)]
    return [pytest.param(kind, id=kind.name) for kind in is_async if ("asyncpg" in kind.name) is bound]


async def _use_elsewhere(shop: Shop, tx: object) -> None:
    """Borrow it and read, as an async client on another loop would."""

    async def use() -> None:
        face = shop.store.asynchronous()
        try:
            borrowed = await face.borrow(tx)
            assert await adrive(find_job(new_id()), borrowed.execute) is None
        finally:
            await face.close()

    await asyncio.to_thread(asyncio.run, use())


@pytest.mark.parametrize("kind", _awaited("postgres", bound=True))
async def test_asyncpg_is_refused(postgres_shop: Shop, kind: Kind) -> None:
    """Before anything is sent: asyncpg does not look, and can bring the process down."""
    async with kind.open(postgres_shop, None) as opened:
        await opened.write("mine")
        with pytest.raises(WrongConnection, match="another event loop"):
            await _use_elsewhere(postgres_shop, opened.tx)
        job = await opened.enqueue()
        await opened.commit()
    assert postgres_shop.has(job)
    assert postgres_shop.notes() == ["mine"]


@pytest.mark.parametrize("kind", _awaited("postgres", bound=False))
async def test_psycopg_does_not_mind(postgres_shop: Shop, kind: Kind) -> None:
    """Its connections wait on whatever loop runs."""
    async with kind.open(postgres_shop, None) as opened:
        await opened.write("mine")
        await _use_elsewhere(postgres_shop, opened.tx)
        job = await opened.enqueue()
        await opened.commit()
    assert postgres_shop.has(job)


@pytest.mark.parametrize("kind", _awaited("sqlite", bound=False))
async def test_aiosqlite_does_not_mind(sqlite_shop: Shop, kind: Kind) -> None:
    """Its connections have a thread of their own, which answers to whatever loop asked."""
    async with kind.open(sqlite_shop, None) as opened:
        await opened.write("mine")
        await _use_elsewhere(sqlite_shop, opened.tx)
        job = await opened.enqueue()
        await opened.commit()
    assert sqlite_shop.has(job)
