"""Whose rows a project's are in a cache and in databases that others use too."""

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from pipeline.errors import DataError, UsageError

OWNER_FILE = "data/owner"
PLACE_FILE = "data/owner-path"
"""The folder that the project was in when it last loaded: how a copy is told from a project that was moved."""


def owner_of(root: Path) -> str:
    """The project's id, kept in a file of its own: it stays when the folder is moved or the workspace renamed. Made by
    whoever comes first, once. Raises DataError when the file says nothing."""
    path = root / OWNER_FILE
    if not path.exists():
        _make(path)
    owner = path.read_text(encoding="utf-8", errors="replace").strip()
    if not owner.isprintable() or "\ufffd" in owner or not owner:
        fact = "damaged" if owner else "empty"
        raise DataError(f"{path}: {fact}; restore it, or delete it: then what was cached before counts as another's")
    return owner


def place_of(root: Path) -> str:
    """The machine and the folder, for people to read."""
    return f"{socket.gethostname()}:{root}"


def settle(root: Path) -> None:
    """Note where the project is now. One that was moved, or is seen by another path too, goes on as it was.

    Raises UsageError for a copy: a project of the same id is in the folder that was noted.
    """
    owner, path = owner_of(root), root / PLACE_FILE
    noted = path.read_text(encoding="utf-8", errors="replace").strip("\n") if path.exists() else ""
    if noted == str(root):
        return
    if noted and _has(Path(noted), owner) and not _is_same(Path(noted), root):
        raise UsageError(
            f"{root}: a copy of the project in {noted}, which is there too, and both would load as one owner; delete "
            f"{OWNER_FILE} and {PLACE_FILE} here and set another workspace, or remove the other folder"
        )
    with NamedTemporaryFile("w", dir=path.parent, prefix=".owner-", encoding="utf-8", delete=False) as made:
        made.write(f"{root}\n")
    os.replace(made.name, path)


def _has(root: Path, owner: str) -> bool:
    """A folder that cannot be read is somebody else's."""
    with suppress(OSError, ValueError):
        return (root / OWNER_FILE).read_text(encoding="utf-8").strip() == owner
    return False


def _is_same(one: Path, other: Path) -> bool:
    """By a file that is made in one and looked for in the other: a folder mounted twice need not say that it is one."""
    with NamedTemporaryFile(dir=(other / OWNER_FILE).parent, prefix=".owner-") as made:
        return ((one / OWNER_FILE).parent / Path(made.name).name).exists()


def _make(path: Path) -> None:
    """A link is there whole or not at all, and only the first one is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=".owner-", encoding="utf-8") as made:
        made.write(f"{secrets.token_hex(16)}\n")
        made.flush()
        os.fsync(made.fileno())
        os.chmod(made.name, 0o644)
        with suppress(FileExistsError):
            os.link(made.name, path)
