"""`python -m bench.soak.load`: enqueues at a steady pace until it is told to end; a process of its own."""

from __future__ import annotations

import itertools
import time
from contextlib import suppress

from bench.soak.jobs import app, deduplicated, doomed, flaky, keyed, quick, relay
from holdfast.client import Client
from holdfast.errors import ChainNotFound

#: jobs of a round are some fifty, so that two cores have time to spare: what piles up would be taken for growth
_ROUND_SECONDS = 0.5
_DAY = 86_400


def play_round(client: Client, number: int) -> None:
    """One of everything, and more of what is common."""
    client.enqueue_many([quick.call(number) for _ in range(20)])
    for _ in range(3):
        client.enqueue(quick.call(number))
    client.enqueue_many([keyed.call(number % 7) for _ in range(6)])
    for _ in range(3):
        client.enqueue(deduplicated.call(number % 5))
    client.enqueue_many([flaky.call() for _ in range(3)])
    client.enqueue(doomed.call())
    chains = client.enqueue_many([relay.call(2) for _ in range(2)])
    with suppress(ChainNotFound):  # where the machine stood still for so long that they have ended and are pruned
        client.enqueue(quick.call(number), blockers=chains)
    later = client.enqueue_many([quick.call(number) for _ in range(4)], delay=_DAY)
    client.cancel(later[:2])
    client.delete_chains(later[2:])


def main() -> None:
    with app.client() as client:
        client.settings.set("keep_audit", 60)
        due = time.monotonic()
        for number in itertools.count():
            play_round(client, number)
            # Not faster after a pause: it is the pace that must be steady.
            due = max(due + _ROUND_SECONDS, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))


if __name__ == "__main__":
    main()
