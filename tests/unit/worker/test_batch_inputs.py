"""Inputs of a batch: each job answers for its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from holdfast import Batch, SyncBatch
from holdfast.testing import adrain, temporary_app


@dataclass
class Order:
    """As after a deploy: its code now stumbles over what was good before."""

    number: int
    stumbles_over: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if self.number == self.stumbles_over:
            raise LookupError(self.number)


async def _ship(batch: Batch[Order]) -> None: ...


def _ship_in_a_thread(batch: SyncBatch[Order]) -> None: ...


@pytest.mark.parametrize("handler", [_ship, _ship_in_a_thread])
async def test_who_stumbles_over_its_input_takes_nobody_along(
    handler: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with temporary_app() as app:
        ship = app.job(batch=5)(handler)
        errors: list[BaseException] = []
        app.on_error(lambda _, error: errors.append(error))
        async with app.async_client() as client:
            chains = await client.enqueue_many([ship.call(Order(number)) for number in range(5)])
            monkeypatch.setattr(Order, "stumbles_over", 2)
            done = await adrain(app, timeout=5)
            assert (done.completed, done.retried) == (4, 1)
            error = (await client.get_job(chains[2].id)).last_attempt_error
        assert error is not None
        assert error.type == "LookupError"
        assert [type(each) for each in errors] == [LookupError]
