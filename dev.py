#!/usr/bin/env python3
"""Everything a contributor runs, from nothing: `python3 dev.py test`. Standard library only, Python 3.11+."""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  this file is the one that older Pythons get to see
    sys.exit(f"Holdfast needs Python 3.11 or newer; this is {sys.version.split()[0]}.")

import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
UNPACKED = TOOLS / "debian"
LOCK = ROOT / "requirements.lock"

UV_VERSION = "0.13.7"
PYTEST = ("pytest", "-n", "2")
#: a run in which so many fail at most may have been too crowded; how often each of them is then run alone
MOST_UNSTEADY, TIMES_ALONE = 3, 5
WITH_DICE = ("tests/chaos/", "tests/stateful/")
#: pytest's exit code for failed tests, as against an interrupt, an internal error or nothing to run
PYTEST_FAILED = 1
LAST_FAILED = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
# Half of the time a test waits, so there are two for each core; who is done takes over what another has not begun.
ALL_TESTS = ("pytest", "-n", str(2 * (os.cpu_count() or 1)), "--dist", "worksteal")

#: from here on Python has eager tasks, and Django 6 runs
NEWER = (3, 12)
#: what is different there, in half a minute: tasks that have ended before anybody waits for them, Django's connections
NEWER_TESTS = (
    *("tests/unit/worker", "tests/conformance/borrowed/test_django.py"),
    *(
        f"tests/conformance/worker/test_{name}.py"
        for name in ("cancellation", "endings", "engine", "batches", "surroundings")
    ),
    *("-k", "not pg15 and not thread"),
)

USAGE = """usage: python3 dev.py COMMAND [ARGUMENT…]

  demo             a shop on SQLite, one worker killed, a ledger at the end; --postgres: on PostgreSQL
  test             check, then all tests; after `--` come extra arguments for pytest
  test ARGUMENT…   pytest with these arguments, nothing else: test tests/unit -k retry
  test --python 3.13 …   the same with another Python; without arguments all tests
  check            lint, types, import rules and the generated-code check
  lint [--fix]     ruff: rules and format
  types            mypy --strict and basedpyright
  bench …          benchmarks: enqueue, drain, latency, steady, idle, order; handlers, processes, recovery, growth,
                   prune, snapshot (minutes each); peers: next to other libraries
  soak             a mixed load for 15 minutes, after which nothing may have grown; --minutes 2, --database sqlite
  docs             build the documentation into site/
  pg [--major 15]  a throw-away PostgreSQL until Ctrl-C
  mutants [NAME…]  every patch in tests/mutants must make its test fail
  generate         write the generated code; with --check only compare it
  lock             resolve the dependencies anew into requirements.lock
"""


class Failed(Exception):
    """Carries the line that tells the reader what failed and what to do."""


def say(text: str) -> None:
    print(f"dev: {text}", flush=True)


# ---- programs that only Debian has -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class DebianProgram:
    program: str
    packages: tuple[str, ...]
    needed_for: str
    #: its package would start a service: it is only unpacked, with those of these libraries that the release has
    libraries: tuple[str, ...] | None = None


DEBIAN_PROGRAMS: tuple[DebianProgram, ...] = (
    DebianProgram("node", ("nodejs",), "the tests of the worker in Node (examples/workers)"),
    DebianProgram(
        "pgbouncer",
        ("pgbouncer",),
        "the tests through a transaction pooler",
        libraries=("libc-ares2", "libcares2", "libevent-2.1-7", "libevent-2.1-7t64"),
    ),
)


def find_program(name: str) -> str | None:
    """Also where a user's PATH does not look."""
    places = (os.environ.get("PATH", os.defpath), "/usr/sbin", str(UNPACKED / "usr" / "sbin"))
    return shutil.which(name, path=os.pathsep.join(places))


def missing_programs(
    programs: Iterable[DebianProgram], which: Callable[[str], str | None] = find_program
) -> list[DebianProgram]:
    return [program for program in programs if which(program.program) is None]


