"""Whose rows a project's are in a cache that others use too."""

import os
import secrets
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from pipeline.errors import DataError

OWNER_FILE = "data/owner"


def owner_of(root: Path) -> str:
    """The project's id, kept in a file of its own: it stays when the folder is moved or the workspace renamed. Made by
    whoever comes first, once. Raises DataError when the file says nothing."""
    path = root / OWNER_FILE
    if not path.exists():
        _make(path)
    owner = path.read_text(encoding="utf-8").strip()
    if not owner:
        raise DataError(f"{path}: empty; restore it, or delete it: then what was cached before counts as another's")
    return owner


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
