"""Deduplication and blockers through the clients, in transactions of their own and in the user's."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from holdfast import App, Dedup, JobHandle
from holdfast.errors import ChainNotFound, DuplicateKey
from holdfast.model.ids import new_id
from tests.conformance.client.conftest import Place, settled


def _send(app: App) -> JobHandle[..., Any]:
    def send(order: int) -> int:
        return order

    return app.job(dedup=lambda order: f"order:{order}" if order < 100 else None)(send)


async def test_types_own_key(place: Place) -> None:
    """Made from the arguments, unless it is None or the enqueue names another."""
    send = _send(place.app)
    enqueue = place.client.enqueue
    first = await settled(enqueue(send.call(1)))
    assert (await settled(enqueue(send.call(1)))).id == first.id
    assert (await settled(enqueue(send.call(1), dedup="other"))).id != first.id
    assert (await settled(enqueue(send.call(1).options(dedup="third")))).outcome == "created"
    assert len({(await settled(enqueue(send.call(100)))).id for _ in range(2)}) == 2


async def test_in_the_users_transaction(place: Place) -> None:
    """Rolled back, the key is free; committed, it is held; a refusal leaves the transaction usable."""
    send = _send(place.app)
    outcomes = []
    for commits in (False, True, True):
        connection = await place.connect()
        chain = await settled(place.client.enqueue(send.call(1), tx=connection))
        blocked = await settled(place.client.enqueue(send.call(200), blockers=[chain], tx=connection))
        assert blocked.status == "blocked"
        with pytest.raises(DuplicateKey):
            await settled(
                place.client.enqueue_many(
                    [send.call(300), send.call(7), send.call(1).options(dedup=Dedup("order:1", on_conflict="reject"))],
                    tx=connection,
                )
            )
        outcomes.append(chain.outcome)
        await settled(connection.commit() if commits else connection.rollback())
        await settled(connection.close())
    assert outcomes == ["created", "created", "kept"]
    assert sorted(job.input["order"] for job in await place.jobs()) == [1, 200, 200]
    assert (await settled(place.client.enqueue(send.call(7)))).outcome == "created"


async def test_missing_blocker_in_the_users_transaction(place: Place) -> None:
    """It is found missing after the key was taken: that is given back, and the transaction stays usable."""
    send = _send(place.app)
    connection = await place.connect()
    with pytest.raises(ChainNotFound):
        await settled(
            place.client.enqueue_many(
                [send.call(2), send.call(1).options(blockers=[new_id()])],
                tx=connection,
            )
        )
    await settled(place.client.enqueue(send.call(100), tx=connection))
    await settled(connection.commit())
    await settled(connection.close())
    assert [job.input["order"] for job in await place.jobs()] == [100]
    assert {(await settled(place.client.enqueue(send.call(order)))).outcome for order in (1, 2)} == {"created"}


async def test_replace_in_the_users_transaction(place: Place) -> None:
    """The holder is as it was until the commit, and for ever after a rollback."""
    send = _send(place.app)
    first = await settled(place.client.enqueue(send.call(1)))
    for commits in (False, True):
        connection = await place.connect()
        replace = Dedup("order:1", on_conflict="replace")
        chain = await settled(place.client.enqueue(send.call(2), dedup=replace, tx=connection))
        assert (chain.id, chain.outcome) == (first.id, "replaced")
        await settled(connection.commit() if commits else connection.rollback())
        await settled(connection.close())
        job = await settled(place.client.get_job(first.id))
        assert job.input == {"order": 2 if commits else 1}


async def test_chain_of_the_same_transaction_and_batch(place: Place) -> None:
    send = _send(place.app)
    connection = await place.connect()
    first = await settled(place.client.enqueue(send.call(101), tx=connection))
    own = new_id()
    batch = await settled(
        place.client.enqueue_many(
            [
                send.call(102).options(blockers=[own, first]),
                send.call(103).options(id=own),
            ],
            tx=connection,
        )
    )
    assert [chain.status for chain in batch] == ["blocked", "pending"]
    await settled(connection.commit())
    await settled(connection.close())
    assert [job.status for job in await place.jobs()] == ["pending", "blocked", "pending"]


async def test_batch_is_all_or_nothing(place: Place) -> None:
    """One refusal in a batch without tx= undoes all of it."""
    send = _send(place.app)
    await settled(place.client.enqueue(send.call(1)))
    with suppress(DuplicateKey):
        await settled(
            place.client.enqueue_many(
                [send.call(n) for n in range(2, 9)]
                + [send.call(1).options(dedup=Dedup("order:1", on_conflict="reject"))]
            )
        )
        pytest.fail("not refused")
    assert len(await place.jobs()) == 1
    again = await settled(place.client.enqueue_many([send.call(n) for n in range(1, 9)]))
    assert [chain.outcome for chain in again] == ["kept"] + ["created"] * 7


async def test_a_renamed_type(place: Place) -> None:
    """What was enqueued under the old name holds the key of the new one, for every verb that asks."""
    old_app = App(place.url, notify=False)

    @old_app.job(name="send")
    def send(order: int) -> None: ...

    @place.app.job(name="deliver", aliases=["send"])
    def deliver(order: int) -> None: ...

    with old_app.client() as old_client:
        first = old_client.enqueue(send.call(1), dedup="k")
        again = await settled(place.client.enqueue(deliver.call(2), dedup="k"))
        assert (again.id, again.outcome) == (first.id, "kept")
        assert (await settled(place.client.enqueue(deliver.call(2), id=first.id))).outcome == "kept"
        assert (await settled(place.client.remove("deliver", "k"))).id == first.id
        second = await settled(place.client.enqueue(deliver.call(3), dedup="k"))
        assert old_client.enqueue(send.call(4), dedup="k").id == second.id
        await settled(place.client.cancel(second))
        third = old_client.enqueue(send.call(4), dedup="k")
        assert [result.outcome for result in await settled(place.client.retry(second))] == ["key_taken"]
        await settled(place.client.cancel(third))
        assert [result.outcome for result in await settled(place.client.retry(second))] == ["retried"]
        assert old_client.enqueue(send.call(5), dedup="k").id == second.id
    old_app.close()