def provide_debian_programs(programs: Iterable[DebianProgram] = DEBIAN_PROGRAMS) -> None:
    """As root they are installed; for anybody else it is said loudly what will not run, and in CI that is a failure."""
    missing = [
        program
        for program in missing_programs(programs)
        if program.libraries is None or not unpack_packages(program.packages, program.libraries)
    ]
    if missing and can_install_packages():
        apt_install([package for program in missing for package in program.packages])
        return
    for program in missing:
        command = shlex.join(["sudo", "apt-get", "install", *program.packages])
        line = f"NOT RUN: {program.needed_for}, because {program.program} is missing. Install it with: {command}"
        if os.environ.get("CI") == "true":
            raise Failed(line)
        say(line)


def can_install_packages() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(packages: Sequence[str]) -> None:
    with timed(f"apt-get install {' '.join(packages)}"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "install", "-qq", "-y", "--no-install-recommends", *packages]
        if subprocess.run(install, env=environment, check=False, capture_output=True).returncode == 0:
            return
        # A fresh machine has no package lists yet.
        run_quietly(["apt-get", "update", "-qq"], environment)
        run_quietly(install, environment)


def unpack_packages(packages: Sequence[str], libraries: Sequence[str]) -> bool:
    """Into .tools, which needs no root and starts nothing; whether the packages could be had."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return False
    with only_one_at_a_time(), timed(f"unpack {' '.join(packages)} into .tools"):
        downloads = TOOLS / "downloads"
        shutil.rmtree(downloads, ignore_errors=True)
        downloads.mkdir()
        if not all(download_package(package, downloads) for package in packages):
            if os.geteuid() != 0 or not succeeds(["apt-get", "update", "-qq"]):
                return False
            if not all(download_package(package, downloads) for package in packages):
                return False
        for library in libraries:
            download_package(library, downloads)
        for file in downloads.glob("*.deb"):
            run_quietly(["dpkg-deb", "-x", str(file), str(UNPACKED)])
    return True


def download_package(package: str, directory: Path) -> bool:
    # As root apt would otherwise hand the download to a user who may not write there.
    command = ["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", package]
    return subprocess.run(command, cwd=directory, check=False, capture_output=True).returncode == 0


# ---- set-up ----------------------------------------------------------------------------------------------------------


def base_python() -> str:
    """The interpreter below any virtual environment dev.py may have been started from; only it has pip."""
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    return str(base) if base.exists() else sys.executable


def fingerprint(files: Iterable[Path], *facts: str) -> str:
    digest = hashlib.sha256()
    for part in [*(file.read_bytes() for file in files), *(fact.encode() for fact in facts)]:
        digest.update(hashlib.sha256(part).digest())
    return digest.hexdigest()


@dataclass(frozen=True)
class Interpreter:
    path: str
    version: str

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])


def own_interpreter() -> Interpreter:
    return Interpreter(base_python(), sys.version)


def find_interpreter(version: str) -> Interpreter | None:
    """`3.13`: by its name, or where pyenv keeps its own."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = [shutil.which(f"python{version}"), *(f"{path}/bin/python" for path in sorted(pyenv.glob(f"{version}*")))]
    for path in filter(None, found):
        # A name on the PATH may be a shim with nothing behind it.
        asked = subprocess.run(
            [path, "-c", "import sys; print(sys.version)"], check=False, capture_output=True, text=True
        )
        if asked.returncode == 0 and asked.stdout.startswith(f"{version}."):
            return Interpreter(path, asked.stdout.strip())
    return None


def newest_interpreter() -> Interpreter | None:
    """Of those that are newer than this one."""
    newer = (find_interpreter(f"3.{minor}") for minor in range(sys.version_info.minor + 5, sys.version_info.minor, -1))
    return next(filter(None, newer), None)


def wanted_stamp(interpreter: Interpreter) -> str:
    # The root counts because the environment holds absolute paths; a moved checkout needs a new one.
    return fingerprint([LOCK, ROOT / "pyproject.toml"], interpreter.version, interpreter.path, str(ROOT))


def is_set_up(venv: Path, wanted: str) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return (venv / ".set-up-stamp").read_text() == wanted
    return False


def set_up() -> None:
    provide_debian_programs()
    set_up_environment(VENV, own_interpreter())


def set_up_environment(venv: Path, interpreter: Interpreter) -> None:
    wanted = wanted_stamp(interpreter)
    if is_set_up(venv, wanted):
        return
    with only_one_at_a_time():
        if is_set_up(venv, wanted):
            return
        uv = provide_uv()
        provide_environment(uv, venv, interpreter)
        (venv / ".set-up-stamp").write_text(wanted)


