"""Fenced blocks of Markdown files, with the line each begins at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL
)


@dataclass(frozen=True)
class Block:
    """One fenced block; a title is the name of the file that it is."""

    language: str
    title: str | None
    text: str
    line: int


def pages() -> list[Path]:
    """README and everything below docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def page_name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, language: str) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(match["language"], match["title"], match["text"], text[: match.start("text")].count("\n") + 1)
        for match in _FENCE.finditer(text)
        if match["language"] == language
    ]


def commands(page: Path) -> list[str]:
    """What is typed in the console blocks."""
    lines = [line for block in blocks(page, "console") for line in block.text.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
