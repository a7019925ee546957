"""`holdfast stats`, `queues list|pause|resume|limit`, `workers list`, `workers release`."""

from __future__ import annotations

import json

from holdfast import App
from holdfast.testing import drain
from tests.e2e.conftest import CommandLine


def test_stats_and_queues(command: CommandLine, url: str, app: App) -> None:
    """Three formats of the same numbers."""
    with app.client() as client:
        client.enqueue_many([app.call("greet", name=name) for name in ("Ada", "Bob")])
        client.enqueue(app.call("spoil", reason="bad"), max_attempts=1)
        drain(app)
        client.enqueue(app.call("greet", name="Eve"))
        client.enqueue(app.call("greet", name="Eve"), delay=600)
    app.close()

    shown = command.run("stats", "--url", url)
    assert shown.returncode == 0, shown.stderr
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["mail", "greet", "ready", "1", "0s"] in [[*row[:4], "0s"] for row in rows if len(row) == 5]
    assert ["mail", "greet", "scheduled", "1"] in rows
    assert ["default", "spoil", "dead_letter", "1"] in [row[:4] for row in rows]
    assert ["mail", "greet", "2", "0"] in [row[:4] for row in rows]
    assert ["default", "spoil", "0", "1"] in [row[:4] for row in rows]

    document = json.loads(command.run("stats", "--url", url, "--format", "json", "--within", "10m").stdout)
    assert {(c["queue"], c["state"]): c["jobs"] for c in document["counts"]} == {
        ("default", "dead_letter"): 1,
        ("mail", "ready"): 1,
        ("mail", "scheduled"): 1,
    }
    assert sum(minute["completed"] for minute in document["throughput"]) == 2
    lines = command.run("stats", "--url", url, HOLDFAST_STATS_FORMAT="jsonl").stdout.splitlines()
    assert [json.loads(line)["state"] for line in lines] == ["dead_letter", "ready", "scheduled"]

    listed = command.run("queues", "list", "--url", url)
    table = [line.split() for line in listed.stdout.splitlines()[2:]]
    assert [row[:7] for row in table] == [
        ["default", "0", "0", "0", "0", "0", "1"],
        ["mail", "1", "1", "0", "0", "0", "0"],
    ]
    queues = json.loads(command.run("queues", "list", "--url", url, "--format", "json").stdout)
    assert [(queue["name"], queue["ready"], queue["workers"]) for queue in queues] == [
        ("default", 0, 0),
        ("mail", 1, 0),
    ]


def test_workers(command: CommandLine, url: str, app: App) -> None:
    """A living worker is listed as the leader; its job is taken from it, which it hears and we put on record."""
    with app.client() as client:
        chain = client.enqueue(app.call("nap", seconds=60))
    worker = command.start("worker", "shop:make_app", "--renew", "500ms", HOLDFAST_URL=url)
    worker.expect("napping")

    listed = command.run("workers", "list", "--url", url, "--format", "json")
    assert listed.returncode == 0, listed.stderr
    (found,) = json.loads(listed.stdout)
    assert (found["status"], found["running"], found["is_leader"]) == ("alive", 1, True)
    table = command.run("workers", "list", "--url", url).stdout
    assert found["id"] in table
    assert "leader" in table

    unanswered = command.run("workers", "release", found["id"], "--url", url)
    assert unanswered.returncode == 2
    assert "--yes" in unanswered.stderr
    released = command.run("workers", "release", found["id"], "--url", url, "--yes", "--actor", "ada")
    assert (released.returncode, released.stdout) == (0, f"{found['id']}: 1 jobs given back\n"), released.stderr
    worker.expect("lease lost")

    unknown = command.run("workers", "release", "nobody", "--url", url, "--yes", "--format", "json")
    assert unknown.returncode == 1
    assert json.loads(unknown.stdout)[0]["is_known"] is False
    with app.client() as client:
        assert client.get_job(chain.id).lease_generation >= 1
    app.close()


def test_pause_resume_limit(command: CommandLine, url: str, app: App) -> None:
    """What holds a queue back is said by each command and by the list, and holds for workers."""
    with app.client() as client:
        chain = client.enqueue(app.call("greet", name="Ada"))
    paused = command.run(
        "queues", "pause", "mail", "--for", "1h", "--reason", "no server", "--actor", "ada", "--url", url
    )
    assert paused.returncode == 0, paused.stderr
    assert paused.stdout == "mail: paused for 3600s more by ada: no server\n"
    drain(app)
    with app.client() as client:
        assert client.get_job(chain.id).status == "pending"
    limited = command.run(
        "queues", "limit", "mail", "--concurrency", "5", "--rate", "2.5", "--burst", "9", "--url", url
    )
    assert limited.returncode == 0, limited.stderr
    assert "paused for" in limited.stdout
    assert limited.stdout.endswith("at most 5 at a time; at most 2.5 per second, 9 at once\n")
    (queue,) = json.loads(command.run("queues", "list", "--url", url, "--format", "json").stdout)
    assert (queue["name"], queue["pause_reason"], queue["concurrency"], queue["rate"]) == ("mail", "no server", 5, 2.5)
    assert "no server" in command.run("queues", "list", "--url", url).stdout

    no_limit = command.run("queues", "limit", "mail", "--url", url, "--format", "json")
    assert json.loads(no_limit.stdout)[0]["concurrency"] is None
    resumed = command.run("queues", "resume", "mail", "other", "--url", url)
    assert resumed.stdout == "mail: not paused, no limits\nother: not paused, no limits\n"
    drain(app)
    with app.client() as client:
        assert client.get_job(chain.id).status == "completed"
    app.close()

    both = command.run("queues", "pause", "mail", "--for", "1h", "--until", "2030-01-01T00:00Z", "--url", url)
    assert (both.returncode, "not both" in both.stderr) == (2, True)
    past = command.run("queues", "pause", "mail", "--until", "2020-01-01T00:00Z", "--url", url)
    assert (past.returncode, "has passed" in past.stderr) == (2, True)
    bad_name = command.run("queues", "pause", "mail", "", "--url", url)
    assert (bad_name.returncode, "name=''" in bad_name.stderr) == (2, True)
    assert json.loads(command.run("queues", "list", "--url", url, "--format", "json").stdout) == []
    wrong = command.run("queues", "limit", "mail", "--concurrency", "0", "--url", url)
    assert (wrong.returncode, "concurrency=0" in wrong.stderr) == (2, True)


def test_nothing_there(command: CommandLine, url: str, app: App) -> None:
    """An empty database has nothing to show, and says so."""
    with app.client() as client:
        client.list_jobs()
    app.close()
    assert "nothing waits" in command.run("stats", "--url", url).stdout
    assert command.run("queues", "list", "--url", url).stdout == "no queues\n"
    assert command.run("workers", "list", "--url", url).stdout == "no workers\n"
