"""The parts of dev.py that decide: when set-up is due, what is missing, what runs, and what the exit code is."""

from __future__ import annotations

from pathlib import Path

import pytest

import dev

PROGRAM = dev.DebianProgram("pgbouncer", ("pgbouncer", "libc-ares2"), "tests through a pooler")


def test_the_fingerprint_changes_with_every_file_and_fact(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("a==1")
    first = dev.fingerprint([lock], "3.11")
    assert dev.fingerprint([lock], "3.11") == first
    assert dev.fingerprint([lock], "3.12") != first
    lock.write_text("a==2")
    assert dev.fingerprint([lock], "3.11") != first


def test_no_part_of_the_fingerprint_runs_into_the_next() -> None:
    assert dev.fingerprint([], "ab", "c") != dev.fingerprint([], "a", "bc")


def test_only_programs_that_are_not_found_are_missing() -> None:
    assert dev.missing_programs([PROGRAM], which=lambda _: "/usr/sbin/pgbouncer") == []
    assert dev.missing_programs([PROGRAM], which=lambda _: None) == [PROGRAM]


class TestMissingDebianProgram:
    @pytest.fixture(autouse=True)
    def _nothing_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dev, "missing_programs", list)
        monkeypatch.delenv("CI", raising=False)

    def test_root_installs_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        installed: list[str] = []
        monkeypatch.setattr(dev, "can_install_packages", lambda: True)
        monkeypatch.setattr(dev, "apt_install", installed.extend)
        dev.provide_debian_programs([PROGRAM])
        assert installed == ["pgbouncer", "libc-ares2"]

    def test_a_user_is_told_what_does_not_run_and_how_to_get_it(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(dev, "can_install_packages", lambda: False)
        dev.provide_debian_programs([PROGRAM])
        told = capsys.readouterr().out
        assert "NOT RUN: tests through a pooler" in told
        assert "sudo apt-get install pgbouncer libc-ares2" in told

    def test_in_ci_it_is_a_failure(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dev, "can_install_packages", lambda: False)
        monkeypatch.setenv("CI", "true")
        with pytest.raises(dev.Failed, match="tests through a pooler"):
            dev.provide_debian_programs([PROGRAM])


class TestPythonWithoutPip:
    @pytest.fixture(autouse=True)
    def _no_pip(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dev, "succeeds", lambda _: False)
        monkeypatch.setattr(dev, "base_python", lambda: "/usr/bin/python3.11")

    def test_root_installs_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        installed: list[str] = []
        monkeypatch.setattr(dev, "can_install_packages", lambda: True)
        monkeypatch.setattr(dev, "apt_install", installed.extend)
        dev.provide_pip()
        assert installed == ["python3-pip"]

    def test_a_user_is_told_the_command(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dev, "can_install_packages", lambda: False)
        with pytest.raises(dev.Failed, match="sudo apt-get install python3-pip"):
            dev.provide_pip()


def test_pip_settings_of_the_environment_win_over_files() -> None:
    listing = ":env:.index-url='mirror/b'\nglobal.index-url='mirror/a'\nglobal.cert='/ca.crt'\nnonsense\n"
    assert dev.parse_pip_settings(listing) == {"index-url": "mirror/b", "cert": "/ca.crt"}


def test_uv_is_given_what_pip_knows_unless_uv_was_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setenv("UV_DEFAULT_INDEX", "own/choice")
    environment = dev.uv_environment({"index-url": "mirror/a", "cert": "/ca.crt"})
    assert environment["UV_DEFAULT_INDEX"] == "own/choice"
    assert environment["SSL_CERT_FILE"] == "/ca.crt"
    assert environment["UV_PYTHON_DOWNLOADS"] == "never"


def test_foreign_python_paths_do_not_reach_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    environment = dev.inside_environment()
    assert "PYTHONPATH" not in environment
    assert environment["PATH"].startswith(str(dev.VENV / "bin"))


def test_the_end_names_what_failed(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = dev.Step("lint", ("true",)), dev.Step("tests", ("false",))
    assert dev.conclude([dev.Result(good, 0, 0.1)]) == 0
    assert dev.conclude([dev.Result(good, 0, 0.1), dev.Result(bad, 5, 0.1)]) == 1
    assert "FAILED: tests" in capsys.readouterr().out


class TestWhatRuns:
    @pytest.fixture
    def ran(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
        commands: list[tuple[str, ...]] = []

        def record(step: dev.Step) -> dev.Result:
            commands.append(step.command)
            return dev.Result(step, 0, 0.0)

        monkeypatch.setattr(dev, "run_in_the_open", record)
        monkeypatch.setattr(dev, "run_captured", record)
        return commands

    def test_test_alone_checks_everything_and_runs_all_tests(self, ran: list[tuple[str, ...]]) -> None:
        assert dev.test([]) == 0
        assert {command[0] for command in ran} >= {"ruff", "mypy", "basedpyright", "lint-imports", "pytest"}
        assert ran[-1] == dev.PYTEST

    def test_after_two_dashes_come_more_arguments_for_pytest(self, ran: list[tuple[str, ...]]) -> None:
        dev.test(["--", "-x"])
        assert ran[-1] == (*dev.PYTEST, "-x")
        assert len(ran) > 1

    def test_with_arguments_only_those_tests_run(self, ran: list[tuple[str, ...]]) -> None:
        dev.test(["tests/unit", "-k", "foo"])
        assert ran == [(*dev.PYTEST, "tests/unit", "-k", "foo")]

    def test_lint_repairs_only_when_asked(self, ran: list[tuple[str, ...]]) -> None:
        dev.lint([])
        assert not any("--fix" in command for command in ran)
        dev.lint(["--fix"])
        assert any("--fix" in command for command in ran)

    def test_unknown_arguments_are_refused(self, ran: list[tuple[str, ...]]) -> None:
        with pytest.raises(dev.Failed, match="--fast"):
            dev.check(["--fast"])
        assert ran == []


@pytest.mark.parametrize("arguments", [[], ["no-such-command"]])
def test_a_wrong_call_shows_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(arguments) == 2
    output = capsys.readouterr()
    assert "usage: python3 dev.py" in output.out + output.err


def test_every_command_is_in_the_usage() -> None:
    assert [name for name in dev.COMMANDS if f"\n  {name} " not in dev.USAGE] == []
