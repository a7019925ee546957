"""Every Python example in README and docs runs, in the order of its page, in a directory of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, Block, blocks, page_name, pages
from tests.e2e.conftest import CommandLine
from tools.postgres_server import PostgresAddress

_EXAMPLE_URL = re.compile(r"(postgresql(?:\+\w+)?)://localhost/shop")
_PAGES_WITH_PYTHON = [page for page in pages() if blocks(page, "python")]


@pytest.fixture
def database(postgres_addresses: dict[int, PostgresAddress], worker_id: str) -> Iterator[str]:
    """What `postgresql://localhost/shop` of the examples stands for, from the host on."""
    address = postgres_addresses[max(postgres_addresses)]
    name = f"docs_{worker_id}_{time.monotonic_ns()}"
    yield address.create_database(name).partition("://")[2]
    address.drop_database(name)


def _real(text: str, database: str) -> str:
    return _EXAMPLE_URL.sub(rf"\1://{database}", text)


def _script(page: Path, sequence: list[Block]) -> str:
    """The blocks as one module, each at the line it has on its page, so that a traceback points there."""
    lines: list[str] = []
    for block in sequence:
        lines += [""] * (block.line - 1 - len(lines))
        lines += block.text.splitlines()
    return f"# {page.name}\n" + "\n".join(lines[1:]) + "\n"


def _run(directory: Path, *arguments: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=directory, check=False, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("page", _PAGES_WITH_PYTHON, ids=page_name)
def test_examples_run(page: Path, tmp_path: Path, database: str) -> None:
    """Titled blocks are files: modules are run once, tests by pytest; the others follow each other as one script."""
    found = blocks(page, "python")
    for block in found:
        if block.title is not None:
            (tmp_path / block.title).write_text(_real(block.text, database), encoding="utf-8")
    titles = [block.title for block in found if block.title is not None]
    for title in titles:
        if not title.startswith(("test_", "conftest")):
            _run(tmp_path, title)
    untitled = [block for block in found if block.title is None]
    script = tmp_path / f"{page.stem.replace('-', '_')}_examples.py"
    script.write_text(_real(_script(page, untitled), database), encoding="utf-8")
    _run(tmp_path, script.name)
    if any(title.startswith("test_") for title in titles):
        _run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:asyncio")


@pytest.mark.parametrize("page", ["README.md", "docs/tutorial/getting-started.md"])
def test_the_first_steps_work_as_typed(page: str, tmp_path: Path) -> None:
    """The module of the page, a job enqueued, the command of the page: the job runs."""
    module = next(block for block in blocks(ROOT / page, "python") if block.title == "shop.py")
    (tmp_path / "shop.py").write_text(module.text, encoding="utf-8")
    _run(tmp_path, "-c", "import shop; shop.send_receipt.enqueue(order_id=9182, email='ada@example.com')")
    assert "holdfast worker shop:app" in (ROOT / page).read_text(encoding="utf-8")
    worker = CommandLine(tmp_path).start("worker", "shop:app")
    try:
        worker.expect("receipt for order 9182 to ada@example.com")
        worker.signal()
        assert worker.exit_code() == 0
    finally:
        worker.process.kill()
