"""What happens in the demo, from the first order to the last report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.markup import escape

from holdfast.cli.demo import shop
from holdfast.cli.demo.display import Display
from holdfast.cli.demo.executions import Executions
from holdfast.cli.demo.gateway import Gateway
from holdfast.cli.demo.ledger import STEPS, Happenings, has_unfinished, held_by
from holdfast.cli.demo.shop import Order
from holdfast.cli.fleet import Fleet, WorkerProcess
from holdfast.cli.interruption import Interruption
from holdfast.cli.shown import one_line
from holdfast.client import Client
from holdfast.errors import WorkerCannotWork
from holdfast.model.status import Status

#: how much is done when the worker may be killed, and when it is killed whatever it does
_KILL_AT = 0.3
_KILL_AT_LATEST = 0.8
_TICK_SECONDS = 0.05
_PATIENCE_SECONDS = 120.0


@dataclass
class Story:
    """Enqueues orders, watches the workers, kills one of them, waits, and sees to the dead letter."""

    client: Client
    fleet: Fleet
    executions: Executions
    gateway: Gateway
    display: Display
    interruption: Interruption
    orders: Sequence[Order]
    dead: set[str] = field(default_factory=set)
    held: frozenset[str] = frozenset()
    _victim: WorkerProcess | None = None
    _killed_at: float = 0.0
    _killed_at_line: int = 0
    _is_noticed: bool = False
    _is_recovered: bool = False

    @property
    def happenings(self) -> Happenings:
        killed = None if self._victim is None else self._victim.pid
        return Happenings(
            killed_pid=killed, killed_at_line=self._killed_at_line, held=self.held, dead=frozenset(self.dead)
        )

    def enqueue(self) -> None:
        """All orders in one transaction: they are all there, or none is."""
        began = time.monotonic()
        self.client.enqueue_many([shop.charge.call(order) for order in self.orders])
        took = time.monotonic() - began
        self.display.tell(f"{len(self.orders):,} orders came in, enqueued in one transaction in {took:.2f} s")

    def play(self, workers: int) -> None:
        for _ in range(workers):
            self.fleet.start()
        self.display.tell(f"started workers {', '.join(str(worker.pid) for worker in self.fleet.workers)}")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._is_over():
            self.interruption.check()
            if time.monotonic() > deadline:
                raise WorkerCannotWork(f"jobs are unfinished after {_PATIENCE_SECONDS:g} s; is this machine very busy?")
            time.sleep(_TICK_SECONDS)
        self.display.update()
        self.display.tell("nothing is left to do: SIGTERM to the workers")
        self.fleet.stop()
        self.display.tell(", ".join(f"worker {worker.number} {worker.state}" for worker in self.fleet.workers))
        self.executions.read()

    def _is_over(self) -> bool:
        """Look around, do what is due, and say whether everything has been done."""
        self.executions.read()
        self.fleet.check()
        self.display.update()
        if self._victim is None:
            self._kill_when_in_the_middle()
        elif not self._is_recovered:
            self._look_for_recovery(self._victim)
        elif not has_unfinished(self.client):
            return not self._revive_dead_letters()
        return False

    def _kill_when_in_the_middle(self) -> None:
        """Of an invoice, so that it is seen whether the next one of its customer waits for it."""
        victim = self.fleet.workers[1]
        done = self.executions.finished / (len(self.orders) * len(STEPS))
        if done < _KILL_AT:
            return
        with self.fleet.frozen(victim):
            self.executions.read()
            counts = self.executions.workers.get(victim.pid)
            is_busy = counts is not None and counts.running > 0 and done >= _KILL_AT_LATEST
            if not is_busy and not self.executions.is_running(shop.write_invoice.name, victim.pid):
                return
            self.fleet.kill(victim)
        self._victim = victim
        self._killed_at = time.monotonic()
        self._killed_at_line = self.executions.lines
        self.held = held_by(self.client, victim.pid)
        self.display.tell(
            f"[red]killed worker {victim.number}[/] (pid {victim.pid}, SIGKILL) while it held {len(self.held)} jobs"
        )

    def _look_for_recovery(self, victim: WorkerProcess) -> None:
        took = f"{time.monotonic() - self._killed_at:.1f} s after the kill"
        if not self._is_noticed and not held_by(self.client, victim.pid):
            self._is_noticed = True
            self.display.tell(f"its heartbeat is missed, its jobs are back in their queue, {took}")
        if self._is_noticed and all(self.client.get_job(job_id).status.is_terminal for job_id in self.held):
            self._is_recovered = True
            self.display.tell(f"[green]the others have ended all {len(self.held)} of them[/], {took}")

    def _revive_dead_letters(self) -> bool:
        """What a person does: look at the error, remove its cause, and say that it may be tried again."""
        letters = [job for job in self.client.iter_jobs(status=Status.DEAD_LETTER) if job.id not in self.dead]
        if not letters:
            return False
        for job in letters:
            self.dead.add(job.id)
            order = job.input["order"]["id"]
            error = escape(one_line(job.last_attempt_error))
            self.display.tell(f"[red]dead letter[/]: {job.type_name} of order {order}, attempt {job.attempt}: {error}")
        self.gateway.unblock_cards()
        retried = self.client.retry(letters, actor="holdfast demo")
        outcomes = ", ".join(result.outcome.value for result in retried)
        self.display.tell(f"the bank has unblocked the card; retried by hand: {outcomes}")
        return True
