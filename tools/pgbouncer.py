"""A real pgbouncer in transaction mode before a PostgreSQL, for tests."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from tools.programs import Program, ProgramUnavailable

#: where dev.py unpacks what it does not install: beside its environment, which a copy of the checkout may share
UNPACKED = Path(sys.prefix).parent / ".tools" / "debian"

INSTALL_HINT = "install it with: python3 dev.py check   (or: sudo apt-get install pgbouncer)"


def find_pgbouncer() -> Path | None:
    """Debian keeps it where a user's PATH does not look."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", str(UNPACKED / "usr" / "sbin")])
    found = shutil.which("pgbouncer", path=path)
    return None if found is None else Path(found)


class Pgbouncer(Program):
    """Hands the connections of one server from transaction to transaction.

    - `pool_mode` ("transaction"): or "session".
    - `pool_size` (4): connections to the server per database, so that clients really share them.
    """

    name = "pgbouncer"
    needs_a_user = True

    def __init__(self, server_port: int, *, pool_mode: str = "transaction", pool_size: int = 4) -> None:
        super().__init__()
        self._server_port = server_port
        self._pool_mode = pool_mode
        self._pool_size = pool_size

    def command(self) -> list[str]:
        program = find_pgbouncer()
        if program is None:
            raise ProgramUnavailable(f"pgbouncer is missing; {INSTALL_HINT}")
        users = self.directory / "users.txt"
        users.write_text('"postgres" ""\n')
        config = self.directory / "pgbouncer.ini"
        config.write_text(
            "[databases]\n"
            f"* = host=127.0.0.1 port={self._server_port}\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {users}\n"
            f"pool_mode = {self._pool_mode}\ndefault_pool_size = {self._pool_size}\nmax_client_conn = 1000\n"
            "ignore_startup_parameters = extra_float_digits\nserver_login_retry = 1\n"
        )
        for file in (users, config):
            file.chmod(0o644)
        self.directory.chmod(0o755)
        # A copy, because the checkout may lie in a directory that only its owner may enter.
        return [shutil.copy(str(program), str(self.directory / "pgbouncer")), str(config)]

    def environment(self) -> dict[str, str]:
        for library in (UNPACKED / "usr" / "lib").glob("*-linux-gnu*/*.so.*"):
            shutil.copy(library, self.directory)
        inherited = os.environ.get("LD_LIBRARY_PATH", "")
        return {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(self.directory), inherited]))}

    def url(self, server_url: str) -> str:
        """The same database through the pooler."""
        parts = urlsplit(server_url)
        return urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{self.port}"))
