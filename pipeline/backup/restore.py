"""Restores a backup into a new folder, which appears whole or not at all.

The files are written into a folder beside it, and each is compared with its hash. There the project
gets its own identity, and what was purged since is purged again. Then the folder gets its name.
Nothing outside of it is touched: neither the original project, nor a database, nor a bucket.
"""

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.backup.archive import ArchiveReader, BackupManifest, open_backup
from pipeline.backup.beside import path_beside
from pipeline.backup.erased_again import erase_again
from pipeline.backup.members import SQLITE_COMPANIONS
from pipeline.backup.schedules import move_schedules
from pipeline.backup.settings_text import with_values
from pipeline.backup.write import SNAPSHOTS
from pipeline.errors import (
    DamagedError,
    DataError,
    DiskFullError,
    GraphmillError,
    UsageError,
    counted,
)
from pipeline.files import (
    SETTINGS,
    flush_folder,
    write_text,
)
from pipeline.purge.document import purge
from pipeline.purge.purged import KEY, LIST, PurgedDocuments, names_within
from pipeline.purge.target import KnownDocuments
from pipeline.runs.owner import OWNER_FILE, has_project
from pipeline.runs.services import Services
from pipeline.settings.file import read_settings
from pipeline.settings.schema import EMBEDDED, Settings
from pipeline.stores.base import Advanced, Live, silent
from pipeline.stores.loaded_workspaces import FILE as LOADED

LIST_ASIDE = "data/purged-without-key.json"
ELSEWHERE = "data/.elsewhere"
"""A folder that stands for folders outside of the project while documents are purged again."""


@dataclass(frozen=True)
class RestoredFiles:
    """The result of a restore, before the stores are loaded.

    ``is_copy`` is true if the project has a new owner, as a copy beside the original. ``purged``
    has the documents that were purged again, ``notes`` what a person should know.
    """

    folder: Path
    manifest: BackupManifest
    is_copy: bool
    purged: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class RestoreReport:
    """The result of a restore.

    ``workflow`` was loaded again into ``workspace``, or is "" if nothing was. ``problems`` say why
    the stores were not loaded, or how they differ from the tables.
    """

    folder: str
    files: int
    created: str
    is_copy: bool
    workspace: str
    workflow: str
    purged: tuple[str, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return 1 if self.problems else 0

    def lines(self) -> list[str]:
        kind = "a copy with an owner of its own" if self.is_copy else "the project itself"
        lines = [
            f"{self.folder}: {counted(self.files, 'file')} of {self.created}, each checked by its"
            f" hash; {kind}"
        ]
        lines += [f"purged again: {document}" for document in self.purged]
        if self.workflow:
            agrees = "not verified" if self.problems else "verified"
            lines.append(f"workflow {self.workflow}: loaded into {self.workspace}, {agrees}")
        return lines

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def restore_files(
    file: Path,
    folder: Path,
    workspace: str | None = None,
    purged: Path | None = None,
    overrides: Sequence[str] = (),
    advanced: Advanced = silent,
) -> RestoredFiles:
    """Write the project of a backup into a folder that is empty or not there.

    ``workspace`` makes it a copy with a workspace and an owner of its own. It is a copy too if the
    original is still in its folder. ``purged`` is the present project's folder, or a copy of its
    list of purged documents; by default the original's folder, if it is there.

    Raises UsageError for a folder that is not empty, DamagedError for a damaged or hostile backup,
    DiskFullError, and DataError if a purged document cannot be purged from it. Then nothing is
    left. A schedule in nightly/ is written for the new folder, or put aside.
    """
    _refuse_used(folder)
    with open_backup(file) as backup, path_beside(folder) as temporary:
        manifest = backup.manifest
        _refuse_too_large(backup, folder.parent)
        temporary.mkdir(mode=0o700)
        _extract(backup, temporary, advanced)
        original = Path(manifest.folder)
        is_here = has_project(original, manifest.owner)
        is_copy = workspace is not None or is_here
        if is_copy:
            _make_copy(temporary, manifest.owner, workspace)
        settings = read_settings(temporary, overrides)
        listed = purged or (original if is_here else None)
        if listed is not None:
            PurgedDocuments.of(temporary).take_over(PurgedDocuments.at(listed, manifest.owner))
        notes = _put_unusable_list_aside(temporary)
        notes += move_schedules(temporary, original, folder, settings)
        purged_again, notes_on_purges = _purge_again(temporary, overrides, settings)
        notes += notes_on_purges
        if listed is None:
            notes.append(
                f"restore: what was purged or erased after {manifest.created} is not known here, so"
                f" it is back; restore with --purged and the present {LIST} to remove it again"
            )
        _publish(temporary, folder, manifest.mode)
    return RestoredFiles(folder, manifest, is_copy, tuple(purged_again), tuple(notes))


def why_not_load(project: Services) -> str:
    """Return why the stores of a restored project are not to be loaded unasked, or "".

    A database that others share may show what the original has loaded.
    """
    conflict = _first_conflict(project)
    if conflict is None:
        return ""
    store, name, live = conflict
    return (
        f"workspace '{name}' of {store}: it shows what {live.place or 'another folder'} has"
        " loaded, so it is left as it is; to have a copy beside it, set another workspace"
        f" in {project.root / SETTINGS}, then 'graphmill -C {project.root} load'; to"
        " replace what it shows, run that command without another workspace"
    )


def _first_conflict(project: Services) -> tuple[str, str, Live] | None:
    """Return the first workspace of the project that a store already shows, or None.

    The result is the name of the store, that of the workspace, and what is loaded there.
    """
    names = {workspace.name for workspace in project.loads_into}
    for store, lives in project.workspaces().items():
        shown = sorted(names & set(lives))
        if shown:
            return store, shown[0], lives[shown[0]]
    return None


def _refuse_used(folder: Path) -> None:
    is_used = folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))
    if is_used or folder.is_symlink():
        raise UsageError(f"{folder}: not an empty folder; name one that is empty or not there")


