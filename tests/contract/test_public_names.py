"""What `import holdfast` gives: names that exist and say what they are, quickly, and without any driver."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import pytest

import holdfast

OPTIONAL = ("psycopg", "psycopg_pool", "asyncpg", "sqlalchemy", "redis", "nats", "starlette", "rich", "click")
SECONDS = 0.5

IMPORT = f"""
import json, sys, time
began = time.process_time()
import holdfast
spent = time.process_time() - began
print(json.dumps([spent, sorted(set(sys.modules) & {set(OPTIONAL)!r})]))
"""


@pytest.mark.parametrize("name", holdfast.__all__)
def test_public_names_are_documented(name: str) -> None:
    documentation = inspect.getdoc(getattr(holdfast, name))
    assert documentation
    assert documentation.strip()


def test_public_names_are_sorted_and_complete() -> None:
    """Whatever the package shows without an underscore, apart from its rooms, is listed."""
    rooms = {name for name, value in vars(holdfast).items() if inspect.ismodule(value)}
    shown = {name for name in vars(holdfast) if not name.startswith("_")} - rooms
    assert list(holdfast.__all__) == sorted(holdfast.__all__)
    assert shown == set(holdfast.__all__)


def test_import_is_light() -> None:
    """Drivers and frameworks are extras; and a program that only enqueues starts at once.

    The best of three, in processor time, so that a busy machine does not fail it.
    """
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    assert runs[0][1] == []
    assert min(seconds for seconds, _ in runs) < SECONDS
