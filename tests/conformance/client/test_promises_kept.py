"""Small promises of the clients, on both databases and both faces: reads, outputs, filters, keys of types."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from holdfast import App, Dedup, JobFilter, JobHandle, SyncContext
from holdfast.errors import InvalidJobType, InvalidOption, InvalidPayload, UnknownJobType
from holdfast.testing import adrain
from tests.conformance.client.conftest import Place, settled


def _send(app: App) -> JobHandle[..., Any]:
    def send(order: int = 0) -> int:
        return order

    return app.job()(send)


def _tell(app: App) -> JobHandle[..., Any]:
    def tell() -> str:
        return ""

    return app.job()(tell)


async def test_chain_completed_by_another_type(place: Place) -> None:
    """Its output is of the type of the job that ended it."""
    chain = await settled(place.client.enqueue(_send(place.app).call(), delay=60))
    await settled(place.client.complete_chain(chain, _tell(place.app).call(), "text"))
    assert await settled(place.client.wait(chain, timeout=5)) == "text"


async def test_output_of_a_type_known_elsewhere(place: Place) -> None:
    """Read as the chain's type says if that fits, else as it is."""
    send = _send(place.app)
    chain = await settled(place.client.enqueue(send.call(), delay=60))
    await settled(place.client.complete_chain(chain, _tell(place.app).call(), "text"))
    other = App(place.url, notify=False)
    _send(other)
    with closing(other), other.client() as client:
        assert client.wait(chain.id, timeout=5) == "text"


async def test_cancelled_chain_does_not_go_on(place: Place) -> None:
    """The job that runs may complete; its next job is cancelled, for the reason given."""
    app, send = place.app, _send(place.app)

    @app.job()
    def go_on(ctx: SyncContext, only_job: bool) -> int:
        named: dict[str, Any] = {"job": ctx.job.id} if only_job else {"chains": ctx.job.chain_id}
        with app.client() as client:
            client.cancel(**named, reason="enough")
        return ctx.continue_with(send.call(order=2))  # type: ignore[no-any-return]  # the handler is untyped

    asked = await settled(place.client.enqueue(go_on.call(only_job=False)))
    other = await settled(place.client.enqueue(go_on.call(only_job=True)))
    await adrain(app)
    record = await settled(place.client.get_chain(asked))
    assert (record.status, record.job_count, record.tail.last_attempt_error.message) == ("cancelled", 2, "enough")
    assert (await settled(place.client.get_chain(other))).output == 2


async def test_delete_by_filter_beyond_a_batch(place: Place) -> None:
    """A chain is needed only until the one that waits for it has gone too, in a later batch or not."""
    send = _send(place.app)
    first = await settled(place.client.enqueue(send.call(), delay=60))
    await settled(place.client.enqueue_many([send.call() for _ in range(500)], delay=60))
    middle = await settled(place.client.enqueue(send.call(), blockers=[first]))
    await settled(place.client.enqueue(send.call(), blockers=[middle]))
    kept = await settled(place.client.enqueue(send.call(), delay=60))
    await settled(place.client.enqueue(_tell(place.app).call(), blockers=[kept]))
    results = await settled(place.client.delete_chains(JobFilter(type_name="send")))
    assert len(results) == 504
    assert [result.id for result in results if result.outcome != "deleted"] == [kept.id]
    assert next(result for result in results if result.id == kept.id).outcome == "needed"


class TestKeysOfTypes:
    """`dedup=` of a job type."""

    async def test_one_call_however_written(self, place: Place) -> None:
        """Arguments by position, by name, and left out where they have defaults."""

        def send(order: int = 0) -> int:
            return order

        job = place.app.job(dedup=lambda **given: str(sorted(given.items())))(send)
        calls = [job.call(), job.call(0), job.call(order=0), job.call(1)]
        chains = await settled(place.client.enqueue_many(calls, delay=60))
        assert [chain.outcome for chain in chains] == ["created", "kept", "kept", "created"]

    def test_must_take_the_arguments(self) -> None:
        """Found when the type is registered."""
        app = App("sqlite:///unused.db")
        for wrong in (lambda: "x", lambda other: "x", lambda order, more: "x", lambda order, /: "x"):
            with pytest.raises(InvalidJobType, match=r"send: dedup= .* order"):
                app.job(name="send", dedup=wrong)(lambda order: None)
        app.job(name="send", dedup=lambda order, extra=1: "x")(lambda order: None)

    @pytest.mark.parametrize("wrong", [lambda order: 1 // 0, lambda order: 7])
    def test_what_it_raises_names_the_type(self, wrong: Any) -> None:
        """As does a key that is none."""
        app = App("sqlite:///unused.db")
        job = app.job(name="send", dedup=wrong)(lambda order: None)
        with pytest.raises(InvalidPayload, match=r"send: its dedup= (raised ZeroDivisionError|returned int)"):
            job.call(order=1)

    async def test_overdue_holder(self, place: Place) -> None:
        """A holder that nobody started in time has given up its key before anybody cancels it."""
        send = _send(place.app)
        old = await settled(place.client.enqueue(send.call(), dedup="k", expires=0))
        new = await settled(place.client.enqueue(send.call(), dedup=Dedup("k", on_conflict="reject")))
        assert (new.outcome, new.id == old.id) == ("created", False)
        assert (await settled(place.client.get_job(old))).last_attempt_error.type == "Expired"


async def test_type_of_another_app(place: Place) -> None:
    """What no worker of this app could run is refused; the same type registered twice is the same type."""
    other = App("sqlite:///unused.db")
    call = _send(other).call()
    with pytest.raises(UnknownJobType, match="send"):
        await settled(place.client.enqueue(call))
    _send(place.app)
    await settled(place.client.enqueue(call))


async def test_options_are_named(place: Place) -> None:
    """In the words of the caller."""
    with pytest.raises(InvalidOption, match=r"^key=None"):
        await settled(place.client.remove("send", None))
    with pytest.raises(InvalidOption, match=r"^newest_first='no'"):
        await settled(place.client.list_jobs(newest_first="no"))
    pages = place.client.iter_jobs(page_size=0)
    with pytest.raises(InvalidOption, match=r"^page_size=0"):
        await anext(pages) if place.face == "async" else next(pages)


async def test_reads_open_no_transaction(sqlite_place: Place) -> None:
    """Nor take the write lock: others write on; with lock=True they do not."""
    place = sqlite_place
    chain = await settled(place.client.enqueue(_send(place.app).call(), delay=60))
    connection = await place.connect()
    for read in (place.client.get_job, place.client.find_chain, place.client.get_blockers):
        await settled(read(chain.id, tx=connection))
        assert not connection.in_transaction
    await settled(connection.execute("BEGIN"))
    await settled(place.client.get_job(chain, tx=connection))
    await settled(place.client.enqueue(_send(place.app).call(), delay=60))
    await settled(connection.rollback())
    await settled(place.client.get_job(chain, lock=True, tx=connection))
    assert connection.in_transaction
    await settled(connection.rollback())
    await settled(connection.close())


async def test_temporary_table_of_the_same_name(sqlite_place: Place) -> None:
    """A user's own is his."""
    place = sqlite_place
    chain = await settled(place.client.enqueue(_send(place.app).call(), delay=60))
    connection = await place.connect()
    await settled(connection.execute("CREATE TEMP TABLE holdfast_job (id TEXT)"))
    assert (await settled(place.client.get_job(chain, tx=connection))).status == "pending"
    await settled(place.client.enqueue(_send(place.app).call(), tx=connection, delay=60))
    await settled(connection.commit())
    await settled(connection.close())
    assert len(await place.jobs()) == 2
