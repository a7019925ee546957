"""The bench next to the peers: what it makes of figures, and what it says with an adapter."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import dev
from bench.databases import SqliteDatabase
from bench.peers import page, tables
from bench.peers.contenders import CONTENDERS, Contender
from bench.peers.conversation import AdapterFailed, conversation
from bench.peers.environments import ADAPTERS, PINNED, Environment, reason
from bench.peers.figures import Target, best_peer, judge, ratios, summary, wins_of_peers
from bench.peers.measuring import FIGURES, Measuring

DRAIN, P50 = "drain, 1 process", "latency p50"

OWN = Environment(
    [sys.executable, "-m", "bench.peers.adapters.holdfast"], {"PYTHONPATH": f"{dev.ROOT / 'src'}:{dev.ROOT}"}
)


def contender(title: str, drains: Sequence[float], latencies: Sequence[float] = (), **more: Any) -> dict[str, Any]:
    rounds = [{DRAIN: drain, **({P50: latencies[number]} if latencies else {})} for number, drain in enumerate(drains)]
    told = {"settings": "none set", "keeps": "history kept", "jobs": 1000, "versions": {"Python": "3.13"}}
    return {"title": title, "is_ours": False, "failed": {}, "cost": {}, **told, "rounds": rounds, **more}


def sample() -> dict[str, Any]:
    """Two rounds in which the machine was twice as fast as in the third; the snail is slow, but soon there."""
    return {
        "machine": {"command": "python3 dev.py bench peers --rounds 3", "cores": 2},
        "databases": {
            "postgres": {
                "name": "PostgreSQL 15, fsync on",
                "server": {"server_version": "15.18", "fsync": "on"},
                "contenders": {
                    "holdfast": contender("Holdfast, best settings", [100, 200, 220], [2, 2, 4], is_ours=True),
                    "raw": contender("raw SQL loop", [200, 400, 440]),
                    "graphile-worker": contender("Graphile Worker", [50, 100, 200], [3, 3, 3]),
                    "snail": contender("Snail | 1", [1, 2, 2], [1, 1, 1]),
                    "absent": {**contender("Absent", []), "missing": "no wheel for this Python", "rounds": []},
                },
            }
        },
    }


def test_a_summary_is_the_median_and_a_quarter_of_the_way_from_the_worst() -> None:
    assert summary(DRAIN, [5, 1, 4, 2, 3]).median == 3
    assert summary(DRAIN, [5, 1, 4, 2, 3]).worse_quartile == 2
    assert summary(P50, [5, 1, 4, 2, 3]).worse_quartile == 4
    assert summary(DRAIN, [10, 20]).worse_quartile == pytest.approx(12.5)
    assert summary(DRAIN, [7]).worse_quartile == 7


def test_ratios_are_made_within_a_round() -> None:
    """A machine that is slower for a round is slower for both."""
    contenders = sample()["databases"]["postgres"]["contenders"]
    assert ratios(contenders["holdfast"], contenders["raw"], DRAIN) == [0.5, 0.5, 0.5]
    assert ratios(contenders["holdfast"], contenders["raw"], P50) == []


def test_a_target_is_met_by_the_worse_quartile() -> None:
    met, missed, fewer, more = judge(
        sample(),
        [
            Target("postgres", DRAIN, "holdfast", "graphile-worker", at_least=1.5),
            Target("postgres", DRAIN, "holdfast", "graphile-worker", at_least=1.9),
            Target("postgres", P50, "holdfast", "graphile-worker", at_most=1.0),
            Target("postgres", P50, "holdfast", "graphile-worker", at_most=0.9),
            Target("postgres", DRAIN, "holdfast", "absent", at_least=1.0),
            Target("sqlite", DRAIN, "holdfast", "huey", at_least=1.0),
        ],
    )
    assert met.ratio.median == 2
    assert met.ratio.worse_quartile == pytest.approx(1.55)
    assert (met.is_met, missed.is_met, fewer.is_met, more.is_met) == (True, False, True, False)


def test_the_best_peer_is_neither_ours_nor_the_raw_loop() -> None:
    contenders = sample()["databases"]["postgres"]["contenders"]
    assert best_peer(contenders, DRAIN) == "graphile-worker"
    assert best_peer(contenders, P50) == "snail"
    assert best_peer(contenders, "single enqueue") is None


def test_a_peer_wins_where_its_median_is_better() -> None:
    (win,) = wins_of_peers(sample(), "holdfast", list(FIGURES))
    assert (win.peer, win.figure, win.theirs, win.ours) == ("Snail | 1", P50, 1, 2)


def test_the_page_tells_figures_ratios_wins_and_who_is_absent() -> None:
    told = page.render(sample(), ["benchmarks/drain-postgres"])
    assert "$ python3 dev.py bench peers --rounds 3" in told
    assert "server_version 15.18, fsync on" in told
    assert "| Graphile Worker | 100 (75.00) |" in told
    assert "![drain, PostgreSQL 15, fsync on](benchmarks/drain-postgres.svg)" in told
    assert "Snail / 1 has 1.00 ms, Holdfast 2.00 ms (2.00 ×). Of its jobs: history kept." in told
    assert "- Absent: no wheel for this Python" in told
    assert "| ≥ 1 × | 2.00 × | 1.55 × | met |" in told
    assert "| ≥ 0.7 × | 0.50 × | 0.50 × | **missed** |" in told


def test_the_terminal_is_told_settings_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(sample())
    told = capsys.readouterr().out
    assert "Graphile Worker: none set; history kept; 1,000 jobs; Python 3.13" in told
    assert "MISSED: postgres, drain, 1 process: Holdfast, best settings has 0.50 × raw SQL loop" in told
    assert "Absent: NOT MEASURED, no wheel for this Python" in told


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    width = 0
    for line in page.render(sample()).splitlines():
        cells = line.count("|") if line.startswith("|") else 0
        assert not cells or not width or cells == width, line
        width = cells


@pytest.mark.parametrize("entrant", CONTENDERS, ids=lambda entrant: f"{entrant.database}-{entrant.name}")
def test_every_contender_has_a_program_and_a_pinned_version(entrant: Contender) -> None:
    assert any((ADAPTERS / f"{entrant.adapter}.{ending}").exists() for ending in ("py", "mjs"))
    assert entrant.environment in {*PINNED, "own", "newest", "graphile-worker"}


def test_why_something_cannot_be_installed_names_no_place_on_the_network() -> None:
    output = """pip install honker failed with exit code 1:
      error: subprocess-exited-with-error
      Updating index
      error: failed to get `rust` (/tmp/build/rust) from `https://index.example.io/config.json`, no index.example.io
    error: metadata-generation-failed
    """
    assert reason(output) == "error: failed to get `rust` from … no …"


def test_an_adapter_enqueues_works_and_ends(tmp_path: Path) -> None:
    """The protocol, with Holdfast itself on SQLite."""
    url = f"sqlite:///{tmp_path / 'bench.db'}"
    with conversation(OWN, url, {}) as client, conversation(OWN, url, {}) as worker:
        assert "Python" in client.ask("prepare")
        assert client.ask("enqueue_batch", jobs=3) > 0
        assert client.ask("enqueue_single", jobs=2) > 0
        worker.ask("ready")
        worker.ask("work")
        client.ask("enqueue_stamped")
        assert worker.waited_ns.get(timeout=60) > 0
        with pytest.raises(AdapterFailed, match="unknown command: dance"):
            client.ask("dance")
    assert worker.started == 5
    assert worker.has_ended
    assert client.has_ended


def test_a_drain_counts_what_the_database_has() -> None:
    entrant = next(entrant for entrant in CONTENDERS if entrant.database == "sqlite" and entrant.name == "holdfast")
    figures = Measuring(entrant, OWN, SqliteDatabase(), 0.001).measure("drain 1")
    assert figures[DRAIN] > 0
    assert figures["batch enqueue"] > 0
