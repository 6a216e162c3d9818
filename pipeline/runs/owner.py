"""The owner of rows in a cache and in databases that several projects share."""

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
"""The folder in which the project last loaded, and a copy of the owner. It tells a copied project
from a moved one, and restores the other file if that is damaged."""
SNAPSHOTS_FILE = "owner.json"
"""The file in the folder of snapshots that names their owner."""


def has_owner(root: Path) -> bool:
    return (root / OWNER_FILE).exists() or (root / PLACE_FILE).exists()


def known_owner(root: Path, named: str) -> str:
    """Return the owner of the project in this folder without creating anything; "" if it never ran.

    ``named`` is the owner that its settings name, if any.
    """
    return named or (owner_of(root) if has_owner(root) else "")


def owner_of(root: Path) -> str:
    """Return the project's id, which is kept in a file of its own and created on first use.

    So it stays the same if the folder is moved or the workspace renamed. A damaged file is restored
    from the second copy. Raises DataError if the id cannot be known.
    """
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
        raise DataError(f"{path}: {owner}, but {PLACE_FILE} has {noted}; move the wrong one away")
    fact = "damaged" if owner else "empty"
    raise DataError(
        f"{path}: {fact}; restore it, or move it away: then what was cached before counts as"
        " another's"
    )


def _is_damaged(owner: str, noted: str) -> bool:
    """Return whether ``owner`` is ``noted`` cut off or with one character changed, not another
    id."""
    changed = sum(one != other for one, other in zip(owner, noted, strict=False))
    return noted.startswith(owner) or (len(owner) == len(noted) and changed == 1)


def place_of(root: Path) -> str:
    """Return the machine and the folder, for messages."""
    return f"{socket.gethostname()}:{root}"


def settle(root: Path, shares: bool = True) -> None:
    """Note the present folder of the project. A project may be moved, or seen by several paths.

    ``shares``: whether its databases are shared with other folders. Raises UsageError for a copy
    that does: the folder that was noted still has a project with the same id.
    """
    owner, (noted, noted_owner) = owner_of(root), _noted(root)
    if noted == str(root) and noted_owner == owner:
        return
    if shares and noted and has_project(Path(noted), owner) and not _is_same(Path(noted), root):
        raise UsageError(
            f"{root}: a copy of the project in {noted}, which is there too, and both would load as"
            f" one owner; delete {OWNER_FILE} and {PLACE_FILE} of this copy and set another"
            " workspace in its settings.yaml; 'graphmill restore --workspace NAME' does both"
        )
    write_json(root / PLACE_FILE, {"path": str(root), "owner": owner})


def _noted(root: Path) -> tuple[str, str]:
    """Return the folder and the id that were noted; "" for what is unknown or damaged.

    Earlier versions noted only the folder.
    """
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
    """Note that the snapshots belong to the first of the owners ``mine``.

    A folder inside the project's folder belongs to the project. Any other folder, and an object
    store, belongs to the project that came first. Raises UsageError if the snapshots belong to
    another project, DataError if that cannot be known.
    """
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
                f"{path}: damaged; move it away where no other project has its snapshots there"
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


def has_project(root: Path, owner: str) -> bool:
    """Return whether the project in ``root`` has this owner; false if the folder cannot be read."""
    with suppress(OSError, ValueError):
        return (root / OWNER_FILE).read_text(encoding="utf-8").strip() == owner
    return False


def _is_same(one: Path, other: Path) -> bool:
    """Return whether two paths lead to the same folder.

    A file is created in one and looked for in the other, because a folder that is mounted twice
    need not have one identity.
    """
    with NamedTemporaryFile(dir=(other / OWNER_FILE).parent, prefix=".owner-") as made:
        return ((one / OWNER_FILE).parent / Path(made.name).name).exists()


def _make(path: Path, owner: str) -> None:
    """Write the file of the owner, unless another process has just done so.

    A hard link appears complete or not at all, and only the first one can be created.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=path.parent, prefix=".owner-", encoding="utf-8") as made:
        made.write(f"{owner}\n")
        made.flush()
        os.fsync(made.fileno())
        os.chmod(made.name, 0o644)
        with suppress(FileExistsError):
            os.link(made.name, path)
