"""Settings of a worker."""

from __future__ import annotations

import dataclasses
import math
from datetime import timedelta
from typing import Any, get_type_hints

import pytest

from holdfast.errors import InvalidOption
from holdfast.model.clock import Duration
from holdfast.worker import WorkerConfig, WorkerSettings


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
    assert config.affinity == "any"


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("queues", []),
        ("queues", "default"),
        ("concurrency", 0),
        ("concurrency", 100_000),
        ("concurrency", 1.5),
        ("batch", 0),
        ("max_jobs", 0),
        ("max_jobs", 2.5),
        ("max_rss", -1),
        ("health_port", 70_000),
        ("health_port", "8080"),
        ("affinity", "sticky"),
        ("affinity", None),
        ("dead_after", timedelta(seconds=9)),
        ("lease", timedelta(seconds=39)),
        ("lease", 39),
        ("lease", 0),
        ("renew", 0),
        ("heartbeat", 0),
        ("heartbeat", timedelta(milliseconds=49)),
        ("dead_after", math.inf),
        ("poll", 0),
        ("poll", 0.009),
        ("poll", math.nan),
        ("poll", "5"),
        ("poll", None),
        ("poll", True),
        ("stop_deadline", -1),
    ],
)
def test_bad_values_are_named(option: str, wrong: Any) -> None:
    """Each refused when the config is made."""
    with pytest.raises(InvalidOption) as caught:
        WorkerConfig(**{option: wrong})
    assert caught.value.option == option


@pytest.mark.parametrize("option", ["heartbeat", "dead_after", "lease", "renew", "poll", "stop_deadline"])
def test_seconds_are_durations(option: str) -> None:
    """As everywhere."""
    usual = getattr(WorkerConfig(), option)
    config = WorkerConfig(**{option: usual.total_seconds()})
    assert config == WorkerConfig()
    assert getattr(config, option) == usual


def test_a_stop_may_be_immediate() -> None:
    """No time at all for what runs."""
    assert WorkerConfig(stop_deadline=0).stop_deadline == timedelta()  # type: ignore[arg-type]  # becomes one


def test_bad_queue_names() -> None:
    """A queue that could not be enqueued to cannot be served."""
    with pytest.raises(InvalidOption, match="queue"):
        WorkerConfig(queues=["ok", ""])


def test_settings_are_the_fields() -> None:
    """What `app.worker` and `app.run_worker` take as keywords, with the same types; seconds become durations."""
    fields = {field.name for field in dataclasses.fields(WorkerConfig)}
    assert get_type_hints(WorkerSettings) == {
        name: Duration if hint is timedelta else hint
        for name, hint in get_type_hints(WorkerConfig).items()
        if name in fields
    }


def test_times_that_do_not_fit_each_other() -> None:
    """The error names both, and the flags that change them."""
    with pytest.raises(InvalidOption, match=r"heartbeat=7 s.*--dead-after.*--heartbeat"):
        WorkerConfig(heartbeat=timedelta(seconds=7))
    with pytest.raises(InvalidOption, match=r"renew=45 s.*--lease"):
        WorkerConfig(renew=timedelta(seconds=45))
