"""What Holdfast wants to be, as ratios of one run."""

from __future__ import annotations

from bench.peers.figures import BEST_PEER, Target

_DRAINS = ("drain, 1 process", "drain, 2 processes")

TARGETS: list[Target] = [
    *(
        Target("postgres", figure, "holdfast", theirs, at_least=ratio)
        for theirs, ratio in (("graphile-worker", 1.0), ("pgqueuer", 3.0), ("raw", 0.7))
        for figure in _DRAINS
    ),
    *(Target("postgres", figure, "holdfast-default", "graphile-worker-default", at_least=10.0) for figure in _DRAINS),
    Target("postgres", "batch enqueue", "holdfast", "graphile-worker", at_least=1.5),
    Target("postgres", "single enqueue", "holdfast", "pgqueuer", at_least=1.1),
    Target("postgres", "latency p50", "holdfast", BEST_PEER, at_most=0.7),
    Target("postgres", "latency p99", "holdfast", BEST_PEER, at_most=1.0),
    *(
        Target("sqlite", figure, "holdfast", theirs, at_least=3.0)
        for theirs in ("huey", "litequeue")
        for figure in (_DRAINS[0], "batch enqueue", "single enqueue")
    ),
]

#: per job in the drain, of Holdfast with its best settings
MOST_WAL_BYTES = 1000.0
MOST_STATEMENTS = 0.05
