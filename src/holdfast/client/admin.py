"""What operators do with the database as a whole, for threads.

Generated from `admin_async.py` by `python3 dev.py generate`; edit that file instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from holdfast.errors import RowReferenced
from holdfast.model.clock import Duration, checked_duration
from holdfast.model.operating import PruneCounts, VacuumCounts
from holdfast.operations.prune_chains import Walk, read_retention
from holdfast.operations.vacuum import vacuum
from holdfast.stores import SyncStore

OnPruned = Callable[[PruneCounts], object]
OnVacuumed = Callable[[VacuumCounts], object]

#: others have as much time as a batch took, and no more than this
_LONGEST_TURN = 1.0


class Admin:
    """`client.admin`."""

    def __init__(self, store: SyncStore) -> None:
        self._store = store

    def prune(
        self, *, older_than: Duration | None = None, dry_run: bool = False, progress: OnPruned | None = None
    ) -> PruneCounts:
        """Remove the chains that have ended and had their time now, instead of leaving that to a worker.

        - `older_than` (as `Keep` and the settings say): every chain that ended so long ago, whatever these say.
        - `dry_run`: remove nothing, and count what would go.
        - `progress`: called with the counts so far after every batch.

        What an unfinished job needs stays. Batches are small, and workers have their turn after each.
        """
        span = None if older_than is None else checked_duration("older_than", older_than)
        self._store.ensure_ready()
        retention = self._store.run(read_retention, read_only=True)
        walk = Walk(replace(retention, older_than=span), is_dry=dry_run)
        step = walk.next_step()
        while step is not None:
            began, is_heavy = time.monotonic(), step.is_heavy
            try:
                walk.receive(self._store.run(step.verb, read_only=step.is_read_only))
            except RowReferenced as error:
                walk.receive(error)
            step = walk.next_step()  # which also counts what came of the last one
            if progress is not None:
                progress(walk.counts)
            if is_heavy:
                time.sleep(min(time.monotonic() - began, _LONGEST_TURN))
        return walk.counts

    def vacuum(self, *, enable_incremental: bool = False, progress: OnVacuumed | None = None) -> VacuumCounts:
        """Give back the room of what was removed.

        On SQLite free pages at the end of the file go back to the file system, a slice at a time, so that the writer is
        free in between. On PostgreSQL the room goes back to the tables, by VACUUM (ANALYZE); reads and writes go on.

        - `enable_incremental`: SQLite only: rewrite a file that cannot be made smaller bit by bit, as those that
          Holdfast makes can. Nobody can write meanwhile, and it takes as much room again.
        - `progress`: called with the counts so far after every slice.
        """
        self._store.ensure_ready()
        if enable_incremental:
            self._store.enable_incremental_vacuum()
        first = left = self._store.run(lambda: vacuum(0))
        while left.is_incremental and left.free_pages:
            before, began = left.pages, time.monotonic()
            left = self._store.run(vacuum)
            if progress is not None:
                progress(replace_freed(left, first.pages))
            if left.pages >= before:
                break
            time.sleep(min(time.monotonic() - began, _LONGEST_TURN))
        return replace_freed(left, first.pages)


def replace_freed(counts: VacuumCounts, pages_before: int) -> VacuumCounts:
    """With what the file had before."""
    return VacuumCounts(
        pages=counts.pages,
        free_pages=counts.free_pages,
        freed_pages=max(0, pages_before - counts.pages),
        page_size=counts.page_size,
        is_incremental=counts.is_incremental,
    )
