"""Give back the room of what was removed."""

from __future__ import annotations

from holdfast.model.operating import VacuumCounts
from holdfast.operations.statement import Operation, Statement

#: pages of a SQLite file that are freed at a time: some milliseconds of the writer's
SLICE = 1000


def vacuum(pages: int = SLICE) -> Operation[VacuumCounts]:
    """A slice of a SQLite file, or all our tables on PostgreSQL; with no pages, see how things stand."""
    name = "vacuum" if pages else "measure_pages"
    rows = yield Statement(name, literals={"limit": pages} if pages else {})
    is_incremental, free_pages, all_pages, page_size = rows[0]
    return VacuumCounts(
        is_incremental=bool(is_incremental), free_pages=free_pages, pages=all_pages, page_size=page_size
    )
