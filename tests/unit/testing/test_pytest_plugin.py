"""The pytest plug-in, as a user's test run sees it."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

_ROOT = Path(__file__).parents[3]

_CONFTEST = """
import pytest
from shop import app

@pytest.fixture
def holdfast_source_app():
    return app
"""

_SHOP = """
from holdfast import App

app = App("sqlite:////nowhere/at/all.db")

@app.job()
def add(a: int, b: int) -> int:
    return a + b
"""

_TESTS = """
from shop import add
from holdfast.testing import drain, assert_enqueued

def test_jobs_run(holdfast_app, holdfast_client, holdfast_clock):
    chain = holdfast_client.enqueue(add.call(1, b=2), delay=60)
    assert_enqueued(holdfast_app, add, a=1)
    assert drain(holdfast_app).completed == 0
    holdfast_clock.advance(60)
    assert drain(holdfast_app).completed == 1
    assert holdfast_client.get_job(chain.id).output == 3

def test_nothing_is_left_over(holdfast_client):
    assert holdfast_client.list_jobs().items == []
"""


def test_fixtures(tmp_path: Path) -> None:
    """The fixtures give a user's job types a database of their own per test."""
    for name, text in (("conftest.py", _CONFTEST), ("shop.py", _SHOP), ("test_shop.py", _TESTS)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    command = [
        sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "holdfast.testing.pytest_plugin",
        "--rootdir", str(tmp_path), str(tmp_path),
    ]  # fmt: skip
    environment = {"PYTHONPATH": f"{_ROOT / 'src'}:{tmp_path}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_entry_point_names_it() -> None:
    """What pytest loads by itself is this module."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"holdfast": "holdfast.testing.pytest_plugin"}


def test_loading_it_needs_no_extra() -> None:
    """Every pytest run of an environment loads it: PostgreSQL's driver stays out, installed or not."""
    code = "import sys, holdfast.testing.pytest_plugin; print('psycopg' in sys.modules)"
    environment = {"PYTHONPATH": str(_ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
