"""The ledger of the demo sees what it claims not to have seen: a real run of its shop, spoilt in one way at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.cli.demo import shop
from holdfast.cli.demo.executions import EXECUTIONS, Executions
from holdfast.cli.demo.gateway import GATEWAY, GOOD_CARD, Gateway, Payment
from holdfast.cli.demo.ledger import Happenings, Ledger, count
from holdfast.cli.demo.shop import Order
from holdfast.cli.demo.stage import Stage

_ORDERS = [Order(1, "ada", GOOD_CARD, 1250), Order(2, "bob", GOOD_CARD, 700)]


@dataclass
class Evening:
    """The shop after its orders: what a ledger is counted from."""

    client: Client
    directory: Path

    @property
    def log(self) -> Path:
        return self.directory / EXECUTIONS

    def ids(self, type_name: str) -> list[str]:
        return [job.id for job in self.client.iter_jobs(type_name=type_name, newest_first=False)]

    def rewrite(self, change: Callable[[list[str]], list[str]]) -> None:
        self.log.write_text("\n".join(change(self.log.read_text().splitlines())) + "\n")

    def execute(self, sql: str, *parameters: str) -> None:
        with closing(sqlite3.connect(self.directory / "demo.db")) as connection, connection:
            assert connection.execute(sql, parameters).rowcount == 1

    def ledger(self, happenings: Happenings | None = None) -> Ledger:
        executions = Executions(self.log)
        executions.read()
        taken = Gateway(self.directory / GATEWAY).taken()
        return count(self.client, _ORDERS, executions, taken, happenings or Happenings())


@pytest.fixture
def evening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Evening]:
    stage = Stage(f"sqlite:///{tmp_path / 'demo.db'}", "holdfast", tmp_path)
    monkeypatch.setenv("HOLDFAST_DEMO_DIRECTORY", str(tmp_path))
    with closing(stage.open_app()) as app, app.client() as client:
        client.enqueue_many([shop.charge.call(order) for order in _ORDERS])
        assert app.drain(timeout=60).completed == 8
        yield Evening(client, tmp_path)


def test_a_clean_run(evening: Evening) -> None:
    """Every order was charged, and receipt, invoice and report followed; the money is where it belongs."""
    charges = evening.ids("charge")
    ledger = evening.ledger(Happenings(held=frozenset(charges[:1]), dead=frozenset(charges[1:])))
    assert ledger.is_right
    assert (ledger.orders, ledger.jobs, ledger.completed) == (2, 8, 8)
    assert (ledger.retried, ledger.returned, ledger.dead_letters, ledger.revived) == (0, 1, 1, 1)
    assert (ledger.lost, ledger.doubled, ledger.finished_twice, ledger.early_reports) == (0, 0, 0, 0)
    assert (ledger.cut_short, ledger.overlapping, ledger.out_of_turn) == (0, 0, 0)
    assert (ledger.ordered_cents, ledger.taken_cents, ledger.reported_cents) == (1950, 1950, 1950)


def test_a_vanished_row_is_lost(evening: Evening) -> None:
    """Whatever the handlers wrote down."""
    evening.execute("DELETE FROM holdfast_job WHERE id = ?", evening.ids("send_receipt")[0])
    ledger = evening.ledger()
    assert (ledger.lost, ledger.completed, ledger.is_right) == (1, 7, False)


def test_an_unfinished_job_is_lost(evening: Evening) -> None:
    """An order that came in and was left lying has lost all its steps; its money is missing."""
    evening.client.enqueue(shop.charge.call(Order(3, "eve", GOOD_CARD, 1)))
    executions = Executions(evening.log)
    executions.read()
    ledger = count(evening.client, [*_ORDERS, Order(3, "eve", GOOD_CARD, 1)], executions, [1950], Happenings())
    assert (ledger.lost, ledger.ordered_cents - ledger.reported_cents, ledger.is_right) == (4, 1, False)


def test_a_row_that_no_handler_finished_is_lost(evening: Evening) -> None:
    """Completed under a generation whose handler never came to its end, unless the kill fell into its last moment."""
    charge = evening.ids("charge")[0]
    evening.rewrite(lambda lines: [line for line in lines if not line.startswith(f"finish charge {charge} ")])
    ledger = evening.ledger()
    assert (ledger.lost, ledger.is_right) == (1, False)
    pid = int(evening.log.read_text().split()[4])
    assert evening.ledger(Happenings(killed_pid=pid)).is_right
    assert not evening.ledger(Happenings(killed_pid=pid + 1)).is_right


def test_a_step_that_exists_twice_is_doubled(evening: Evening) -> None:
    """A second invoice for one order, as a charge that committed twice would leave it."""
    payment = Payment("payment-1", 1250)
    evening.client.enqueue(shop.write_invoice.call(_ORDERS[0], payment))
    ledger = evening.ledger()
    assert (ledger.doubled, ledger.lost, ledger.is_right) == (1, 0, False)


def test_two_ends_under_one_generation_are_seen(evening: Evening) -> None:
    """Under two generations it is a retry after a crash."""
    receipt = evening.ids("send_receipt")[0]
    with evening.log.open("a") as log:
        log.write(f"start send_receipt {receipt} 2 77\nfinish send_receipt {receipt} 2 77\n")
    assert evening.ledger().is_right
    with evening.log.open("a") as log:
        log.write(f"finish send_receipt {receipt} 1 77\n")
    ledger = evening.ledger()
    assert (ledger.finished_twice, ledger.is_right) == (1, False)


@pytest.mark.parametrize("blocker", ["send_receipt", "write_invoice"])
def test_a_report_before_its_blockers_is_early(evening: Evening, blocker: str) -> None:
    """Its first line stands above the last line of one of them."""
    report = evening.ids("report_order")[0]

    def move_up(lines: list[str]) -> list[str]:
        start = next(line for line in lines if line.startswith(f"start report_order {report} "))
        others = [line for line in lines if line != start]
        first_end = next(index for index, line in enumerate(others) if line.startswith(f"finish {blocker} "))
        return [*others[:first_end], start, *others[first_end:]]

    evening.rewrite(move_up)
    ledger = evening.ledger()
    assert ledger.early_reports >= 1
    assert not ledger.is_right


def test_a_report_that_waits_for_nothing_is_early(evening: Evening) -> None:
    """It had luck, and nothing more."""
    report = evening.ids("report_order")[0]
    evening.execute('DELETE FROM holdfast_job_blocker WHERE job_id = ? AND "index" = 1', report)
    ledger = evening.ledger()
    assert (ledger.early_reports, ledger.lost, ledger.is_right) == (1, 0, False)


def test_money_that_was_not_taken_is_missed(evening: Evening) -> None:
    """The jobs are all there, but the provider has other figures."""
    (evening.directory / GATEWAY / "paid-2").unlink()
    ledger = evening.ledger()
    assert (ledger.lost, ledger.taken_cents, ledger.is_right) == (0, 1250, False)
