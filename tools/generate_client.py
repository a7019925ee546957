"""Writes the sync client from the async one: `python3 dev.py generate [--check]`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src/holdfast/client/async_client.py"
TARGET = ROOT / "src/holdfast/client/client.py"

_FIRST_LINES = '''"""The client for threads.

Generated from `async_client.py` by `python3 dev.py generate`; edit that file instead.
"""
'''

_REPLACEMENTS = (
    (r'\A"""[^"]*"""\n', _FIRST_LINES),
    (r"^import asyncio\n", ""),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\badrive\b", "drive"),
    (r"\baresult_of\b", "result_of"),
    (r"for job in page\.items:\n\s+yield job", "yield from page.items"),
    (r"\bAsyncIterator, Iterable\b", "Iterable, Iterator"),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncStore\b", "SyncStore"),
    (r"\bAsyncBorrowed\b", "Borrowed"),
    (r"\bAsyncTransaction\b", "SyncTransaction"),
    (r"\bAsyncClient\b", "Client"),
    (r"app\.async_client\(\)", "app.client()"),
    (r"safe to share between tasks of one event loop", "safe to share between threads"),
)


def render(text: str) -> str:
    """The sync face of an async module."""
    for pattern, replacement in _REPLACEMENTS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def main() -> int:
    wanted = render(SOURCE.read_text(encoding="utf-8"))
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(wanted, encoding="utf-8")
        print(f"wrote {TARGET.relative_to(ROOT)}")
        return 0
    if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != wanted:
        print(f"{TARGET.relative_to(ROOT)} is stale; run: python3 dev.py generate")
        return 1
    print(f"{TARGET.relative_to(ROOT)} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
