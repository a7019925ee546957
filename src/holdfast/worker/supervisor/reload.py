"""Notices that Python files have changed, by looking."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

_LOOK_SECONDS = 0.4
#: an editor or a checkout writes several files; this long without a further change, they are all there
_QUIET_SECONDS = 0.15
_NEVER_BELOW = {"__pycache__", "node_modules"}

Seen = dict[str, int]


class FileWatch:
    """The `*.py` files below a directory, without hidden ones and virtual environments."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen = self._look()

    async def changed(self) -> list[str]:
        """The files that changed since the last time, once they have come to rest."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = await asyncio.to_thread(self._look)
            if now == self._seen:
                continue
            before, resting = self._seen, None
            while now != resting:
                resting = now
                await asyncio.sleep(_QUIET_SECONDS)
                now = await asyncio.to_thread(self._look)
            self._seen = now
            if changed := sorted(path for path in {**before, **now} if before.get(path) != now.get(path)):
                return [path.removeprefix(f"{self._directory}{os.sep}") for path in changed]

    def _look(self) -> Seen:
        seen: Seen = {}
        waiting = [str(self._directory)]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    found = list(entries)
            except OSError:  # gone while we looked, or not ours to read
                continue
            if any(entry.name == "pyvenv.cfg" for entry in found):
                continue
            for entry in found:
                if entry.name.startswith(".") or entry.name in _NEVER_BELOW:
                    continue
                try:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.name.endswith(".py"):
                        seen[entry.path] = entry.stat().st_mtime_ns
                except OSError:
                    continue
        return seen