def _refuse_too_large(backup: ArchiveReader, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if backup.manifest.total > free:
        raise DiskFullError(
            f"{folder}: the backup needs {backup.manifest.total / 1e6:,.0f} MB, and"
            f" {free / 1e6:,.0f} MB are free; make space, or restore to another disk"
        )


def _extract(backup: ArchiveReader, folder: Path, advanced: Advanced) -> None:
    """Write all files. No name can lead out of the folder: it is new and has no links, and the
    archive's reader refuses names with ".." or a leading slash."""
    members = backup.manifest.files
    for done, member in enumerate(members, start=1):
        path = folder / member.path
        try:
            if member.path.endswith("/"):
                path.mkdir(parents=True, exist_ok=True)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as target:
                for chunk in backup.content(member):
                    target.write(chunk)
            # A purge must be able to read and rewrite any file, whatever its permissions were.
            path.chmod(member.mode | 0o600)
            if member.mtime:
                os.utime(path, (member.mtime, member.mtime))
        except (FileExistsError, NotADirectoryError, IsADirectoryError, OverflowError) as error:
            fact = f"{member.path} cannot be written ({error})"
            raise DamagedError(backup.file, fact, "use another backup") from error
        advanced("files", done, len(members))


def _make_copy(folder: Path, owner: str, workspace: str | None) -> None:
    """Give the project an owner of its own, and a workspace of its own if one is named.

    What it knows of databases and batches at an endpoint is the original's.
    """
    new = secrets.token_hex(16)
    write_text(folder / OWNER_FILE, f"{new}\n")
    (folder / LOADED).unlink(missing_ok=True)
    path, settings = folder / SETTINGS, read_settings(folder)
    changes: dict[tuple[str | int, ...], str] = {}
    if workspace is not None:
        changes[("workspace",)] = workspace
    if settings.owner:
        # Rows of an owner that settings name would be those of the original too.
        changes[("owner",)] = ""
    if changes:
        write_text(path, with_values(path.read_text(encoding="utf-8"), changes))
    database = settings.own_cache(folder)
    if database is not None and database.is_file():
        # The first closes the connection, the second commits: a connection alone does not close.
        with closing(sqlite3.connect(database)) as connection, connection:
            for table in ("completions", "embeddings", "conversions"):
                statement = f"UPDATE {table} SET owner = ? WHERE owner = ?"  # noqa: S608 - constants
                connection.execute(statement, (new, settings.owner or owner))
            connection.execute("DELETE FROM batches")
        for suffix in SQLITE_COMPANIONS:
            database.with_name(f"{database.name}{suffix}").unlink(missing_ok=True)


def _is_below(folder: Path, name: str) -> bool:
    """Return whether a path of the settings leads to a place in the project's folder."""
    return (folder / name).resolve().is_relative_to(folder.resolve())


def _put_unusable_list_aside(folder: Path) -> list[str]:
    """Rename a list of purged documents that has no key, and return a note on it."""
    purged = PurgedDocuments.of(folder)
    if purged.key.exists() or purged.is_empty():
        return []
    purged.list.rename(folder / LIST_ASIDE)
    return [
        f"restore: the list of purged documents in the backup has no key, so it is put aside as"
        f" {LIST_ASIDE}; if you kept {KEY}, restore again, with both files together by --purged"
    ]


def _purge_again(
    folder: Path, overrides: Sequence[str], settings: Settings
) -> tuple[list[str], list[str]]:
    """Purge what the list of purged documents names. Return the names, and notes.

    Nothing outside of the folder is opened or changed, for it may be the original's: databases, a
    cache, a bucket, documents, exports and batches at an endpoint.
    """
    alone = _overrides_alone(folder, overrides, settings)
    (folder / ELSEWHERE).mkdir(parents=True, exist_ok=True)
    own = read_settings(folder, alone)
    with closing(Services(folder, own, overrides=tuple(alone))) as project:
        found = PurgedDocuments.of(folder).among(KnownDocuments(project).all)
        with _loaded_workspaces_hidden(folder):
            # Erase first: a purge works on the newest tables, which must lack the persons by then.
            notes = erase_again(project)
            for document, day in found.items():
                notes += _take_out_of_file(project, document)
                _purge_document_again(project, document, day)
    shutil.rmtree(folder / ELSEWHERE)
    return list(found), notes


@contextmanager
def _loaded_workspaces_hidden(folder: Path) -> Iterator[None]:
    """Hide the list of loaded workspaces while the block runs: what they show is not this
    restore's to change.

    If the block fails, the list is not written again, for the whole folder is deleted.
    """
    path = folder / LOADED
    content = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    yield
    if content is not None:
        path.write_bytes(content)


def _purge_document_again(project: Services, document: str, day: str) -> None:
    """Purge a document that was purged on ``day``, if the restored project has it."""
    try:
        if KnownDocuments(project).has(document) or _file_of(project, document):
            purge(project, document, abandons_batches=False)
    except GraphmillError as error:
        raise DataError(
            f"restore: {document} was purged on {day}, and the backup has it, but it cannot"
            f" be purged from it, so nothing is restored; use another backup. The reason:"
            f" {error}"
        ) from error


def _overrides_alone(folder: Path, overrides: Sequence[str], settings: Settings) -> list[str]:
    """Return overrides with which a project uses nothing outside of its folder."""
    alone = [
        *overrides,
        # The databases in the folder stand for those of the project.
        f"stores.postgres.url={EMBEDDED}",
        "stores.graph=postgres",
        # However many documents are purged, no run may stop for that.
        "max_delete_ratio=1",
        # Other inputs are outside of the folder.
        "inputs=[]",
        # Monitoring is to hear of the original's runs alone.
        "metrics.textfile=''",
        # An override may name a bucket; the snapshots of the backup are in the folder.
        f"snapshots={SNAPSHOTS}",
    ]
    if not _is_below(folder, settings.input.path):
        alone.append(f"input.path={ELSEWHERE}")
    if not _is_below(folder, settings.output):
        alone.append(f"output={ELSEWHERE}")
    if settings.own_cache(folder) is None:
        alone.append("cache=''")
    return alone


def _file_of(project: Services, document: str) -> Path | None:
    """Return the file of a document, or None. Raises DataError if it is outside of the folder."""
    path = KnownDocuments(project).file(document)
    if path is not None and not path.resolve().is_relative_to(project.root.resolve()):
        raise DataError(
            f"restore: {path}: not in the restored folder, so it is not purged; use another backup"
        )
    return path


def _take_out_of_file(project: Services, document: str) -> list[str]:
    """Delete the file or archive that still has a purged record, and return a note.

    A purge edits no files, and the file of the backup is older than the purge.
    """
    for name in names_within(document):
        path = _file_of(project, name) if name != document else None
        if path is not None:
            path.unlink()
            return [
                f"restore: {name} is left out, for it has {document}, which was purged; put the"
                " present file in its place before the next run"
            ]
    return []


def _publish(temporary: Path, folder: Path, mode: int) -> None:
    """Give the folder its permissions and its name. All files are on disk before."""
    # One call for the whole disk takes less time than one for each of many files.
    os.sync()
    temporary.chmod(mode)
    try:
        # An empty folder is replaced, another one is not.
        temporary.rename(folder)
    except OSError as error:
        raise UsageError(f"{folder}: not empty by now; name another folder") from error
    flush_folder(folder.parent)
