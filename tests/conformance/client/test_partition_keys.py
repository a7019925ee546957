"""Partition keys through the clients: what is stored, whose key it is, and in which order a real worker runs them."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import Any

import pytest

from holdfast import App, Call, Context, Dedup, JobHandle
from holdfast.errors import InvalidJobType, InvalidOption, InvalidPayload
from tests.conformance.client.conftest import Place, settled


class Shop:
    """Job types that write down who begins and who ends."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.events: list[tuple[str, Any]] = []

    @property
    def begun(self) -> list[Any]:
        return [what for event, what in self.events if event == "begin"]

    def charge(self, **settings: Any) -> JobHandle[..., Any]:
        async def charge(order: int, key: str | None = None) -> None:
            self.events.append(("begin", order))
            # Whoever could run beside it does so now.
            await asyncio.sleep(0.005)
            self.events.append(("end", order))

        handle: JobHandle[..., Any] = self.app.job(**settings)(charge)
        return handle


@pytest.fixture
def shop(place: Place) -> Shop:
    return Shop(place.app)


def overlaps(events: list[tuple[str, Any]], orders: set[Any]) -> bool:
    """Whether of some jobs one began before another one had ended."""
    words = [event for event, what in events if what in orders]
    return words != ["begin", "end"] * (len(words) // 2)


# --- what is stored ---------------------------------------------------------------------------------------------------


async def test_options_are_stored(place: Place, shop: Shop) -> None:
    """And shown by everything that shows jobs."""
    charge = shop.charge()
    chain = await settled(
        place.client.enqueue(
            charge.call(1),
            partition_key="order:1",
            ordering="serial",
            concurrency_key="psp",
            flags=(word for word in ("gpu", "big", "gpu")),
        )
    )
    await settled(place.client.enqueue(charge.call(2), partition_key="order:2"))
    await settled(place.client.enqueue(charge.call(3)))
    job = await settled(place.client.get_job(chain.id))
    assert (job.partition_key, job.ordering, job.concurrency_key, job.flags) == (
        *("order:1", "serial", "psp"), ["big", "gpu"],
    )  # fmt: skip
    found = await settled(place.client.list_jobs(partition_key="order:1"))
    assert [job.id for job in found.items] == [chain.id]
    assert [(job.partition_key, job.ordering, job.flags) for job in await place.jobs()][1:] == [
        ("order:2", "fifo", None),
        (None, None, None),
    ]


async def test_in_the_users_transaction(place: Place, shop: Shop) -> None:
    """Rolled back there is none in front; committed, the key has its order."""
    charge = shop.charge()
    for order, commits in ((1, False), (2, True)):
        connection = await place.connect()
        await settled(
            place.client.enqueue_many([charge.call(order), charge.call(order + 10)], partition_key="k", tx=connection)
        )
        await settled(connection.commit() if commits else connection.rollback())
        await settled(connection.close())
    await settled(place.client.enqueue(charge.call(3), partition_key="k"))
    assert (await place.app.adrain(timeout=30)).completed == 3
    assert shop.begun == [2, 12, 3]


# --- the type's own key -----------------------------------------------------------------------------------------------


async def test_types_own_key(place: Place, shop: Shop) -> None:
    """Made from the arguments, those left out included; what the enqueue says wins, None says nothing."""
    charge = shop.charge(
        partition_key=lambda order, key: None if order > 100 else f"{key}:{order}", ordering="serial", name="charge"
    )
    enqueue = place.client.enqueue
    given: list[tuple[Call[Any], dict[str, Any]]] = [
        (charge.call(1), {}),
        (charge.call(order=2, key="a"), {}),
        (charge.call(101), {}),
        (charge.call(1), {"partition_key": "b"}),
        (charge.call(1).options(partition_key="c"), {"partition_key": "b", "ordering": "fifo"}),
        (charge.call(1).options(partition_key=None), {"partition_key": None, "ordering": None, "shards": None}),
        (charge.call(101), {"partition_key": "d"}),
    ]
    for call, options in given:
        await settled(enqueue(call, **options))
    assert [(job.partition_key, job.ordering) for job in await place.jobs()] == [
        ("None:1", "serial"),
        ("a:2", "serial"),
        (None, None),
        ("b", "serial"),
        ("c", "fifo"),
        ("None:1", "serial"),
        ("d", "serial"),
    ]


async def test_one_key_for_all(place: Place, shop: Shop) -> None:
    """A string; declared types have keys as well."""
    charge = shop.charge(partition_key="all", shards=3)
    declared: JobHandle[..., Any] = place.app.declare(
        "elsewhere", input={"order": int}, partition_key=lambda order: f"order:{order}", ordering="serial"
    )
    await settled(place.client.enqueue(charge.call(1)))
    await settled(place.client.enqueue(declared.call(order=7)))
    first, second = await place.jobs()
    assert first.partition_key in {"all#0", "all#1", "all#2"}
    assert (second.partition_key, second.ordering) == ("order:7", "serial")


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda order, key: order, InvalidPayload, "its partition_key= returned int, not a string or None"),
        (lambda order, key: order / 0, InvalidPayload, "its partition_key= raised ZeroDivisionError"),
        (lambda order, key: "", InvalidOption, "partition_key=''"),
        (lambda order, key: "x" * 201, InvalidOption, "1–200"),
        (lambda order, key: "a\x00", InvalidOption, r"partition_key='a\x00'"),
    ],
    ids=["no text", "raises", "empty", "endless", "nul"],
)
async def test_what_a_types_key_must_not_be(
    place: Place, shop: Shop, make: Any, error: type[Exception], words: str
) -> None:
    """An error that names it, and nothing written, of a whole batch."""
    bad = shop.charge(partition_key=make)
    good: JobHandle[..., Any] = place.app.declare("good", partition_key="k")
    with pytest.raises(error) as caught:
        await settled(place.client.enqueue_many([good.call(), bad.call(1)]))
    assert words in str(caught.value)
    assert await place.jobs() == []


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"partition_key": ""}, InvalidOption, "partition_key=''"),
        ({"partition_key": "x" * 201}, InvalidOption, "1–200"),
        ({"partition_key": 5}, InvalidOption, "partition_key=5"),
        ({"partition_key": lambda: "k"}, InvalidJobType, "must be a function of the job's own: order"),
        ({"partition_key": lambda item: "k"}, InvalidJobType, "must be a function of the job's own: order"),
        ({"ordering": "lifo"}, InvalidOption, "ordering='lifo'"),
        ({"ordering": None}, InvalidOption, "ordering=None"),
        ({"shards": 2}, InvalidOption, "needs a partition_key"),
        ({"partition_key": "k", "shards": 0}, InvalidOption, "shards=0"),
        ({"partition_key": "k", "shards": 1025}, InvalidOption, "1,024"),
        ({"partition_key": "x" * 196, "shards": 2}, InvalidOption, "195"),
    ],
)
def test_what_a_type_must_not_say(settings: Any, error: type[Exception], words: str) -> None:
    """Found when it is registered, and when it is declared."""
    app = App("sqlite:///never-opened.db")

    def charge(order: int) -> None: ...

    with pytest.raises(error) as caught:
        app.job(**settings)(charge)
    assert words in str(caught.value)
    with pytest.raises(error):
        app.declare("charge", input={"order": int}, **settings)
    assert app.job_types == {}


