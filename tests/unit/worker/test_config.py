"""Settings of a worker."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast.errors import InvalidOption
from holdfast.worker import WorkerConfig


def test_defaults() -> None:
    """As documented."""
    config = WorkerConfig()
    assert (config.heartbeat, config.dead_after) == (timedelta(seconds=5), timedelta(seconds=20))
    assert (config.lease, config.renew, config.poll) == (
        timedelta(seconds=60),
        timedelta(seconds=20),
        timedelta(seconds=5),
    )
    assert (config.stop_deadline, config.batch, config.queues) == (timedelta(seconds=30), 500, None)


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("queues", []),
        ("queues", "default"),
        ("concurrency", 0),
        ("concurrency", 100_000),
        ("concurrency", 1.5),
        ("batch", 0),
        ("dead_after", timedelta(seconds=9)),
        ("lease", timedelta(seconds=39)),
    ],
)
def test_bad_values_are_named(option: str, wrong: Any) -> None:
    """Each refused when the config is made."""
    with pytest.raises(InvalidOption) as caught:
        WorkerConfig(**{option: wrong})
    assert caught.value.option == option


def test_bad_queue_names() -> None:
    """A queue that could not be enqueued to cannot be served."""
    with pytest.raises(InvalidOption, match="queue"):
        WorkerConfig(queues=["ok", ""])
