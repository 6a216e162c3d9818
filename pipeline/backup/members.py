"""Finds the files of a project that belong in its backup.

Left out are what is rebuilt from the rest (the embedded PostgreSQL, hashes of files, the mirror of
a bucket), what is about a process that runs (locks, notes of a run), and keys.
"""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from dotenv import dotenv_values
from pydantic import BaseModel

from pipeline.errors import DamagedError, DataError
from pipeline.files import PARTIAL, json_text
from pipeline.purge.purged import KEY as PURGED_KEY
from pipeline.purge.workspaces import DOOMED
from pipeline.runs.adapters import EMBEDDED_FOLDER
from pipeline.runs.audit import FOLDER as AUDIT
from pipeline.runs.requested import FOLDER as REQUESTS
from pipeline.runs.services import HASHES_FOLDER, MIRROR_FOLDER, Services
from pipeline.snapshots.store import Manifest, SnapshotStore

README = "graphmill-backup.txt"
"""The first member of a backup, by which one is recognised."""
HIDDEN_KEPT = frozenset({".env.example", ".gitignore"})
"""The files at the top whose names begin with a dot and that belong to every project."""
ENVIRONMENT = ".env"
"""A file of variables, in any folder; more of them have names such as ``.env.local``."""
SECRETS = frozenset({f"{AUDIT}/hash-key", PURGED_KEY})
SESSIONS_FOLDER = "data/serve"
"""The folder with the secret that signs sessions, and the sessions that have ended."""
KEY_FILES = frozenset({".pem", ".key", ".p12", ".pfx", ".jks"})
"""Suffixes of files with keys, outside of the folder of documents."""
REBUILT = frozenset({EMBEDDED_FOLDER, DOOMED, HASHES_FOLDER, MIRROR_FOLDER, REQUESTS})
OF_PROCESSES = frozenset(
    {
        "data/runs/lock",
        "data/runs/holder",
        f"{AUDIT}/lock",
        "data/owner-path",
        "data/.postgres.lock",
    }
)
SQLITE = b"SQLite format 3\x00"
SQLITE_COMPANIONS = ("-wal", "-shm", "-journal")


@dataclass
class ProjectFiles:
    """The files of a project's folder, without its snapshots.

    ``left_out`` has the names of links and keys that were passed over, with the reason.
    """

    project: Services
    target: Path
    with_keys: bool
    left_out: dict[str, str] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        """Yield names below the project's folder; the name of an empty folder ends in a slash."""
        root = self.project.root
        skipped = self._skipped_folders()
        keys = set() if self.with_keys else self._key_files()
        self._note_what_is_elsewhere()
        # Only links that settle where data and documents are, are followed.
        for place, folders, files in os.walk(root, onerror=refuse_unreadable, followlinks=True):
            below = "" if Path(place) == root else f"{Path(place).relative_to(root).as_posix()}/"
            folders[:] = [
                name
                for name in sorted(folders)
                if not self._is_passed_over(f"{below}{name}", skipped)
            ]
            if not folders and not files and below:
                yield below
            for name in sorted(files):
                if self._belongs(f"{below}{name}", keys):
                    yield f"{below}{name}"

    def _skipped_folders(self) -> set[Path]:
        """Return the folders that are not walked, with all that is below them."""
        root, settings = self.project.root, self.project.settings
        names = list(REBUILT)
        if not settings.snapshots_are_remote:
            names.append(settings.snapshots)
        if not self.with_keys:
            names.append(SESSIONS_FOLDER)
        return {(root / name).resolve() for name in names}

    def _note_what_is_elsewhere(self) -> None:
        root, settings = self.project.root, self.project.settings
        if not self.project.input_folder.is_relative_to(root):
            self.left_out[str(self.project.input_folder)] = "documents in another folder"
        for source in settings.inputs:
            self.left_out[f"@{source.name}"] = "documents of a further input"
        if settings.own_cache(root) is None:
            self.left_out["cache"] = "in another place"

    def _is_passed_over(self, name: str, skipped: set[Path]) -> bool:
        path = self.project.root / name
        is_followed = path in (self.project.root / "data", self.project.input_folder)
        if path.is_symlink() and not is_followed:
            self.left_out[name] = "a link"
            return True
        is_hidden_at_top = name.startswith(".")
        is_environment = (path / "pyvenv.cfg").exists()
        is_made = path.name == "__pycache__" or path.name.endswith(PARTIAL)
        if self.is_document(path):
            return is_environment or path.resolve() in skipped
        return is_hidden_at_top or is_environment or is_made or path.resolve() in skipped

    def is_document(self, path: Path) -> bool:
        """Return whether a file is below the input folder."""
        return self._documents is not None and path.resolve().is_relative_to(self._documents)

    @cached_property
    def _documents(self) -> Path | None:
        """The input folder. One that holds the whole project holds its keys too, so its files are
        no documents."""
        folder = self.project.input_folder.resolve()
        return None if self.project.root.resolve().is_relative_to(folder) else folder

    def _belongs(self, name: str, keys: set[Path]) -> bool:
        try:
            return self._is_member(name, keys)
        except FileNotFoundError:
            # It has gone since it was listed, as a journal does when its database is closed.
            return False

    def _is_member(self, name: str, keys: set[Path]) -> bool:
        path = self.project.root / name
        if path.is_symlink():
            self.left_out[name] = "a link"
            return False
        if not stat.S_ISREG(path.lstat().st_mode):
            self.left_out[name] = "no plain file"
            return False
        if path == self.target or _is_backup(path):
            return False
        if self.is_document(path):
            # Documents may have any names.
            return True
        if _is_of_process(name) or _is_beside_sqlite(path):
            return False
        is_environment = path.name == ENVIRONMENT or path.name.startswith(f"{ENVIRONMENT}.")
        is_named = name in SECRETS or path in keys
        is_named |= is_environment and path.name not in HIDDEN_KEPT
        if is_named or path.suffix.lower() in KEY_FILES:
            if not self.with_keys:
                self.left_out[name] = "a key"
            return self.with_keys
        return not name.startswith(".") or name in HIDDEN_KEPT

    def _key_files(self) -> set[Path]:
        """Return the files that settings or the file .env name, as those of certificates and
        accounts."""
        root = self.project.root
        named = list(_client_keys(self.project.settings))
        if (root / ".env").is_file():
            named += filter(None, dotenv_values(root / ".env", interpolate=False).values())
        # A long value, such as a key itself, is no path.
        return {root / Path(name) for name in named if len(name) < 1000 and "\0" not in name}


