"""`client.signal`, on both databases and both faces; and what people are told of jobs that wait."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import App, Context, JobHandle, Retry, Status
from holdfast.errors import (
    AlreadyFinished,
    ChainNeeded,
    ChainNotFound,
    InvalidOption,
    InvalidPayload,
    NoTransaction,
    PayloadTooLarge,
)
from holdfast.model.ids import new_id
from holdfast.testing import Drained, adrain
from tests.conformance.client.conftest import Place, settled


def _approval(app: App) -> JobHandle[[], Any]:
    @app.job(retry=Retry(max_attempts=1))
    async def approval(ctx: Context) -> Any:
        return await ctx.wait_signal("verdict")

    return approval


async def _waiting(place: Place) -> str:
    chain = await settled(place.client.enqueue(_approval(place.app).call()))
    await adrain(place.app)
    assert (await settled(place.client.get_job(chain))).status is Status.BLOCKED
    return str(chain.id)


@pytest.mark.parametrize("ending", ["commit", "rollback"])
async def test_in_the_senders_transaction(place: Place, ending: str) -> None:
    """Said if and only if it commits."""
    chain_id = await _waiting(place)
    connection = await place.connect()
    await settled(place.client.signal(chain_id, "verdict", {"good": True}, tx=connection))
    await settled(getattr(connection, ending)())
    await settled(connection.close())
    drained = await adrain(place.app)
    assert drained == (Drained(completed=1) if ending == "commit" else Drained())
    if ending == "commit":
        assert (await settled(place.client.get_job(chain_id))).output == {"good": True}


async def test_outside_a_transaction(place: Place) -> None:
    """tx= must carry it."""
    chain_id = await _waiting(place)
    connection = await place.connect(autocommit=True)
    with pytest.raises(NoTransaction):
        await settled(place.client.signal(chain_id, "verdict", tx=connection))
    await settled(connection.close())


async def test_bad_input(place: Place) -> None:
    """Typed errors that name the value; nobody is woken, nothing is kept."""
    chain_id = await _waiting(place)
    for error, arguments in (
        (ChainNotFound, (new_id(), "verdict")),
        (InvalidOption, ("no id", "verdict")),
        (InvalidOption, (chain_id, "")),
        (InvalidOption, (chain_id, "x" * 201)),
        (InvalidOption, (chain_id, "a\nb")),
        (InvalidOption, (chain_id, None)),
        (InvalidPayload, (chain_id, "verdict", float("nan"))),
        (InvalidPayload, (chain_id, "verdict", {"a": "\x00"})),
        (InvalidPayload, (chain_id, "verdict", "\ud800")),
        (InvalidPayload, (chain_id, "verdict", object())),
        (PayloadTooLarge, (chain_id, "verdict", "x" * (1 << 20))),
    ):
        with pytest.raises(error):
            await settled(place.client.signal(*arguments))
    assert await adrain(place.app) == Drained()
    assert (await settled(place.client.get_job(chain_id))).status is Status.BLOCKED


async def test_to_a_chain_that_has_ended(place: Place) -> None:
    chain_id = await _waiting(place)
    await settled(place.client.complete_job(chain_id, "by hand"))
    with pytest.raises(AlreadyFinished) as caught:
        await settled(place.client.signal(chain_id, "verdict", 1))
    assert (caught.value.job_id, caught.value.status) == (chain_id, "completed")


async def test_any_json_comes_through(place: Place) -> None:
    """Exactly."""
    payload = {"null": None, "big": 2**60, "float": 1.5, "text": "ä€😀", "nested": [[], {}, [None, True]]}
    chain_id = await _waiting(place)
    await settled(place.client.signal(chain_id, "verdict", payload))
    await adrain(place.app)
    assert (await settled(place.client.get_job(chain_id))).output == payload


async def test_what_people_are_told(place: Place) -> None:
    """What a job waits for, in words; a child that is needed is named."""

    @place.app.job(queue="elsewhere")
    async def part() -> int:
        return 1

    @place.app.job()
    async def parent(ctx: Context) -> Any:
        await ctx.wait_signal("go", 3600)
        children = [await ctx.enqueue(f"part {number}", part.call()) for number in range(2)]
        return await ctx.gather(children)

    chain = await settled(place.client.enqueue(parent.call()))
    await adrain(place.app, queues=["default"])
    (told, *_) = await settled(place.client.explain(chain))
    assert told.startswith("it waits for signal 'go' until ")
    assert told.endswith("for another 60 minutes")
    await settled(place.client.signal(chain, "go"))
    await adrain(place.app, queues=["default"])
    told = await settled(place.client.explain(chain))
    assert told[0] == "it waits for 2 of its 2 children"
    assert told[1].startswith("child 'part 0', chain ")
    assert await settled(place.client.get_blockers(chain)) == []
    (child, *_) = [job for job in await place.jobs() if job.type_name == "part"]
    with pytest.raises(ChainNeeded, match=chain.id):
        await settled(place.client.delete_chains(child.id))
    page = await settled(place.client.list_blocked_jobs(child.id))
    assert [job.id for job in page.items] == [chain.id]
    await adrain(place.app)
    assert (await settled(place.client.get_chain(chain))).output == [1, 1]
    steps = await settled(place.client.list_steps(chain))
    assert [(step.name, step.kind) for step in steps] == [("go", "signal"), ("part 0", "child"), ("part 1", "child")]
    results = await settled(place.client.delete_chains(chain, cascade=True))
    assert len(results) == 3
