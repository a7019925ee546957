"""The application of the demo does what its docstrings say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import App, Client
from holdfast.cli.demo import shop
from holdfast.cli.demo.gateway import BLOCKED_CARD, GOOD_CARD, SLOW_CARD
from holdfast.cli.demo.shop import Order
from holdfast.cli.demo.stage import Stage
from holdfast.operations.read_blockers import Blocker
from holdfast.testing import context


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    monkeypatch.setenv("HOLDFAST_DEMO_DIRECTORY", str(tmp_path))
    with closing(Stage(f"sqlite:///{tmp_path / 'demo.db'}", "holdfast", tmp_path).open_app()) as opened:
        yield opened


@pytest.fixture
def client(app: App) -> Iterator[Client]:
    with app.client() as opened:
        yield opened


def test_an_order_from_charge_to_report(app: App, client: Client) -> None:
    """The receipt continues the charge; the report waits for that chain and for the invoice, and gets both outputs."""
    chain = client.enqueue(shop.charge.call(Order(7, "ada", GOOD_CARD, 1250)))
    app.drain(timeout=60)
    assert [job.type_name for job in client.list_chain_jobs(chain).items] == ["charge", "send_receipt"]
    assert [(step.name, step.result) for step in client.list_steps(chain)] == [
        ("take the money", {"reference": "payment-7", "cents": 1250})
    ]
    assert client.get_chain(chain).output == "receipt for payment-7 to ada"
    (report,) = client.iter_jobs(type_name="report_order")
    receipt, invoice = client.get_blockers(report)
    assert (receipt.chain_id, receipt.output) == (chain.id, "receipt for payment-7 to ada")
    assert invoice.output == {"number": "ada/7", "cents": 1250}
    assert report.output == 1250


@pytest.mark.parametrize("card", [SLOW_CARD, BLOCKED_CARD])
def test_a_charge_that_fails_leaves_nothing(app: App, client: Client, card: str) -> None:
    """No receipt, no invoice, no report; it will be tried again."""
    chain = client.enqueue(shop.charge.call(Order(7, "ada", card, 1250)))
    assert app.drain(timeout=60).completed == 0
    (charge,) = client.iter_jobs()
    assert (charge.id, charge.status, charge.attempt) == (chain.id, "pending", 1)


async def test_a_report_refuses_a_wrong_invoice() -> None:
    """It looks at what its blockers returned."""
    order = Order(7, "ada", GOOD_CARD, 1250)
    receipt = Blocker(chain_id="a", output="receipt")
    right, wrong = (Blocker(chain_id="b", output={"number": "ada/7", "cents": cents}) for cents in (1250, 1))
    assert await shop.report_order.fn(context(blockers=[receipt, right]), order) == 1250
    with pytest.raises(ValueError, match="order 7 is about 1250 cents"):
        await shop.report_order.fn(context(blockers=[receipt, wrong]), order)
