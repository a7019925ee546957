"""Chaos runs on SQLite and PostgreSQL; every test draws a seed and prints it."""

from __future__ import annotations

import os
import random

import pytest

from tests.crew.fixtures import crew, database, own_server

__all__ = ["crew", "database", "dice", "own_server"]


@pytest.fixture
def dice() -> random.Random:
    """To repeat a run: HOLDFAST_SEED=… python3 dev.py test tests/chaos/…"""
    seed = int(os.environ.get("HOLDFAST_SEED") or random.SystemRandom().randrange(2**32))
    print(f"seed {seed}")
    return random.Random(seed)  # noqa: S311 - reproducible on purpose
