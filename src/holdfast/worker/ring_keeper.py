"""Which buckets of its queues this worker owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial

from holdfast.model.ring import BUCKETS, Ring
from holdfast.operations.find_members import find_members
from holdfast.worker.config import WorkerConfig
from holdfast.worker.maintenance.service import VerbRunner

_NOTHING: frozenset[int] = frozenset()
_ALL = frozenset(range(BUCKETS))


class RingKeeper:
    """Looks who else is there with every heartbeat, and shares out a queue anew when its members have changed.

    A service in every worker with affinity "ring". What it knows may be a heartbeat old, in either direction: until all
    have looked, two workers may want the same bucket, or none. So nothing may rest on it but who claims first, and what
    has been due for long is anybody's.

    - `is_draining`: whether this worker is stopping. Others leave it out as soon as they hear of it.
    - `gained` is called with the queues of which it owns more than before: there, work may wait that it has passed by.
    """

    name = "ring"
    timeout = timedelta(seconds=10)

    def __init__(
        self,
        store: VerbRunner,
        worker_id: str,
        queues: Sequence[str],
        config: WorkerConfig,
        *,
        is_draining: Callable[[], bool],
        gained: Callable[[Sequence[str]], None],
    ) -> None:
        self.interval = config.heartbeat
        self._store = store
        self._worker_id = worker_id
        self._is_off = config.affinity != "ring"
        self._dead_after = config.dead_after
        self._is_draining = is_draining
        self._gained = gained
        self._members: dict[str, frozenset[str] | None] = dict.fromkeys(queues)
        self._owned: dict[str, frozenset[int] | None] = dict.fromkeys(queues, _NOTHING)

    def owned(self, queue: str) -> frozenset[int] | None:
        """The buckets of a queue that are this worker's; None if it need not ask, because all are.

        Before the first look it owns nothing: others may be at work, and what it would take is theirs.
        """
        if self._is_off:
            return None
        return _NOTHING if self._is_draining() else self._owned[queue]

    async def run_once(self) -> Mapping[str, int]:
        counts = {"gained": 0, "lost": 0}
        if self._is_off:
            return counts
        found = await self._store.run(partial(find_members, self._dead_after), read_only=True)
        grown: list[str] = []
        for queue, known in self._members.items():
            members = found.get(queue, frozenset())
            if members == known:
                continue
            before, after = self._owned[queue], self._share(members)
            self._members[queue], self._owned[queue] = members, after
            more, less = _without(after, before), _without(before, after)
            counts["gained"] += more
            counts["lost"] += less
            if more:
                grown.append(queue)
        if grown:
            self._gained(grown)
        return counts

    def _share(self, members: frozenset[str]) -> frozenset[int] | None:
        """Ours, if others know of us.

        If they do not, because our row is gone or was silent for too long, they have shared out everything among
        themselves, and ours comes back with our next heartbeat. But where there are no others, nobody would be spared
        a conflict by our waiting.
        """
        if members <= {self._worker_id}:
            return None
        return Ring(members).owned_by(self._worker_id)


def _without(some: frozenset[int] | None, others: frozenset[int] | None) -> int:
    return len((_ALL if some is None else some) - (_ALL if others is None else others))
