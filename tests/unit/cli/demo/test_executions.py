"""What the demo reads from the lines that its handlers write."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.demo.executions import Delivery, Executions


def test_counts_per_worker_and_retries(tmp_path: Path) -> None:
    """A failed job that is started again is retried; a line that is not whole yet waits."""
    path = tmp_path / "executions.log"
    lines = ["start charge a 1 7", "fail charge a 1 7", "start report b 1 8", "start charge a 2 8"]
    path.write_text("".join(f"{line}\n" for line in lines))
    executions = Executions(path)
    executions.read()
    with path.open("a") as file:
        file.write("finish charge a 2")
        file.flush()
        executions.read()
        assert executions.workers[8].running == 2
        file.write(" 8\n")
    executions.read()
    assert executions.retried_jobs == {"a"}
    assert (executions.workers[7].failed, executions.workers[8].finished, executions.workers[8].running) == (1, 1, 1)
    assert (executions.finished, executions.finished_jobs) == (1, {"charge": {"a"}})
    assert (executions.first_start_lines, executions.lines) == ({"a": 0, "b": 2}, 5)
    assert executions.deliveries == {
        ("a", 1): Delivery("charge", pid=7, began=0, ended=1),
        ("b", 1): Delivery("report", pid=8, began=2),
        ("a", 2): Delivery("charge", pid=8, began=3, ended=4, is_finished=True),
    }
    assert executions.is_running("report", 8)
    assert not executions.is_running("charge", 8)
    assert not executions.is_running("report", 7)


def test_nothing_was_written_yet(tmp_path: Path) -> None:
    executions = Executions(tmp_path / "executions.log")
    executions.read()
    assert executions.finished == 0
