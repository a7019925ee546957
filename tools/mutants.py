"""Prove that the guarantee tests can fail: apply each patch of tests/mutants to a copy and expect its test to fail."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PATCHES = ROOT / "tests" / "mutants"
RUN_TIMEOUT_SECONDS = 600

# Only 1 means that tests ran and one of them failed; 2 to 5 mean that pytest could not get so far.
PYTEST_PASSED, PYTEST_FAILED = 0, 1

HEADER = re.compile(r"# (guarantee|breaks|test): (.+)")
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")
# What a walk leaves out where there is no git to say what is ignored.
NOT_SOURCE = {".git", ".venv", ".tools", "site", "dist", "__pycache__", ".hypothesis"}


class BrokenMutant(Exception):
    """The patch itself is wrong; it proves nothing about the test."""


# ---- patches ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Hunk:
    line: int
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    guarantee: str
    breaks: str
    test: str
    hunks: dict[str, list[Hunk]]


def parse_mutant(name: str, text: str) -> Mutant:
    fields = {match[1]: match[2].strip() for match in map(HEADER.fullmatch, text.splitlines()) if match}
    if missing := {"guarantee", "breaks", "test"} - fields.keys():
        raise BrokenMutant(f"{name}: missing header lines: {', '.join(sorted(missing))}")
    return Mutant(name, fields["guarantee"], fields["breaks"], fields["test"], parse_diff(text))


def parse_diff(text: str) -> dict[str, list[Hunk]]:
    files: dict[str, list[Hunk]] = {}
    hunks: list[Hunk] | None = None
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("+++ "):
            path = line[4:].split("\t")[0].removeprefix("b/")
            hunks = files.setdefault(path, [])
        elif match := HUNK.match(line):
            if hunks is None:
                raise BrokenMutant(f"a hunk before any +++ line: {line}")
            hunks.append(_parse_hunk(match, lines))
    if not any(files.values()):
        raise BrokenMutant("the patch changes nothing")
    return files


def _parse_hunk(head: re.Match[str], lines: Iterator[str]) -> Hunk:
    """By the counts in its head: a removed SQL comment looks like the start of the next file."""
    sizes = int(head[2] or 1), int(head[3] or 1)
    before: list[str] = []
    after: list[str] = []
    while (len(before), len(after)) != sizes:
        line = next(lines, None)
        kind = "end of the patch" if line is None else line[:1] or " "
        if kind not in {" ", "-", "+", "\\"} or len(before) > sizes[0] or len(after) > sizes[1]:
            raise BrokenMutant(f"the lines after {head[0]} do not add up to its counts ({kind})")
        if kind in {" ", "-"}:
            before.append((line or "")[1:])
        if kind in {" ", "+"}:
            after.append((line or "")[1:])
    return Hunk(int(head[1]), tuple(before), tuple(after))


def apply_hunks(path: str, source: str, hunks: Iterable[Hunk]) -> str:
    """Strict: every context line must be there. Only the place may have moved, and then it must be the only one."""
    lines = source.split("\n")
    shift = 0
    for hunk in hunks:
        start = _place(path, lines, hunk, hunk.line - 1 + shift)
        lines[start : start + len(hunk.before)] = hunk.after
        shift = start - (hunk.line - 1) + len(hunk.after) - len(hunk.before)
    return "\n".join(lines)


def _place(path: str, lines: list[str], hunk: Hunk, expected: int) -> int:
    size = len(hunk.before)
    places = [i for i in range(len(lines) - size + 1) if tuple(lines[i : i + size]) == hunk.before]
    if expected in places:
        return expected
    if len(places) != 1:
        found = "is not there" if not places else f"is there {len(places)} times"
        raise BrokenMutant(f"{path}: the text of the hunk at line {hunk.line} {found}; make the patch anew")
    return places[0]


# ---- copies ----------------------------------------------------------------------------------------------------------


def source_files(root: Path) -> Iterator[Path]:
    """Paths relative to root, as git sees the working tree; without git everything but the known by-products."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        output = subprocess.run(listing, cwd=root, check=True, capture_output=True, text=True).stdout
        candidates = (Path(name) for name in output.split("\0") if name)
    except (FileNotFoundError, subprocess.CalledProcessError):
        candidates = (path.relative_to(root) for path in root.rglob("*"))
    for path in candidates:
        if (root / path).is_file() and not NOT_SOURCE & set(path.parts):
            yield path


def copy_tree(root: Path, copy: Path) -> None:
    for path in source_files(root):
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, copy / path)