def _client_keys(value: Any) -> Iterator[str]:
    """Yield the paths of the keys of certificates in settings."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            found = getattr(value, name)
            if name in ("client_key", "key_file") and isinstance(found, str):
                yield found
            yield from _client_keys(found)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _client_keys(each)


def _is_of_process(name: str) -> bool:
    is_note = name.startswith("data/runs/") and name.endswith(".begun")
    return name in OF_PROCESSES or is_note or name.endswith(PARTIAL)


def _is_beside_sqlite(path: Path) -> bool:
    """Return whether a file is a journal of a database, whose copy has what is in it."""
    suffix = next((one for one in SQLITE_COMPANIONS if path.name.endswith(one)), None)
    if suffix is None:
        return False
    database = path.with_name(path.name.removesuffix(suffix))
    return database.is_file() and is_sqlite(database)


def _is_backup(path: Path) -> bool:
    """Return whether a file is a backup: it would be in every later one."""
    # The name of the first member follows the 30 bytes of its header.
    return _first_bytes(path, 30 + len(README))[30:] == README.encode()


def is_sqlite(path: Path) -> bool:
    return _first_bytes(path, len(SQLITE)) == SQLITE


def _first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file. Raises DataError if this user may not read it."""
    try:
        with path.open("rb") as file:
            return file.read(count)
    except PermissionError as error:
        refuse_unreadable(error)


def refuse_unreadable(error: OSError) -> NoReturn:
    raise DataError(f"{error.filename}: {error.strerror}; let this user read it") from error


@dataclass(frozen=True)
class Generations:
    """The manifests of all workflows at one moment, and the files that they name.

    ``texts`` are JSON files by their names, ``tables`` the names of files of tables.
    """

    texts: dict[str, str]
    tables: list[str]


def generations_of(snapshots: SnapshotStore) -> Generations:
    """Return the live and the kept manifests, with the records of their steps.

    Raises DataError if a live manifest cannot be read.
    """
    texts: dict[str, str] = {}
    tables: set[str] = set()
    for workflow in snapshots.workflows():
        manifests = [snapshots.live_manifest(workflow)]
        history = snapshots.history(workflow)
        manifests += snapshots.kept_manifests(workflow, history)
        names = [f"manifests/{workflow}/{run_id}.json" for run_id in history]
        for manifest in manifests:
            tables |= _files_named(manifest)
            names += [f"steps/{record.fingerprint}.json" for record in manifest.steps.values()]
        for name in (*names, f"manifest-{workflow}.json"):
            try:
                texts[name] = json_text(snapshots.folder.read(name))
            except (FileNotFoundError, DamagedError):
                # The manifest has the records of its steps too; a damaged copy is no use.
                continue
    return Generations(texts, sorted(tables))


def _files_named(manifest: Manifest) -> set[str]:
    named: set[str] = set()
    for tables in (manifest.tables, *(record.outputs for record in manifest.steps.values())):
        for snapshot in tables.values():
            named.update(snapshot.paths)
    return named
