"""check_origin: a database that lies elsewhere than before is not worked in until somebody says so."""

from __future__ import annotations

from datetime import timedelta

from holdfast.operations.check_origin import Origin, accept_origin, check_origin
from holdfast.operations.worker_life import WorkerIdentity, register_worker
from holdfast.testing.conformance.case import Cases
from holdfast.testing.conformance.harness import Harness

CASES = Cases("check_origin")

_DEAD_AFTER = timedelta(seconds=20)
_WORKER = WorkerIdentity(id="w1", version="1", queues=["default"])


async def _look(h: Harness, place: str = "here") -> Origin:
    return await h.run(lambda: check_origin(place, _DEAD_AFTER))


@CASES
async def the_first_look_is_remembered(h: Harness) -> None:
    """Whoever comes first says where it lies; everybody else finds it there."""
    first, second = await _look(h), await _look(h)
    assert (first.recorded, first.is_ours) == (None, True)
    assert (second.recorded, second.found, second.is_ours) == (first.found, first.found, True)
    assert h.count("origin") == 1


@CASES
async def elsewhere(h: Harness) -> None:
    """Nothing is remembered, however often somebody looks, until it is accepted; then the old place is elsewhere."""
    here = await _look(h)
    there, again = await _look(h, "there"), await _look(h, "there")
    assert (there.recorded, there.is_ours) == (here.found, False)
    assert there.found != here.found
    assert again == there
    accepted = await h.run(lambda: accept_origin("there", "kim"))
    assert (accepted.found, accepted.is_ours) == (there.found, True)
    assert h.sql("SELECT recorded_by FROM {origin}") == [("kim",)]
    assert (await _look(h, "there")).is_ours
    assert not (await _look(h)).is_ours


@CASES
async def a_fresh_copy(h: Harness) -> None:
    """Workers were heard in it just now, and are heard elsewhere."""
    await _look(h)
    await h.run(lambda: register_worker(_WORKER))
    assert not (await _look(h, "there")).is_ours
