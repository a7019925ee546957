"""The parts of dev.py that decide: when set-up is due, what is missing, what runs, and what the exit code is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
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

    def test_what_can_be_unpacked_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Installed, it would start a service; without an index it is a missing program like any other."""
        program = dev.DebianProgram("pgbouncer", ("pgbouncer",), "tests through a pooler", libraries=("libc-ares2",))
        installed: list[str] = []
        monkeypatch.setattr(dev, "can_install_packages", lambda: True)
        monkeypatch.setattr(dev, "apt_install", installed.extend)
        for is_to_be_had, expected in ((True, []), (False, ["pgbouncer"])):
            monkeypatch.setattr(dev, "unpack_packages", lambda *_, answer=is_to_be_had: answer)
            dev.provide_debian_programs([program])
            assert installed == expected


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
    def ran(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
        commands: list[tuple[str, ...]] = []

        def record(step: dev.Step) -> dev.Result:
            commands.append(step.command)
            return dev.Result(step, 0, 0.0)

        monkeypatch.setattr(dev, "run_in_the_open", record)
        monkeypatch.setattr(dev, "run_captured", record)
        monkeypatch.setattr(dev, "newer_python_steps", list)
        monkeypatch.setattr(dev, "LAST_FAILED", tmp_path / "lastfailed")
        return commands

    def test_test_alone_checks_everything_and_runs_all_tests(self, ran: list[tuple[str, ...]]) -> None:
        assert dev.test([]) == 0
        assert {command[0] for command in ran} >= {"ruff", "mypy", "basedpyright", "lint-imports", "pytest"}
        assert ran[-1] == dev.ALL_TESTS

    def test_after_two_dashes_come_more_arguments_for_pytest(self, ran: list[tuple[str, ...]]) -> None:
        dev.test(["--", "-x"])
        assert ran[-1] == (*dev.ALL_TESTS, "-x")
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


class TestOtherPythons:
    @pytest.fixture(autouse=True)
    def _nothing_is_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dev, "set_up_environment", lambda *_: None)

    def test_the_newest_runs_what_is_different_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        mine = sys.version_info.minor
        newer = {
            f"3.{minor}": dev.Interpreter(f"/{minor}/python", f"3.{minor}.1 (main)") for minor in (mine + 1, mine + 2)
        }
        newest = f"3.{mine + 2}"
        monkeypatch.setattr(dev, "NEWER", (99, 0))
        monkeypatch.setattr(dev, "find_interpreter", newer.get)
        (step,) = dev.newer_python_steps()
        assert step.name.startswith(f"tests (Python {newest}.")
        assert step.program[0] == str(dev.TOOLS / f"python-{newest}" / "bin" / "pytest")
        assert step.command == (*dev.PYTEST, *dev.NEWER_TESTS)

    def test_where_there_is_none_it_is_said(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(dev, "NEWER", (99, 0))
        monkeypatch.setattr(dev, "newest_interpreter", lambda: None)
        assert dev.newer_python_steps() == []
        assert "NOT RUN: eager tasks and Django 6" in capsys.readouterr().out

    def test_one_that_cannot_be_set_up_is_said(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*_: object) -> None:
            raise dev.Failed("no wheel for it")

        monkeypatch.setattr(dev, "NEWER", (99, 0))
        monkeypatch.setattr(dev, "newest_interpreter", lambda: dev.Interpreter("/b", "3.99.0 (main)"))
        monkeypatch.setattr(dev, "set_up_environment", fail)
        assert dev.newer_python_steps() == []
        assert "NOT RUN: eager tasks and Django 6, because Python 3.99 could not" in capsys.readouterr().out

    def test_one_that_is_new_enough_needs_no_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dev, "NEWER", (3, 0))
        assert dev.newer_python_steps() == []

    def test_any_tests_with_any_python(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dev, "find_interpreter", {"3.13": dev.Interpreter("/b", "3.13.0 (main)")}.get)
        assert dev.other_python_step("3.13", "tests/unit").command == (*dev.PYTEST, "tests/unit")
        for wrong in (["3.99"], []):
            with pytest.raises(dev.Failed, match="there is no Python"):
                dev.other_python_step(*wrong)

    def test_pythons_are_found_by_name_and_shims_are_passed_by(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        shim, kept = tmp_path / "python3.77", tmp_path / "versions" / "3.77.1" / "bin" / "python"
        kept.parent.mkdir(parents=True)
        for path, script in ((shim, "exit 1"), (kept, "echo '3.77.1 (main)'")):
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
        found = dev.Interpreter(str(kept), "3.77.1 (main)")
        assert dev.find_interpreter("3.77") == found
        assert dev.find_interpreter("3.7") != found

    def test_its_paths_exist(self) -> None:
        """A file that is renamed must not fall out of the selection."""
        paths = [path for path in dev.NEWER_TESTS if path.startswith("tests/")]
        assert [path for path in paths if not (dev.ROOT / path).exists()] == []


@pytest.mark.parametrize("arguments", [[], ["no-such-command"]])
def test_a_wrong_call_shows_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dev.main(arguments) == 2
    output = capsys.readouterr()
    assert "usage: python3 dev.py" in output.out + output.err


def test_every_command_is_in_the_usage() -> None:
    assert [name for name in dev.COMMANDS if f"\n  {name} " not in dev.USAGE] == []


class TestUnsteadyTests:
    @pytest.fixture
    def run(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
        """All tests, where `failed` fail beside others, with pytest's `exit_code`, and the run number `at` alone."""
        last_failed = tmp_path / "lastfailed"
        monkeypatch.setattr(dev, "LAST_FAILED", last_failed)

        def run(*failed: str, at: int = 0, exit_code: int = 1) -> int:
            alone = 0

            def answer(step: dev.Step) -> dev.Result:
                nonlocal alone
                if step.command == dev.ALL_TESTS:
                    last_failed.write_text(json.dumps(dict.fromkeys(failed, True)))
                    return dev.Result(step, exit_code, 0.0)
                assert step.command[-len(failed) :] == failed
                alone += 1
                return dev.Result(step, int(alone == at), 0.0)

            monkeypatch.setattr(dev, "run_in_the_open", answer)
            return dev.conclude(dev.run_all_tests([]))

        return run

    def test_those_that_pass_alone_each_time_are_named(
        self, run: Callable[..., int], capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("a::one", "b::two") == 0
        assert "UNSTEADY" in (said := capsys.readouterr().out)
        assert "a::one b::two" in said

    @pytest.mark.parametrize("at", range(1, dev.TIMES_ALONE + 1))
    def test_one_that_fails_once_more_has_failed(self, run: Callable[..., int], at: int) -> None:
        assert run("a::one", at=at) == 1

    @pytest.mark.parametrize("place", dev.WITH_DICE)
    def test_what_throws_dice_is_not_forgiven(self, run: Callable[..., int], place: str) -> None:
        assert run("a::one", f"{place}test_b.py::two") == 1

    def test_many_failures_are_not_the_crowds(self, run: Callable[..., int]) -> None:
        assert run(*(f"a::{number}" for number in range(dev.MOST_UNSTEADY + 1))) == 1

    @pytest.mark.parametrize("exit_code", [2, 3, 4, 5])
    def test_a_run_that_broke_off_has_failed(self, run: Callable[..., int], exit_code: int) -> None:
        assert run("a::one", exit_code=exit_code) == 1

    def test_a_failure_without_a_name_is_one(self, run: Callable[..., int]) -> None:
        assert run() == 1
