"""A disk of a few megabytes, as a file system in memory: it becomes really full, and space can be
added."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class SmallDisk:
    root: Path

    @property
    def free(self) -> int:
        """Bytes that can still be written."""
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int) -> None:
        """Write a file that leaves so many bytes free."""
        with (self.root / "ballast").open("ab") as file:
            file.write(bytes(max(self.free - leave, 0)))

    def make_space(self) -> None:
        (self.root / "ballast").unlink()


@contextmanager
def small_disk(root: Path, megabytes: int) -> Iterator[SmallDisk]:
    """Mount a file system of this size at ``root``; skip the test where this user may not mount
    one."""
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(root)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a file system of its own needs the right to mount one (root)")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True, capture_output=True)
