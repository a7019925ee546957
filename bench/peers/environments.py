"""Where the peers live: an environment of its own for each, below `.tools/peers`, made on first use."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import dev

PEERS = dev.TOOLS / "peers"
ADAPTERS = Path(__file__).resolve().parent / "adapters"

#: what is measured, at which version; drivers and the like are the newest that go with it
PINNED: dict[str, tuple[str, ...]] = {
    "pgqueuer": ("pgqueuer[asyncpg]==1.6.0", "asyncpg", "uvloop"),
    "procrastinate": ("procrastinate==3.10.0", "psycopg[binary,pool]"),
    "oban": ("oban==0.7.0",),
    "awa": ("awa-pg==0.6.9",),
    "flexiq": ("flexiq==2.1.0",),
    "huey": ("huey==3.5.4",),
    "litequeue": ("litequeue==0.9",),
    "honker": ("honker==0.2.4",),
    "plots": ("matplotlib>=3.9",),
}
GRAPHILE_WORKER = "graphile-worker@0.18.0"
#: the one that Graphile Worker asks for is newer than Debian's
NODE = "24.21.0"


class CannotBeHad(Exception):
    """Says what is missing; the others are measured without it."""


@dataclass(frozen=True)
class Environment:
    """How an adapter is started."""

    command: list[str]
    variables: dict[str, str] = field(default_factory=dict)


Say = Callable[[str], None]


def provide(name: str, adapter: str, say: Say) -> Environment:
    """`name` is that of a peer, or `own` and `newest` for Holdfast on this Python and on the newest one here."""
    if name == "graphile-worker":
        return _provide_node(adapter, say)
    module = f"bench.peers.adapters.{adapter}"
    if name in {"own", "newest"}:
        python = _own_python(is_newest=name == "newest")
        return Environment([python, "-m", module], {"PYTHONPATH": f"{dev.ROOT / 'src'}{os.pathsep}{dev.ROOT}"})
    return Environment([provide_python(name, say), "-m", module])


def provide_python(name: str, say: Say) -> str:
    """The interpreter of an environment with what is pinned for it."""
    interpreter = dev.newest_interpreter() or dev.own_interpreter()
    venv = PEERS / name
    python = str(venv / "bin" / "python")
    wanted = dev.fingerprint([], *PINNED[name], interpreter.version, str(venv))
    if dev.is_set_up(venv, wanted):
        return python
    say(f"{name}: installing {' '.join(PINNED[name])} into {venv.relative_to(dev.ROOT)} …")
    try:
        _install(venv, python, interpreter, PINNED[name])
    except dev.Failed as failure:
        raise CannotBeHad(f"{' '.join(PINNED[name])} cannot be installed: {reason(str(failure))}") from failure
    (venv / ".set-up-stamp").write_text(wanted)
    return python


def _install(venv: Path, python: str, interpreter: dev.Interpreter, pinned: tuple[str, ...]) -> None:
    with dev.only_one_at_a_time():
        uv = str(dev.provide_uv())
        environment = dev.uv_environment(dev.pip_settings())
        dev.run_quietly(
            [uv, "venv", "--clear", "--no-project", "--python", interpreter.path, str(venv)],
            environment,
        )
        # As for the house's own environment: where pip reaches an index and uv does not, pip does the work.
        if not dev.succeeds([uv, "pip", "install", "--python", python, *pinned], environment):
            dev.run_quietly([*dev.pip_for(python), *pinned])


def reason(output: str) -> str:
    """The first thing that an installer called an error, without the places that it looked at."""
    lines = [line.strip() for line in output.splitlines()[1:] if line.strip()]
    # pip's own names for what happened are one word, and say nothing about why.
    telling = [line for line in lines if re.match(r"error: \S+ \S", line, re.IGNORECASE)]
    told = (telling or lines or [output])[0]
    told = re.sub(r"\s\(/\S+\)", "", told)
    return re.sub(r"\S*(://|[a-z]\.[a-z]+\.(io|org|com|net))\S*", "…", told)[:200]


def _own_python(*, is_newest: bool) -> str:
    newest = dev.newest_interpreter() if is_newest else None
    if newest is None:
        return sys.executable
    venv = dev.TOOLS / f"python-{newest.minor}"
    try:
        dev.set_up_environment(venv, newest)
    except dev.Failed as failure:
        raise CannotBeHad(f"Python {newest.minor} cannot be set up: {reason(str(failure))}") from failure
    return str(venv / "bin" / "python")


def _provide_node(adapter: str, say: Say) -> Environment:
    npm = shutil.which("npm")
    if npm is None:
        raise CannotBeHad("npm is not here")
    place = PEERS / "graphile-worker"
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    runtime = f"node-linux-{machine}"
    node = place / "node_modules" / runtime / "bin" / "node"
    wanted = dev.fingerprint([], GRAPHILE_WORKER, NODE, str(place))
    if not dev.is_set_up(place, wanted):
        say(f"graphile-worker: installing {GRAPHILE_WORKER} and Node {NODE} into {place.relative_to(dev.ROOT)} …")
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text('{"private": true}')
        install = [npm, "install", "--prefix", str(place), "--no-audit", "--no-fund", GRAPHILE_WORKER]
        if not dev.succeeds([*install, f"{runtime}@{NODE}"]):
            try:
                dev.run_quietly(install)
            except dev.Failed as failure:
                raise CannotBeHad(f"{GRAPHILE_WORKER} cannot be installed: {reason(str(failure))}") from failure
        (place / ".set-up-stamp").write_text(wanted)
    found = str(node) if node.exists() else shutil.which("node")
    if found is None:
        raise CannotBeHad("Node is not here")
    # Without the second it writes a line for every job; its own benchmark has it as well.
    variables = {"PEER_ENVIRONMENT": str(place), "NO_LOG_SUCCESS": "1", "NODE_ENV": "production"}
    return Environment([found, str(ADAPTERS / f"{adapter}.mjs")], variables)
