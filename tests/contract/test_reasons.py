"""A rule that is switched off has its reason beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: in tests/typing an ignore is the claim itself: that line must be an error
_FOLDERS = ("src", "tests", "tools", "bench")
_IGNORE = re.compile(r"# (?:noqa: (?:[A-Z]+\d+(?:, )?)+|type: ignore\[[a-z, -]+\])(?P<rest>.*)$")
_REASON = re.compile(r" +(?:[-#] *)?\S.{2,}")


def _ignores() -> Iterator[tuple[str, str]]:
    """Place, and what follows the ignore on its line."""
    files = [path for folder in _FOLDERS for path in (ROOT / folder).rglob("*.py")]
    for file in [*files, ROOT / "dev.py"]:
        if file.parent.name == "typing" or file == Path(__file__):
            continue
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            if (found := _IGNORE.search(line)) is not None:
                yield f"{file.relative_to(ROOT)}:{number}", found["rest"]


def test_every_ignore_has_its_reason() -> None:
    """Of linter and type checkers; those of pyproject.toml stand beside their rules there."""
    ignores = list(_ignores())
    assert len(ignores) > 100
    assert [place for place, rest in ignores if not _REASON.fullmatch(rest)] == []
