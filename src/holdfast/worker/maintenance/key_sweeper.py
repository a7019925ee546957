"""Puts jobs back that are held behind nothing: somebody had them locked when their key was freed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from holdfast.operations.sweep_keys import find_stranded, free_keys
from holdfast.worker.maintenance.service import VerbRunner


class KeySweeper:
    """Walks the partition keys in which jobs are held, one page at a time; `woken` is told of queues that got work."""

    name = "key sweeper"
    interval = timedelta(seconds=5)
    timeout = timedelta(seconds=30)

    def __init__(self, store: VerbRunner, woken: Callable[[Iterable[str]], None]) -> None:
        self._store = store
        self._woken = woken
        self._after: tuple[str, str] | None = None

    @property
    def is_amid(self) -> bool:
        """Whether there are pages to come before all have been looked at."""
        return self._after is not None

    async def run_once(self) -> Mapping[str, int]:
        after = self._after
        swept = await self._store.run(lambda: find_stranded(after), read_only=True)
        self._after = swept.next_after
        if swept.stranded:
            self._woken(await self._store.run(lambda: free_keys(swept.stranded)))
        return {"freed": len(swept.stranded)}
