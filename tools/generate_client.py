"""Writes the sync client and the sync context from the async ones: `python3 dev.py generate [--check]`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "src/holdfast/client"
SOURCE = CLIENT / "async_client.py"
TARGET = CLIENT / "client.py"
#: parts of the client: `NAME.py` is written from `NAME_async.py`, and begins with these words
PARTS = {
    "again": "Tries again what was in somebody's way, for threads.",
    "operating": "What operators do with queues and workers, for threads.",
    "schedules": "What is done with schedules, for threads.",
    "admin": "What operators do with the database as a whole, for threads.",
    "settings": "What operators set while everything runs, for threads.",
}
CONTEXT_SOURCE = ROOT / "src/holdfast/worker/context.py"
CONTEXT_TARGET = ROOT / "src/holdfast/worker/sync_context.py"


def _first_lines(what: str, source: str) -> str:
    return f'''"""{what}

Generated from `{source}` by `python3 dev.py generate`; edit that file instead.
"""
'''


_REPLACEMENTS = (
    (r'\A"""[^"]*"""\n', _first_lines("The client for threads.", SOURCE.name)),
    (r"^import asyncio\n(import time\n)?", "import time\n"),
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
    (r"\bAsyncQueues\b", "Queues"),
    (r"\bAsyncWorkers\b", "Workers"),
    (r"\bAsyncSchedules\b", "Schedules"),
    (r"\bAsyncAdmin\b", "Admin"),
    (r"\bAsyncSettings\b", "Settings"),
    (rf"\bclient\.({'|'.join(PARTS)})_async\b", r"client.\1"),
    (r"app\.async_client\(\)", "app.client()"),
    (r"safe to share between tasks of one event loop", "safe to share between threads"),
)

_CONTEXT_REPLACEMENTS = (
    (r'\A"""[^"]*"""\n', _first_lines("What a `def` handler is given, which runs in a thread.", CONTEXT_SOURCE.name)),
    # Of a step's three signatures the second is the one that a thread needs.
    (r"^    @overload\n    async def [^@]*?@overload\n([^@]*?\) -> T): \.\.\.\n    async def [^@]*?-> Any:$", r"\1:"),
    (r"async def step_tx\(\n +(self, .*)\n +\) -> T:$", r"def step_tx(\1) -> T:"),
    (r"\breturn codec\.decode\(saved\)", 'return cast("T", codec.decode(saved))'),
    (
        r"^from collections\.abc import AsyncIterator, Awaitable, Callable, Iterable$",
        "from collections.abc import Callable, Iterable, Iterator",
    ),
    (r"\bAsyncBorrowed, AsyncOwnTransaction, AsyncTransaction\b", "Borrowed, OwnTransaction, SyncTransaction"),
    (r"\bAsyncOwnTransaction\b", "OwnTransaction"),
    (r"\bAsyncAccess\b", "SyncAccess"),
    (r"\basynccontextmanager, nullcontext\b", "contextmanager, nullcontext"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bacall\b", "call_plain"),
    (r"\bclass Context\b", "class SyncContext"),
    (r"For `async def` handlers; `client` is an `AsyncClient`\.", "For `def` handlers; `client` is a `Client`."),
)


def render(text: str) -> str:
    """The sync face of an async module."""
    for pattern, replacement in _REPLACEMENTS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def render_part(name: str) -> str:
    """The sync face of a part of the client."""
    text = (CLIENT / f"{name}_async.py").read_text(encoding="utf-8")
    return re.sub(r'\A"""[^"]*"""\n', _first_lines(PARTS[name], f"{name}_async.py"), render(text))


def render_context(text: str) -> str:
    """The sync face of the async context."""
    for pattern, replacement in (*_CONTEXT_REPLACEMENTS, *_REPLACEMENTS[1:]):
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text


def main() -> int:
    files = {
        TARGET: render(SOURCE.read_text(encoding="utf-8")),
        **{CLIENT / f"{name}.py": render_part(name) for name in PARTS},
        CONTEXT_TARGET: render_context(CONTEXT_SOURCE.read_text(encoding="utf-8")),
    }
    if "--check" not in sys.argv[1:]:
        for target, wanted in files.items():
            target.write_text(wanted, encoding="utf-8")
            print(f"wrote {target.relative_to(ROOT)}")
        return 0
    stale = [
        target
        for target, wanted in files.items()
        if not target.exists() or target.read_text(encoding="utf-8") != wanted
    ]
    for target in files:
        state = "is stale; run: python3 dev.py generate" if target in stale else "is up to date"
        print(f"{target.relative_to(ROOT)} {state}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
