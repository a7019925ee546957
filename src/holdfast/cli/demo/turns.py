"""Whether the invoices of each customer were written one at a time, and in their order."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from holdfast.cli.demo import shop
from holdfast.cli.demo.executions import Delivery, Executions
from holdfast.model.job import Job


@dataclass(frozen=True, slots=True)
class Turns:
    """Numbers of invoices."""

    cut_short: int
    overlapping: int
    out_of_turn: int


def judge_turns(jobs: Iterable[Job], executions: Executions, killed_pid: int | None, killed_at_line: int) -> Turns:
    """By what the handlers wrote down; what a killed process had begun and not ended, it had in hand until then."""
    charges: dict[int, Job] = {}
    invoices: defaultdict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        order = job.input["order"]
        if job.type_name == shop.charge.name:
            charges[order["id"]] = job
        elif job.type_name == shop.write_invoice.name:
            invoices[order["customer"]].append(job)
    runs: defaultdict[str, list[Delivery]] = defaultdict(list)
    for (job_id, _), delivery in executions.deliveries.items():
        runs[job_id].append(delivery)

    def end_of(delivery: Delivery) -> float:
        if delivery.ended is not None:
            return delivery.ended
        return killed_at_line if delivery.pid == killed_pid else math.inf

    customers = invoices.values()
    return Turns(
        cut_short=sum(
            run.pid == killed_pid and run.ended is None for each in customers for job in each for run in runs[job.id]
        ),
        overlapping=sum(
            _overlapping([(run.began, end_of(run)) for job in each for run in runs[job.id]]) for each in customers
        ),
        out_of_turn=sum(_out_of_turn(each, charges, executions) for each in customers),
    )


def _overlapping(spans: Iterable[tuple[int, float]]) -> int:
    busy_until = -1.0
    overlapping = 0
    for began, ended in sorted(spans):
        overlapping += began < busy_until
        busy_until = max(busy_until, ended)
    return overlapping


def _out_of_turn(invoices: Sequence[Job], charges: dict[int, Job], executions: Executions) -> int:
    """An invoice is earlier than another if its charge had committed before that one's charge began.

    Between two charges at the same time nothing is decided: on PostgreSQL they commit in either order.
    """
    ordered = []
    waiting = []
    for invoice in invoices:
        charge = charges.get(invoice.input["order"]["id"])
        charging = None if charge is None else executions.deliveries.get((charge.id, charge.lease_generation))
        if charging is None:
            continue
        writing = executions.deliveries.get((invoice.id, invoice.lease_generation))
        written = math.inf if writing is None or writing.ended is None else writing.ended
        if charging.ended is not None:
            ordered.append((charging.ended, written))
        waiting.append((charging.began, executions.first_start_lines.get(invoice.id, -1)))
    ordered.sort()
    last_written = list(accumulate((written for _, written in ordered), max))
    out_of_turn = 0
    for charged_from, first_start in waiting:
        earlier = bisect_left(ordered, (charged_from,))
        out_of_turn += earlier > 0 and last_written[earlier - 1] > first_start
    return out_of_turn
