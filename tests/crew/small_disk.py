"""A disk of a few megabytes that can be filled up, and emptied again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

_BLOCK = 4096


class SmallDisk:
    """A tmpfs; what is written into it when it is full fails with ENOSPC."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """To the last block; what somebody frees meanwhile is taken by the next call."""
        with contextlib.suppress(OSError), self._ballast.open("ab", buffering=0) as ballast:
            while True:
                ballast.write(bytes(_BLOCK))

    def make_room(self) -> None:
        self._ballast.unlink()


def _as_root() -> list[str] | None:
    """How to run a command as root; None if this user cannot."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None or subprocess.run([sudo, "-n", "true"], check=False, capture_output=True).returncode != 0:
        return None
    return [sudo, "-n"]


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk | None]:
    """None where nobody lets us mount one."""
    root = _as_root()
    # Not below a directory of pytest: a server that runs as another user must be able to go in.
    directory = Path(tempfile.mkdtemp(prefix="holdfast-disk-"))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0777", "tmpfs", str(directory)]
    try:
        directory.chmod(0o755)
        if root is None or subprocess.run([*root, *mount], check=False, capture_output=True).returncode != 0:
            yield None
            return
        try:
            yield SmallDisk(directory)
        finally:
            subprocess.run([*root, "umount", "--lazy", str(directory)], check=True)
    finally:
        directory.rmdir()