# --- order ------------------------------------------------------------------------------------------------------------


async def test_a_batch_runs_in_order(place: Place, shop: Shop) -> None:
    """One at a time, in the order of the calls and whatever their priorities, while others run beside it."""
    charge = shop.charge()
    calls = [charge.call(order).options(partition_key="k", priority=-order) for order in range(20)]
    calls += [charge.call(order) for order in range(100, 110)]
    await settled(place.client.enqueue_many(calls))
    await settled(place.client.enqueue(charge.call(20), partition_key="k", priority=-1000))
    assert (await place.app.adrain(concurrency=20, timeout=60)).completed == 31
    assert [order for order in shop.begun if order < 100] == list(range(21))
    assert not overlaps(shop.events, set(range(21)))
    assert overlaps(shop.events, set(range(110)))


async def test_serial_jobs_wait_for_a_running_one_only(place: Place, shop: Shop) -> None:
    """Not for one whose time has not come, as others do; one at a time all the same."""
    charge = shop.charge()
    for key, ordering in (("s", "serial"), ("f", "fifo")):
        first = 0 if key == "s" else 100
        calls = [charge.call(first).options(delay=3600), *(charge.call(first + order) for order in range(1, 6))]
        await settled(place.client.enqueue_many(calls, partition_key=key, ordering=ordering))
    assert (await place.app.adrain(concurrency=6, timeout=30)).completed == 5
    assert sorted(shop.begun) == [1, 2, 3, 4, 5]
    assert not overlaps(shop.events, set(range(6)))


