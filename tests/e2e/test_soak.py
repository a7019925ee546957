"""`python3 dev.py soak`, as short as it can be judged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.soak.samples import INDEXES, MEMORY, TABLES, WAL, WAL_FILE

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("database", "judged"),
    [("sqlite", {TABLES, WAL_FILE, MEMORY}), ("postgres", {TABLES, INDEXES, WAL, MEMORY})],
)
def test_short_soak(database: str, judged: set[str]) -> None:
    """Everything is measured while jobs come, finish and go; nothing has settled yet, so the limit is a high one."""
    command = [sys.executable, "-m", "bench.soak", "--minutes=0.25", "--limit=3000", "--format=json"]
    ended = subprocess.run(
        [*command, f"--database={database}"], cwd=ROOT, check=False, capture_output=True, text=True, timeout=100
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    (verdicts,) = json.loads(ended.stdout).values()
    by_name = {each["name"]: each for each in verdicts}
    assert {name for name, each in by_name.items() if each["limit"] is not None} == judged
    assert all(by_name[name]["last"] > 0 for name in judged)
    # Some of those that finished have been pruned meanwhile.
    assert by_name["finished"]["last"] > 100
