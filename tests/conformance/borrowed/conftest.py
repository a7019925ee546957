"""Shops on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.borrowed.shop import Shop


@pytest.fixture
async def postgres_shop(migrated_postgres_url: str) -> AsyncIterator[Shop]:
    shop = Shop(migrated_postgres_url)
    yield shop
    await shop.close()


@pytest.fixture
async def sqlite_shop(sqlite_file: Path) -> AsyncIterator[Shop]:
    shop = Shop(f"sqlite:///{sqlite_file}")
    yield shop
    await shop.close()
