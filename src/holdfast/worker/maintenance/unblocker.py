"""Unblocks what a crash left blocked: the end of a chain and the news of it may be two transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from holdfast.operations.sweep_blockers import sweep_blockers
from holdfast.worker.patient_store import PatientStore


class Unblocker:
    """Walks the waiting jobs, one page at a time; `woken` is called with the queues that got work by it."""

    name = "unblocker"
    interval = timedelta(seconds=10)
    timeout = timedelta(seconds=30)

    def __init__(self, store: PatientStore, woken: Callable[[Iterable[str]], None]) -> None:
        self._store = store
        self._woken = woken
        self._after: tuple[str, int] | None = None

    async def run_once(self) -> Mapping[str, int]:
        after = self._after
        swept = await self._store.run(lambda: sweep_blockers(after))
        self._after = swept.next_after
        if swept.woken:
            self._woken(swept.woken)
        return {"settled": swept.settled}
