"""The app of jobs that note when they start; the worker that runs them notes how long each of its claims takes."""

from __future__ import annotations

import os
import time
from typing import Any

from bench.notes import NoteTaker
from holdfast import App
from holdfast.operations.claim_jobs import Claim, claim_jobs
from holdfast.operations.statement import Operation
from holdfast.worker import fetcher

app = App(os.environ["HOLDFAST_URL"], name="bench", auto_migrate=True)
_notes = NoteTaker()


@app.job()
async def start(sent_ns: int) -> None:
    """Notes how long it took from the enqueue call to this line."""
    _notes.take("start", sent_ns)


@app.job()
async def late(sent_ns: int) -> None:
    """The same for jobs that were committed long after that call."""
    _notes.take("late", sent_ns)


def _noted_claim(*arguments: Any, **options: Any) -> Operation[Claim]:
    """From the statement's being handed to a connection to its answer's being read."""
    began_ns = time.monotonic_ns()
    claimed = yield from claim_jobs(*arguments, **options)
    _notes.take("claim", began_ns)
    return claimed


# From outside, a claim cannot be told from what comes before and after it, and the worker has no hook for claims.
fetcher.claim_jobs = _noted_claim  # type: ignore[attr-defined]  # the name by which the fetcher calls it
