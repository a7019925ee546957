"""The ledger of the demo sees invoices out of their turn: a real run of its shop, with the lines of its log moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Client
from holdfast.cli.demo import shop
from holdfast.cli.demo.executions import EXECUTIONS, Executions
from holdfast.cli.demo.gateway import GATEWAY, GOOD_CARD, Gateway
from holdfast.cli.demo.ledger import Happenings, count
from holdfast.cli.demo.shop import Order
from holdfast.cli.demo.stage import Stage
from holdfast.cli.demo.turns import Turns, judge_turns

_ORDERS = [Order(number, "ada", GOOD_CARD, 500) for number in (1, 2, 3)]
_KILLED = 99


class Morning:
    """Three orders of one customer, one after the other, and the log of what was done."""

    def __init__(self, client: Client, directory: Path) -> None:
        self._client = client
        self._directory = directory
        self._jobs = list(client.iter_jobs(newest_first=False))
        self.lines = (directory / EXECUTIONS).read_text().splitlines()

    def job(self, type_name: str, order_id: int) -> str:
        wanted = (type_name, order_id)
        return next(job.id for job in self._jobs if (job.type_name, job.input["order"]["id"]) == wanted)

    def at(self, event: str, type_name: str, order_id: int) -> int:
        wanted = f"{event} {type_name} {self.job(type_name, order_id)} 1 "  # under its first lease
        return next(at for at, line in enumerate(self.lines) if line.startswith(wanted))

    def move(self, event: str, type_name: str, order_id: int, to: int) -> None:
        self.lines.insert(to, self.lines.pop(self.at(event, type_name, order_id)))

    def executions(self) -> Executions:
        path = self._directory / "moved.log"
        path.write_text("".join(f"{line}\n" for line in self.lines))
        executions = Executions(path)
        executions.read()
        return executions

    def turns(self, killed_at_line: int | None = None) -> Turns:
        killed_pid = None if killed_at_line is None else _KILLED
        return judge_turns(self._jobs, self.executions(), killed_pid, killed_at_line or 0)

    def is_right(self) -> bool:
        taken = Gateway(self._directory / GATEWAY).taken()
        return count(self._client, _ORDERS, self.executions(), taken, Happenings()).is_right


@pytest.fixture
def morning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Morning]:
    stage = Stage(f"sqlite:///{tmp_path / 'demo.db'}", "holdfast", tmp_path)
    monkeypatch.setenv("HOLDFAST_DEMO_DIRECTORY", str(tmp_path))
    with closing(stage.open_app()) as app, app.client() as client:
        for order in _ORDERS:
            client.enqueue(shop.charge.call(order))
            assert app.drain(timeout=60).completed == 4
        yield Morning(client, tmp_path)


def test_each_in_its_turn(morning: Morning) -> None:
    assert morning.turns() == Turns(cut_short=0, overlapping=0, out_of_turn=0)
    assert morning.is_right()


def test_two_at_the_same_time_overlap(morning: Morning) -> None:
    """The second began while the first was being written, which is not its turn either."""
    morning.move("start", "write_invoice", 2, to=morning.at("finish", "write_invoice", 1))
    assert morning.turns() == Turns(cut_short=0, overlapping=1, out_of_turn=1)
    assert not morning.is_right()


def test_the_first_that_comes_last_is_out_of_turn(morning: Morning) -> None:
    """Both others began before it, though its charge had been over before theirs began."""
    end = len(morning.lines) - 1
    morning.move("start", "write_invoice", 1, to=end)
    morning.move("finish", "write_invoice", 1, to=end)
    assert morning.turns() == Turns(cut_short=0, overlapping=0, out_of_turn=2)
    assert not morning.is_right()


def test_between_charges_at_the_same_time_nothing_is_decided(morning: Morning) -> None:
    """The second may come first where both charges were under way together; the third may not."""
    morning.move("start", "charge", 2, to=morning.at("finish", "charge", 1))
    behind_the_second = morning.at("finish", "write_invoice", 2)
    morning.move("start", "write_invoice", 1, to=behind_the_second)
    morning.move("finish", "write_invoice", 1, to=behind_the_second)
    assert morning.turns() == Turns(cut_short=0, overlapping=0, out_of_turn=0)


def test_a_kill_ends_what_was_begun(morning: Morning) -> None:
    """It was in hand until the kill: whoever began before that overlaps; the second attempt after that does not."""
    first = morning.at("start", "write_invoice", 1)
    morning.lines.insert(first, f"start write_invoice {morning.job('write_invoice', 1)} 0 {_KILLED}")
    assert morning.turns(killed_at_line=first + 1) == Turns(cut_short=1, overlapping=0, out_of_turn=0)
    assert morning.turns(killed_at_line=first + 2).overlapping == 1
    assert morning.turns().overlapping == 3


def test_those_behind_one_cut_short_wait_for_it(morning: Morning) -> None:
    """The second began after the kill and before the first had been written after all."""
    first = morning.at("start", "write_invoice", 1)
    morning.lines.insert(first, f"start write_invoice {morning.job('write_invoice', 1)} 0 {_KILLED}")
    end = len(morning.lines) - 1
    morning.move("start", "write_invoice", 1, to=end)
    morning.move("finish", "write_invoice", 1, to=end)
    assert morning.turns(killed_at_line=first + 1) == Turns(cut_short=1, overlapping=0, out_of_turn=2)
