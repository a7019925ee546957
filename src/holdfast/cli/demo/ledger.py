"""The account at the end: every figure counted from the database and from what the handlers wrote down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from holdfast.cli.demo import shop
from holdfast.cli.demo.executions import Executions
from holdfast.cli.demo.shop import Order
from holdfast.cli.demo.turns import judge_turns
from holdfast.client import Client
from holdfast.model.job import Job
from holdfast.model.status import Status

#: what every order must come to, once each
STEPS = tuple(shop.app.job_types)
_BLOCKERS = (shop.send_receipt.name, shop.write_invoice.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ledger:
    """Jobs by what became of them, and the money.

    - `orders`, `ordered_cents`: what came in. `taken_cents`: what the payment provider has. `reported_cents`: what the
      reports of the orders add up to.
    - `jobs`, `completed`: rows in the database.
    - `retried`: jobs whose handler raised and was started again.
    - `returned`: jobs that the killed worker held and that have completed now.
    - `dead_letters`: jobs that needed a person; `revived`: those of them that have completed now.
    - `lost`: steps of orders without a completed job, and completed jobs whose handler never came to its end.
    - `doubled`: jobs beyond one per step and order: of a charge that was repeated, only what committed may be there.
    - `finished_twice`: jobs whose handler came to its end more than once under one lease generation.
    - `early_reports`: reports that began before what they wait for had ended.
    - `cut_short`: invoices in whose middle the worker was killed.
    - `overlapping`: invoices that began while another one of their customer was being written.
    - `out_of_turn`: invoices that began before an earlier one of their customer had been written.
    """

    orders: int
    jobs: int
    completed: int
    retried: int
    returned: int
    dead_letters: int
    revived: int
    lost: int
    doubled: int
    finished_twice: int
    early_reports: int
    cut_short: int
    overlapping: int
    out_of_turn: int
    ordered_cents: int
    taken_cents: int
    reported_cents: int

    @property
    def is_right(self) -> bool:
        flaws = (self.lost, self.doubled, self.finished_twice, self.early_reports, self.overlapping, self.out_of_turn)
        return not any(flaws) and self.ordered_cents == self.taken_cents == self.reported_cents


@dataclass(frozen=True, kw_only=True, slots=True)
class Happenings:
    """What the story knows that no row tells afterwards."""

    killed_pid: int | None = None
    killed_at_line: int = 0
    held: frozenset[str] = frozenset()
    dead: frozenset[str] = frozenset()


def count(
    client: Client, orders: Collection[Order], executions: Executions, taken: Iterable[int], happenings: Happenings
) -> Ledger:
    jobs = {job.id: job for job in client.iter_jobs(newest_first=False)}
    tails = {job.chain_id: job for job in jobs.values() if job.is_tail}
    completed = {job_id: job for job_id, job in jobs.items() if job.status is Status.COMPLETED}
    per_step = Counter((job.input["order"]["id"], job.type_name) for job in jobs.values())
    done = {(job.input["order"]["id"], job.type_name) for job in completed.values()}
    missing = sum((order.id, step) not in done for order in orders for step in STEPS)
    unseen = [job for job in completed.values() if not _is_witnessed(job, executions, happenings.killed_pid)]
    turns = judge_turns(jobs.values(), executions, happenings.killed_pid, happenings.killed_at_line)
    reports = [job for job in completed.values() if job.type_name == shop.report_order.name]
    return Ledger(
        orders=len(orders),
        jobs=len(jobs),
        completed=len(completed),
        retried=len(executions.retried_jobs),
        returned=len(happenings.held & completed.keys()),
        dead_letters=len(happenings.dead),
        revived=len(happenings.dead & completed.keys()),
        lost=missing + len(unseen),
        doubled=sum(number - 1 for number in per_step.values()),
        finished_twice=len({job_id for (job_id, _), times in executions.finishes.items() if times > 1}),
        early_reports=sum(_is_early(client, report, tails, executions) for report in reports),
        cut_short=turns.cut_short,
        overlapping=turns.overlapping,
        out_of_turn=turns.out_of_turn,
        ordered_cents=sum(order.cents for order in orders),
        taken_cents=sum(taken),
        reported_cents=sum(report.output for report in reports),
    )


def _is_witnessed(job: Job, executions: Executions, killed_pid: int | None) -> bool:
    """A charge completes in its own transaction: the kill may fall between that commit and the handler's last line."""
    key = (job.id, job.lease_generation)
    delivery = executions.deliveries.get(key)
    return executions.finishes[key] > 0 or (delivery is not None and delivery.pid == killed_pid)


def _is_early(client: Client, report: Job, tails: Mapping[str, Job], executions: Executions) -> bool:
    """Whether it began before the last lines of both receipt and invoice, under the leases that completed them."""
    chains = [blocker.chain_id for blocker in client.get_blockers(report)]
    waited_for = [tails[chain_id] for chain_id in chains if chain_id in tails]
    if Counter(job.type_name for job in waited_for) != Counter(_BLOCKERS):
        return True
    began = executions.first_start_lines.get(report.id, -1)
    ends = [executions.deliveries.get((job.id, job.lease_generation)) for job in waited_for]
    return any(end is None or not end.is_finished or end.ended is None or end.ended > began for end in ends)


def held_by(client: Client, pid: int) -> frozenset[str]:
    """The jobs that the database says a process holds; a worker's id ends in its pid and a random part."""
    running = client.iter_jobs(status=Status.RUNNING)
    return frozenset(
        job.id for job in running if job.leased_by is not None and job.leased_by.split("-")[-2] == str(pid)
    )


def has_unfinished(client: Client) -> bool:
    return bool(client.list_jobs(status=[status for status in Status if not status.is_terminal], limit=1).items)
