"""Chaos runs on SQLite and PostgreSQL; every test draws a seed and prints it."""

from __future__ import annotations

import os
import random

import pytest

from tests.crew.fixtures import crew, database, no_leaks, own_server
from tests.crew.report import say

__all__ = ["crew", "database", "dice", "no_leaks", "own_server"]


@pytest.fixture
def dice() -> random.Random:
    """Seeded; `HOLDFAST_SEED=… python3 dev.py test tests/chaos` repeats a run."""
    seed = int(os.environ.get("HOLDFAST_SEED") or random.SystemRandom().randrange(2**32))
    say(f"seed {seed}")
    return random.Random(seed)  # noqa: S311 - reproducible on purpose