async def test_shards_spread_a_key(place: Place, shop: Shop) -> None:
    """Over that many sub-keys, which run beside each other, each in its order."""
    charge = shop.charge()
    await settled(place.client.enqueue_many([charge.call(order) for order in range(40)], partition_key="hot", shards=3))
    shards: dict[str, list[int]] = defaultdict(list)
    for job in await place.jobs():
        shards[job.partition_key].append(job.input["order"])
    assert shards.keys() == {"hot#0", "hot#1", "hot#2"}
    await place.app.adrain(concurrency=10, timeout=60)
    assert overlaps(shop.events, set(range(40)))
    for orders in shards.values():
        assert [order for order in shop.begun if order in orders] == orders
        assert not overlaps(shop.events, set(orders))
    page = await settled(place.client.list_jobs(partition_key="hot#1"))
    assert sorted(job.input["order"] for job in page.items) == shards["hot#1"]


# --- chains, and keys of other kinds ----------------------------------------------------------------------------------


async def test_continuations_inherit_key_and_place(place: Place, shop: Shop) -> None:
    """The whole chain runs before the next one of its key, also through types that have keys of their own."""

    async def step(ctx: Context, order: int, left: int) -> Any:
        shop.events.append(("begin", (order, left)))
        await asyncio.sleep(0.005)
        shop.events.append(("end", (order, left)))
        return await ctx.continue_with(steps[left % 2].call(order, left - 1)) if left else None

    steps = [
        place.app.job(name="even")(step),
        place.app.job(name="odd", partition_key=lambda order, left: f"own:{order}", ordering="serial")(step),
    ]
    first = [await settled(place.client.enqueue(steps[0].call(order, 3), partition_key="k")) for order in (1, 2, 3)]
    await place.app.adrain(concurrency=10, timeout=30)
    expected = list(itertools.product((1, 2, 3), (3, 2, 1, 0)))
    assert shop.begun == expected
    assert not overlaps(shop.events, set(expected))
    for chain in first:
        page = await settled(place.client.list_chain_jobs(chain))
        assert [(job.type_name, job.partition_key, job.ordering) for job in page.items] == [
            ("even", "k", "fifo"), ("odd", "k", "fifo"), ("even", "k", "fifo"), ("odd", "k", "fifo"),
        ]  # fmt: skip


async def test_a_continuation_with_a_key_of_its_own(place: Place, shop: Shop) -> None:
    """Given by the call it wins; the type's counts where the chain has none."""
    charge = shop.charge(partition_key=lambda order, key: f"type:{order}")

    async def begin(ctx: Context, order: int) -> Any:
        call = charge.call(order)
        return await ctx.continue_with(call.options(partition_key="given", flags=["gpu"]) if order == 1 else call)

    begin_type = place.app.job()(begin)
    chains = [
        await settled(place.client.enqueue(begin_type.call(1), partition_key="k")),
        await settled(place.client.enqueue(begin_type.call(2), partition_key="k")),
        await settled(place.client.enqueue(begin_type.call(3))),
    ]
    await place.app.adrain(timeout=30)
    tails = [(await settled(place.client.get_chain(chain))).tail for chain in chains]
    assert [(job.partition_key, job.flags) for job in tails] == [
        ("given", ["gpu"]),
        ("k", None),
        ("type:3", None),
    ]


@pytest.mark.parametrize("shards", [None, 7])
async def test_a_replaced_job_keeps_its_place(place: Place, shop: Shop, shards: int | None) -> None:
    """In its key, also where that is spread; in another key it is the last one there."""
    charge = shop.charge()

    async def enqueue(order: int, key: str = "k", dedup: str | None = None) -> Any:
        given = None if dedup is None else Dedup(dedup, on_conflict="replace")
        return await settled(place.client.enqueue(charge.call(order), partition_key=key, dedup=given, shards=shards))

    first = await enqueue(1, dedup="d")
    key = (await settled(place.client.get_job(first.id))).partition_key
    behind = await settled(place.client.enqueue(charge.call(2), partition_key=key))
    replaced = await enqueue(3, dedup="d")
    assert (replaced.id, replaced.outcome) == (first.id, "replaced")
    other = await settled(place.client.enqueue(charge.call(4), dedup="e", partition_key=key))
    last = await settled(place.client.enqueue(charge.call(5), partition_key="elsewhere"))
    moved = Dedup("e", on_conflict="replace")
    await settled(place.client.enqueue(charge.call(6), dedup=moved, partition_key="elsewhere"))
    await place.app.adrain(concurrency=1, timeout=30)
    assert [order for order in shop.begun if order in (2, 3)] == [3, 2]
    assert [order for order in shop.begun if order in (5, 6)] == [5, 6]
    jobs = {job.id: job for job in await place.jobs()}
    assert [jobs[chain.id].partition_key for chain in (first, behind, other, last)] == [key, key, *["elsewhere"] * 2]
