"""A process that forks, as web servers do: parent and child send hints, each through connections of its own."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from typing import Any

import pytest

from holdfast import App
from holdfast.testing.conformance_notifiers.stand import asleep, cancelled
from tests.crew.waiting import wait_for
from tools.hint_servers import NatsServer, ValkeyServer

_processes = multiprocessing.get_context("fork")


def _hint(app: App, queue: str) -> None:
    app.wake(queue)
    app.close()


@pytest.mark.parametrize("kind", ["postgres", "redis", "nats"])
async def test_hints_after_a_fork(kind: str, direct_url: str, valkey: ValkeyServer, nats: NatsServer) -> None:
    """The parent has sent before; the child's hints and the parent's later ones arrive."""
    options: dict[str, Any] = {} if kind == "postgres" else {"notifier": valkey.url if kind == "redis" else nats.url}
    sending, hearing = App(direct_url, **options), App(direct_url, **options)
    notifier = hearing._get_notifier()
    wakers = {queue: notifier.open_waker([queue]) for queue in ("before", "child", "after")}
    for waker in wakers.values():
        await cancelled([await asleep(waker)])

    async def arrives(queue: str) -> None:
        began = time.monotonic()
        await wakers[queue].wait(10)
        assert time.monotonic() - began < 8, queue

    sending.wake("before")
    await arrives("before")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads; that is what this is about
        child = _processes.Process(target=_hint, args=(sending, "child"))
        child.start()
    await arrives("child")
    wait_for(lambda: child.exitcode is not None, "the child ends")
    assert child.exitcode == 0
    sending.wake("after")
    await arrives("after")
    for waker in wakers.values():
        await waker.close()
    sending.close()
    hearing.close()
