"""`holdfast schedules list|run|pause|resume|remove|sync`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.e2e.conftest import CommandLine

CLOCK = """
from holdfast import App

app = App("sqlite:///clock.db", name="clock")


@app.schedule("0 7 * * mon-fri", name="morning", timezone="Europe/Vienna", catch_up="one")
@app.schedule(every=300, name="often")
@app.job()
def chime() -> None: ...
"""


def test_schedules(command: CommandLine, tmp_path: Path) -> None:
    """From the code into the database, and what people do with it there; by name, in three formats."""
    (command.directory / "clock.py").write_text(CLOCK)
    app = ("--app", "clock:app")
    assert command.run("schedules", "list", "--url", f"sqlite:///{tmp_path}/nowhere.db").returncode == 1
    refused = command.run("schedules", "sync", "--url", "sqlite:///clock.db")
    assert (refused.returncode, "--app MODULE:APP" in refused.stderr) == (2, True)
    assert command.run("schedules", "sync", *app).stdout.splitlines() == ["morning: created", "often: created"]
    again = json.loads(command.run("schedules", "sync", *app, "--format", "json").stdout)
    assert (again["created"], again["unchanged"]) == ([], ["morning", "often"])

    url = ("--url", "sqlite:///clock.db")
    shown = command.run("schedules", "list", *url).stdout.splitlines()
    assert shown[0].split() == ["app", "schedule", "when", "job", "last", "tick", "next"]
    assert [" ".join(line.split()[:8]) for line in shown[2:3]] == ["clock morning 0 7 * * mon-fri Europe/Vienna"]
    assert "every 300s" in shown[3]
    coming = json.loads(command.run("schedules", "list", *url, "--next", "3", "--format", "json").stdout)
    assert [len(each["ticks"]) for each in coming] == [3, 3]
    assert all(" 07:00:00+0" in tick for tick in coming[0]["ticks"])

    paused = command.run("schedules", "pause", "morning", *url, "--reason", "holidays", "--actor", "ada")
    assert paused.stdout == "morning: paused by ada: holidays\n"
    assert "paused by ada: holidays" in command.run("schedules", "list", *url).stdout
    job_id = command.run("schedules", "run", "morning", *app).stdout.strip()
    job = json.loads(command.run("jobs", "show", job_id, *url, "--format", "json").stdout)
    assert (job["type_name"], job["headers"]) == ("chime", {"schedule": "morning"})
    resumed = json.loads(command.run("schedules", "resume", "morning", *url, "--format", "jsonl").stdout)
    assert resumed["paused_at"] is None

    unknown = command.run("schedules", "pause", "nobody's", *url)
    assert (unknown.returncode, "nobody's" in unknown.stderr) == (1, True)
    assert command.run("schedules", "remove", "often", *url, "--of", "clock").stdout == "often: removed\n"
    left = command.run("schedules", "list", *url, "--format", "jsonl").stdout.splitlines()
    assert [json.loads(line)["name"] for line in left] == ["morning"]
