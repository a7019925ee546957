"""Which changes of files are noticed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.worker.supervisor.reload import FileWatch


async def test_changes_come_together(tmp_path: Path) -> None:
    """A new, a changed and a removed module in one go; the next wait begins after them."""
    (tmp_path / "shop").mkdir()
    for name in ("shop/jobs.py", "shop/mail.py", "notes.txt"):
        (tmp_path / name).write_text("1")
    watch = FileWatch(tmp_path)
    changed = asyncio.create_task(watch.changed())
    (tmp_path / "shop/jobs.py").write_text("two")
    (tmp_path / "shop/mail.py").unlink()
    await asyncio.sleep(0.05)
    (tmp_path / "new.py").write_text("3")
    assert await asyncio.wait_for(changed, 5) == ["new.py", "shop/jobs.py", "shop/mail.py"]
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watch.changed(), 1)


async def test_other_files_do_not_count(tmp_path: Path) -> None:
    """Data, caches, hidden directories and virtual environments are not the code."""
    for name in (".git", "__pycache__", "venv", "shop"):
        (tmp_path / name).mkdir()
    (tmp_path / "venv" / "pyvenv.cfg").write_text("")
    watch = FileWatch(tmp_path)
    for name in ("jobs.db", "shop/notes.txt", ".git/hook.py", "__pycache__/x.py", "venv/lib.py", ".hidden.py"):
        (tmp_path / name).write_text("new")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(watch.changed(), 1.2)
