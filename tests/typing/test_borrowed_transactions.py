"""Both type checkers accept what the files beside this one say is right, and refuse what they say is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Without a cache a checker reads everything, in half a minute of a core for itself.
pytestmark = pytest.mark.timeout(300)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SUBJECTS = [
    HERE / f"{name}.py"
    for name in (
        "borrowed_transactions",
        "waiting_and_completing",
        "contexts",
        "batches",
        "partition_keys",
        "durable_waits",
        "events",
    )
]

_subjects = pytest.mark.parametrize("subject", SUBJECTS, ids=lambda path: path.stem)


@_subjects
def test_mypy(request: pytest.FixtureRequest, subject: Path) -> None:
    """An ignore that nothing needs is an error too, so the refusals are checked."""
    cache = request.config.cache
    assert cache is not None
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(cache.mkdir("mypy")), str(subject)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@_subjects
def test_basedpyright(tmp_path: Path, subject: Path) -> None:
    """The same."""
    config = {
        "include": [str(subject)],
        "extraPaths": [str(ROOT / "src")],
        "typeCheckingMode": "standard",
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    path = tmp_path / "pyrightconfig.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--project", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