def apply_mutant(mutant: Mutant, copy: Path) -> None:
    for path, hunks in mutant.hunks.items():
        target = copy / path
        if not target.is_file():
            raise BrokenMutant(f"{path} does not exist")
        target.write_text(apply_hunks(path, target.read_text(), hunks))


# ---- verdicts --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Verdict:
    mutant: str
    guarantee: str
    word: str
    seconds: float
    detail: str = ""


def run_test(copy: Path, test: str) -> tuple[int, str]:
    # The copy's source comes before the installed one, in this process and in every process a test starts.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(copy / "src"), str(copy)])}
    _require_source_of(copy, environment)
    # One at a time and in file order: the verdict must not depend on load or chance.
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:holdfast",  # our own plug-in would import the patched package before the test does
        "-q",
        "-x",
        "-n",
        "0",
        "-p",
        "no:randomly",
        "-p",
        "no:cacheprovider",
        test,
    ]
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            check=False,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RUN_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise BrokenMutant(f"{test} did not end within {RUN_TIMEOUT_SECONDS} s") from None
    return done.returncode, done.stdout


def _require_source_of(copy: Path, environment: dict[str, str]) -> None:
    find = "import importlib.util as u; print(u.find_spec('holdfast').origin)"
    command = [sys.executable, "-c", find]
    origin = subprocess.run(command, cwd=copy, env=environment, check=True, text=True, capture_output=True).stdout
    if not Path(origin).is_relative_to(copy):
        raise BrokenMutant(f"the tests would import {origin.strip()} instead of the copy")


def baseline(test: str) -> str | None:
    """None if the test passes on the code as it is, else why a failure under a mutant would prove nothing."""
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as directory:
        copy_tree(ROOT, Path(directory))
        exit_code, output = run_test(Path(directory), test)
    return None if exit_code == PYTEST_PASSED else f"{test} fails without the mutant too:\n{_tail(output)}"


def judge(mutant: Mutant) -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as directory:
        copy = Path(directory)
        copy_tree(ROOT, copy)
        apply_mutant(mutant, copy)
        exit_code, output = run_test(copy, mutant.test)
    if exit_code == PYTEST_FAILED:
        return "killed", ""
    if exit_code == PYTEST_PASSED:
        return "SURVIVED", f"{mutant.test} passes although the patch breaks this: {mutant.breaks}"
    return "BROKEN", f"pytest ended with exit code {exit_code}:\n{_tail(output)}"


def _tail(output: str) -> str:
    return "\n".join(f"    {line}" for line in output.splitlines()[-25:])


def verdicts(patches: Iterable[Path]) -> Iterator[Verdict]:
    baselines: dict[str, str | None] = {}
    for patch in patches:
        started = time.monotonic()
        guarantee = "?"
        try:
            mutant = parse_mutant(patch.stem, patch.read_text())
            guarantee = mutant.guarantee
            if mutant.test not in baselines:
                baselines[mutant.test] = baseline(mutant.test)
            reason = baselines[mutant.test]
            word, detail = judge(mutant) if reason is None else ("BROKEN", reason)
        except BrokenMutant as error:
            word, detail = "BROKEN", str(error)
        yield Verdict(patch.stem, guarantee, word, time.monotonic() - started, detail)


def select(patches: Iterable[Path], names: list[str]) -> list[Path]:
    chosen = sorted(patch for patch in patches if not names or any(name in patch.stem for name in names))
    if names and not chosen:
        raise SystemExit(f"no mutant in {PATCHES.relative_to(ROOT)} is called like {' or '.join(names)}")
    return chosen


def table(results: list[Verdict]) -> str:
    width = max((len(result.mutant) for result in results), default=0)
    rows = [f"{r.guarantee:>4}  {r.mutant:<{width}}  {r.word:<8}  {r.seconds:6.1f} s" for r in results]
    killed = sum(result.word == "killed" for result in results)
    return "\n".join([*rows, f"{killed} of {len(results)} mutants killed"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="dev.py mutants", description=__doc__)
    parser.add_argument("name", nargs="*", help="part of a patch's file name; all patches without it")
    patches = select(PATCHES.glob("*.patch"), parser.parse_args().name)
    results: list[Verdict] = []
    for number, verdict in enumerate(verdicts(patches), start=1):
        print(f"[{number}/{len(patches)}] {verdict.mutant}: {verdict.word}, {verdict.seconds:.1f} s", flush=True)
        if verdict.detail:
            print(f"  {verdict.detail}", flush=True)
        results.append(verdict)
    print(f"\n{table(results)}")
    return 0 if all(result.word == "killed" for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
