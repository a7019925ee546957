"""What operators set is taken up by workers that run."""

from __future__ import annotations

import pytest

from holdfast import Retry
from tests.conformance.worker.conftest import BRISK, Ground, Hand


async def beats(ground: Ground, count: int) -> None:
    """Until the one worker has been heard so often from now on."""
    last = None
    for _ in range(count):

        async def is_later(before: object = last) -> object:
            (worker,) = await ground.client.workers.list()
            return worker.last_seen_at if worker.last_seen_at != before else None

        last = await ground.until(is_later)


@pytest.mark.parametrize("type_name", [None, "flaky"])
async def test_waits_between_attempts(live_ground: Ground, type_name: str | None) -> None:
    """A type that would wait for an hour is tried again at once, without a restart; and not when it is taken back."""

    async def flaky(hand: Hand) -> None:
        if hand.ctx.attempt == 1:
            raise ValueError("not yet")

    handle = live_ground.job(flaky, retry=Retry(initial=3600, jitter=0))
    settings = live_ground.client.settings
    async with live_ground.app.worker(config=BRISK):
        await settings.set("retry_initial", 0, type_name=type_name)
        await beats(live_ground, 3)
        await live_ground.until_status(await live_ground.put(handle), "completed")
        assert await settings.unset("retry_initial", type_name=type_name)
        await beats(live_ground, 3)
        late = await live_ground.put(handle)

        async def has_failed() -> bool:
            return (await live_ground.get(late)).last_attempt_error is not None

        await live_ground.until(has_failed)
        job = await live_ground.get(late)
        assert job.status == "pending"
        assert (job.ready_at - job.created_at).total_seconds() > 3000


async def test_services_tell_of_their_success(live_ground: Ground) -> None:
    """The leader reports when each was last done with a round, and all of its own are among them."""

    async def nothing(hand: Hand) -> None: ...

    live_ground.job(nothing)
    wanted = {"reaper", "scheduler", "expirer", "unblocker", "key sweeper", "limit sweeper", "worker cleaner", "pruner"}

    async def are_told() -> bool:
        stats = await live_ground.client.stats()
        return wanted <= {service.name for service in stats.services}

    async with live_ground.app.worker(config=BRISK):
        await live_ground.until(are_told, 60)
