"""docs/map.md is true: every file and symbol that it names exists."""

from __future__ import annotations

import importlib
import re
from functools import reduce

import pytest

from tests.docs.blocks import ROOT

_ROW = re.compile(r"^\| (?P<question>[^|]+\?) \| `(?P<file>[^`]+)` \| `(?P<symbol>[^`]+)` \|$", re.MULTILINE)
#: SQLite has neither functions nor roles
_ONLY_POSTGRES = tuple(f"src/holdfast/sql/postgres/{folder}/" for folder in ("functions", "roles"))
_TEXT = (ROOT / "docs" / "map.md").read_text(encoding="utf-8")
_ROWS = [(match["question"], match["file"], match["symbol"]) for match in _ROW.finditer(_TEXT)]


def test_every_row_is_read() -> None:
    """No row escapes by its shape; the four questions that matter most are answered."""
    assert len(_ROWS) == sum(line.startswith("| ") and "?" in line for line in _TEXT.splitlines())
    questions = " ".join(question for question, _, _ in _ROWS).lower()
    for word in ("claim order", "next attempt", "the fence", "reapable"):
        assert word in questions


@pytest.mark.parametrize(("question", "file", "symbol"), _ROWS, ids=[row[0] for row in _ROWS])
def test_the_answer_exists(question: str, file: str, symbol: str) -> None:
    """In Python the symbol resolves; in SQL it stands in the file, which both dialects have or which says otherwise."""
    path = ROOT / file
    assert path.is_file(), f"{question} {file} is gone"
    if path.suffix == ".py":
        module = importlib.import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
        reduce(getattr, symbol.split("."), module)
    else:
        text = path.read_text(encoding="utf-8")
        assert re.search(rf"\b{symbol}\b", text), f"{file} has no {symbol}"
        is_for_both = not file.startswith(_ONLY_POSTGRES) and "\n-- only: postgres\n" not in text
        assert (ROOT / file.replace("/postgres/", "/sqlite/")).is_file() is is_for_both