@contextlib.contextmanager
def only_one_at_a_time() -> Iterator[None]:
    TOOLS.mkdir(exist_ok=True)
    with (TOOLS / "set-up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def provide_uv() -> Path:
    # By version, so that a new one is fetched where an old one is.
    unpacked = TOOLS / f"uv-{UV_VERSION}"
    uv = unpacked / "bin" / "uv"
    if not uv.exists():
        provide_pip()
        with timed(f"fetch uv {UV_VERSION} into .tools"):
            command = [base_python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            # --target because Debian's pip refuses to install anywhere else.
            run_quietly([*command, "--upgrade", "--target", str(unpacked), f"uv=={UV_VERSION}"])
    return uv


def provide_pip() -> None:
    if succeeds([base_python(), "-m", "pip", "--version"]):
        return
    if base_python().startswith("/usr/bin/") and can_install_packages():
        apt_install(["python3-pip"])
        return
    raise Failed("Python has no pip. Install it with: sudo apt-get install python3-pip   and run this again.")


def provide_environment(uv: Path, venv: Path, interpreter: Interpreter) -> None:
    environment = uv_environment(pip_settings())
    python = str(venv / "bin" / "python")
    name = str(venv.relative_to(ROOT))
    if not succeeds([python, "-c", f"import sys; sys.exit(sys.version != {interpreter.version!r})"]):
        with timed(f"create {name}"):
            make = [str(uv), "venv", "--clear", "--no-project", "--python", interpreter.path, str(venv)]
            run_quietly(make, environment)
    with timed(f"install requirements.lock into {name}"):
        sync = [str(uv), "pip", "sync", "--python", python, "--require-hashes", str(LOCK)]
        # uv does not read all of pip's configuration; where pip reaches an index and uv does not, pip does the work.
        if not succeeds(sync, environment):
            say("uv could not install; trying pip")
            run_quietly([*pip_for(python), "--require-hashes", "-r", str(LOCK)])
            run_quietly([*pip_for(python), "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
            return
        own = [str(uv), "pip", "install", "--python", python, "--no-deps", "--no-build-isolation", "--offline"]
        run_quietly([*own, "--editable", str(ROOT)], environment)


def pip_for(python: str) -> list[str]:
    return [base_python(), "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]


def pip_settings() -> dict[str, str]:
    command = [base_python(), "-m", "pip", "config", "list"]
    return parse_pip_settings(subprocess.run(command, check=False, capture_output=True, text=True).stdout)


def parse_pip_settings(listing: str) -> dict[str, str]:
    """`global.index-url='…'` lines by their last word; the environment's, printed as `:env:.name`, win as in pip."""
    settings: dict[str, str] = {}
    for line in sorted(listing.splitlines(), key=lambda line: line.startswith(":env:")):
        name, separator, value = line.partition("=")
        if separator:
            settings[name.rpartition(".")[2]] = value.strip("'\"")
    return settings


def uv_environment(pip: dict[str, str]) -> dict[str, str]:
    environment = {**os.environ, "UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    if "index-url" in pip:
        environment.setdefault("UV_DEFAULT_INDEX", pip["index-url"])
    if "cert" in pip:
        environment.setdefault("SSL_CERT_FILE", pip["cert"])
    return environment


# ---- running ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    started = time.monotonic()
    say(f"{what} …")
    yield
    say(f"{what}: {time.monotonic() - started:.1f} s")


def succeeds(command: Sequence[str], environment: dict[str, str] | None = None) -> bool:
    try:
        return subprocess.run(command, env=environment, cwd=ROOT, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def run_quietly(command: Sequence[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)} failed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")


# The first two would bring in foreign modules; without bytecode pytest rewrites its plug-ins anew, 1.5 s per process.
NOT_INHERITED = {"PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}


def inside_environment(venv: Path = VENV) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    environment["VIRTUAL_ENV"] = str(venv)
    environment["PATH"] = f"{venv / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return environment


@dataclass(frozen=True)
class Step:
    name: str
    command: tuple[str, ...]
    venv: Path = VENV

    @property
    def program(self) -> list[str]:
        return [str(self.venv / "bin" / self.command[0]), *self.command[1:]]


@dataclass(frozen=True)
class Result:
    step: Step
    exit_code: int
    seconds: float
    output: str = ""

    def line(self) -> str:
        verdict = "ok" if self.exit_code == 0 else f"FAILED with exit code {self.exit_code}"
        return f"{self.step.name}: {verdict}, {self.seconds:.1f} s"


def run_captured(step: Step) -> Result:
    started = time.monotonic()
    done = subprocess.run(
        step.program,
        env=inside_environment(step.venv),
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return Result(step, done.returncode, time.monotonic() - started, done.stdout)


def run_side_by_side(steps: Sequence[Step]) -> list[Result]:
    results = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for result in pool.map(run_captured, steps):
            if result.exit_code != 0:
                print(result.output, flush=True)
            say(result.line())
            results.append(result)
    return results


def run_in_the_open(step: Step) -> Result:
    say(f"{step.name}: {shlex.join(step.command)}")
    started = time.monotonic()
    process = subprocess.Popen(step.program, env=inside_environment(step.venv), cwd=ROOT)
    exit_code = None
    while exit_code is None:
        # Ctrl-C reaches the child too; it decides what that means, and this process waits for it and reports.
        with contextlib.suppress(KeyboardInterrupt):
            exit_code = process.wait()
    result = Result(step, exit_code, time.monotonic() - started)
    say(result.line())
    return result


def conclude(results: Sequence[Result]) -> int:
    failed = [result.step.name for result in results if result.exit_code != 0]
    if failed:
        say(f"FAILED: {', '.join(failed)}")
        return 1
    if len(results) > 1:
        say("all passed")
    return 0


# ---- commands --------------------------------------------------------------------------------------------------------


def lint_steps() -> list[Step]:
    rules = Step("lint", ("ruff", "check", "--quiet", "."))
    return [rules, Step("format", ("ruff", "format", "--check", "--quiet", "."))]


def type_steps() -> list[Step]:
    return [Step("types (mypy)", ("mypy", "--no-error-summary")), Step("types (basedpyright)", ("basedpyright",))]


def check_steps() -> list[Step]:
    # The slowest come first, so that the others share the second core.
    return [*type_steps(), *lint_steps(), Step("import rules", ("lint-imports",)), *generate_steps(["--check"])]


def generate_steps(arguments: Sequence[str]) -> list[Step]:
    if not (ROOT / "tools" / "generate_client.py").exists():
        return []
    return [Step("generated code", ("python", "-m", "tools.generate_client", *arguments))]


def python_step(name: str, module: str, arguments: Sequence[str]) -> Step:
    return Step(name, ("python", "-m", module, *arguments))


def test(arguments: Sequence[str]) -> int:
    if arguments and arguments[0] == "--python":
        return conclude([run_in_the_open(other_python_step(*arguments[1:]))])
    if arguments and arguments[0] != "--":
        return conclude([run_in_the_open(Step("tests", (*PYTEST, *arguments)))])
    results = run_side_by_side(check_steps())
    results += run_all_tests(arguments[1:])
    results += [run_in_the_open(step) for step in newer_python_steps()]
    return conclude(results)


def run_all_tests(arguments: Sequence[str]) -> list[Result]:
    """A few that failed in the crowd have to pass several times alone; they are named, for they are not steady."""
    LAST_FAILED.unlink(missing_ok=True)
    result = run_in_the_open(Step("tests", (*ALL_TESTS, *arguments)))
    failed = sorted(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    if result.exit_code != PYTEST_FAILED or not 0 < len(failed) <= MOST_UNSTEADY:
        return [result]
    # Those with dice throw others the next time, so that passing then says little.
    if any(name.startswith(WITH_DICE) for name in failed):
        return [result]
    alone = Step("tests that failed, alone", ("pytest", "-n", "0", *arguments, *failed))
    for _ in range(TIMES_ALONE):
        result = run_in_the_open(alone)
        if result.exit_code != 0:
            return [result]
    say(f"UNSTEADY: failed once beside others, passed {TIMES_ALONE} times alone: {' '.join(failed)}")
    return [result]


def newer_python_steps() -> list[Step]:
    """Where the own one is too old for what newer ones have."""
    if sys.version_info >= NEWER:
        return []
    not_run = "NOT RUN: eager tasks and Django 6, because"
    newest = newest_interpreter()
    if newest is None:
        say(f"{not_run} there is no Python 3.12 or newer here; see CONTRIBUTING.md")
        return []
    try:
        return [step_with(newest, NEWER_TESTS)]
    except Failed as failure:
        # Nobody has promised that there is more than one Python on this machine that packages can be had for.
        say(f"{not_run} Python {newest.minor} could not be set up: {failure}")
        return []


def other_python_step(version: str = "", *arguments: str) -> Step:
    interpreter = find_interpreter(version) if version else None
    if interpreter is None:
        raise Failed(f"there is no Python {version or '(which?)'} here: neither on the PATH nor with pyenv")
    return step_with(interpreter, arguments)


def step_with(interpreter: Interpreter, arguments: Sequence[str]) -> Step:
    venv = TOOLS / f"python-{interpreter.minor}"
    set_up_environment(venv, interpreter)
    return Step(f"tests (Python {interpreter.version.split()[0]})", (*PYTEST, *arguments), venv)


def check(arguments: Sequence[str]) -> int:
    refuse(arguments)
    return conclude(run_side_by_side(check_steps()))


def lint(arguments: Sequence[str]) -> int:
    if list(arguments) == ["--fix"]:
        fix = [Step("lint", ("ruff", "check", "--fix", ".")), Step("format", ("ruff", "format", "."))]
        return conclude([run_in_the_open(step) for step in fix])
    refuse(arguments)
    return conclude(run_side_by_side(lint_steps()))


def types(arguments: Sequence[str]) -> int:
    refuse(arguments)
    return conclude(run_side_by_side(type_steps()))


def demo(arguments: Sequence[str]) -> int:
    return conclude([run_in_the_open(python_step("demo", "holdfast", ["demo", *arguments]))])


def bench(arguments: Sequence[str]) -> int:
    return conclude([run_in_the_open(python_step("bench", "bench", arguments))])


def soak(arguments: Sequence[str]) -> int:
    return conclude([run_in_the_open(python_step("soak", "bench.soak", arguments))])


def docs(arguments: Sequence[str]) -> int:
    return conclude([run_in_the_open(Step("docs", ("zensical", "build", "--clean", "--strict", *arguments)))])


def pg(arguments: Sequence[str]) -> int:
    return conclude([run_in_the_open(python_step("pg", "tools.postgres_server", arguments))])


def mutants(arguments: Sequence[str]) -> int:
    return conclude([run_in_the_open(python_step("mutants", "tools.mutants", arguments))])


def generate(arguments: Sequence[str]) -> int:
    steps = generate_steps(arguments)
    if not steps:
        say("nothing is generated yet")
    return conclude([run_in_the_open(step) for step in steps])


def lock(arguments: Sequence[str]) -> int:
    """Export through uv's own lock, which records host names and therefore is neither kept nor committed."""
    refuse(arguments)
    uv = str(provide_uv())
    environment = uv_environment(pip_settings())
    (ROOT / "uv.lock").unlink(missing_ok=True)
    with timed("resolve into requirements.lock"):
        run_quietly([uv, "lock", "--python", base_python()], environment)
        export = [uv, "export", "--all-extras", "--all-groups", "--format", "requirements-txt", "--no-header"]
        export += ["--no-annotate", "--no-emit-project", "--quiet", "--output-file", str(LOCK)]
        run_quietly(export, environment)
    set_up()
    return 0


def refuse(arguments: Sequence[str]) -> None:
    if arguments:
        raise Failed(f"unknown arguments: {shlex.join(arguments)}\n\n{USAGE}")


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "demo": demo,
    "test": test,
    "check": check,
    "lint": lint,
    "types": types,
    "bench": bench,
    "soak": soak,
    "docs": docs,
    "pg": pg,
    "mutants": mutants,
    "generate": generate,
    "lock": lock,
}


def main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(USAGE)
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"dev: unknown command: {name}\n\n{USAGE}", file=sys.stderr)
        return 2
    # The tests start a thousand processes; each would compile everything anew, which takes longer than what it does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        if name != "lock":
            set_up()
        return COMMANDS[name](rest)
    except Failed as failure:
        print(f"dev: FAILED: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
