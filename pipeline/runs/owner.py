"""Whose rows a project's are in a cache and in databases that others use too."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from pipeline.errors import DamagedError, DataError, UsageError
from pipeline.files import read_json, tell, write_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pipeline.snapshots.folder import Folder

OWNER_FILE = "data/owner"
PLACE_FILE = "data/owner-path"
"""The folder that the project was in when it last loaded: how a copy is told from a project that
was moved. It has the owner too, with a hash: what heals the other file."""
SNAPSHOTS_FILE = "owner.json"
"""In the folder of snapshots: whose they are."""


def has_owner(root: Path) -> bool:
    return (root / OWNER_FILE).exists() or (root / PLACE_FILE).exists()


def known_owner(root: Path, named: str) -> str:
    """Whose the project in this folder is, for those who only look: nothing is made, and one that
    has never run is nobody's (""). ``named``: the owner that its settings name, if any."""
    return named or (owner_of(root) if has_owner(root) else "")


def owner_of(root: Path) -> str:
    """The project's id, kept in a file of its own: it stays when the folder is moved or the
    workspace renamed. Made by whoever comes first, once; healed where the second copy says what it
    was. Raises DataError where nobody can say."""
    path, (_, noted) = root / OWNER_FILE, _noted(root)
    if not path.exists():
        _make(path, noted or secrets.token_hex(16))
    owner = path.read_text(encoding="utf-8", errors="replace").strip()
    is_told = bool(owner) and owner.isprintable() and "\ufffd" not in owner
    if is_told and noted in ("", owner):
        return owner
    if noted and (not is_told or _is_damaged(owner, noted)):
        tell(f"{path}: damaged; it is made again from {PLACE_FILE}")
        path.unlink()
        _make(path, noted)
        return noted
    if noted:
        raise DataError(
            f"{path}: {owner}, but {PLACE_FILE} has {noted}; delete the one of them that is wrong"
        )
    fact = "damaged" if owner else "empty"
    raise DataError(
        f"{path}: {fact}; restore it, or delete it: then what was cached before counts as another's"
    )


def _is_damaged(owner: str, noted: str) -> bool:
    """Cut off, or one character of it changed: no other project's."""
    changed = sum(one != other for one, other in zip(owner, noted, strict=False))
    return noted.startswith(owner) or (len(owner) == len(noted) and changed == 1)


def place_of(root: Path) -> str:
    """The machine and the folder, for people to read."""
    return f"{socket.gethostname()}:{root}"


def settle(root: Path) -> None:
    """Note where the project is now. One that was moved, or is seen by another path too, goes on as
    it was.

    Raises UsageError for a copy: a project of the same id is in the folder that was noted.
    """
    owner, (noted, noted_owner) = owner_of(root), _noted(root)
    if noted == str(root) and noted_owner == owner:
        return
    if noted and _has(Path(noted), owner) and not _is_same(Path(noted), root):
        raise UsageError(
            f"{root}: a copy of the project in {noted}, which is there too, and both would load as"
            f" one owner; delete {OWNER_FILE} and {PLACE_FILE} here and set another workspace, or"
            " remove the other folder"
        )
    write_json(root / PLACE_FILE, {"path": str(root), "owner": owner})


def _noted(root: Path) -> tuple[str, str]:
    """Where the project was, and its id; empty where nothing that is certain is noted. An earlier
    version's has the folder alone."""
    path = root / PLACE_FILE
    with suppress(FileNotFoundError):
        try:
            content = read_json(path)
            return str(content["path"]), str(content["owner"])
        except (DamagedError, KeyError):
            place = path.read_text(encoding="utf-8", errors="replace").strip("\n")
            if place.startswith("/") and place.isprintable():
                return place, ""
            tell(f"{path}: damaged; it is made again by the next load")
    return "", ""


def claim_snapshots(snapshots: Folder, root: Path, mine: Sequence[str]) -> None:
    """Note whose the snapshots are: the first of ``mine``. A folder in the project's own is its
    own; any other, and an object store, is the project's that came first. Raises UsageError for
    another's, DataError where nobody can say whose."""
    path, is_own = snapshots.describe(SNAPSHOTS_FILE), _is_own(snapshots, root)
    try:
        found = snapshots.read(SNAPSHOTS_FILE)
        owner = str(found["owner"])
    except FileNotFoundError:
        owner, found = "", {}
    except (DamagedError, KeyError) as error:
        owner, found = "", {}
        if not is_own:
            raise DataError(
                f"{path}: damaged; delete it where no other project has its snapshots there"
            ) from error
    if owner == mine[0]:
        return
    if owner and owner not in mine and not is_own:
        raise UsageError(
            f"{snapshots.address}: the snapshots of another project, {found.get('place', '')}; set"
            " another folder as 'snapshots' in settings.yaml, or, where that project is no more,"
            f" delete {path}"
        )
    snapshots.write(SNAPSHOTS_FILE, {"owner": mine[0], "place": place_of(root)})


def _is_own(snapshots: Folder, root: Path) -> bool:
    return snapshots.is_private and snapshots.root.resolve().is_relative_to(root.resolve())


def _has(root: Path, owner: str) -> bool:
    """A folder that cannot be read is somebody else's."""
    with suppress(OSError, ValueError):
        return (root / OWNER_FILE).read_text(encoding="utf-8").strip() == owner
    return False


def _is_same(one: Path, other: Path) -> bool:
    """By a file that is made in one and looked for in the other: a folder mounted twice need not
    say that it is one."""
    with NamedTemporaryFile(dir=(other / OWNER_FILE).parent, prefix=".owner-") as made:
        return ((one / OWNER_FILE).parent / Path(made.name).name).exists()


def _make(path: Path, owner: str) -> None:
    """A link is there whole or not at all, and only the first one is made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=".owner-", encoding="utf-8") as made:
        made.write(f"{owner}\n")
        made.flush()
        os.fsync(made.fileno())
        os.chmod(made.name, 0o644)
        with suppress(FileExistsError):
            os.link(made.name, path)
