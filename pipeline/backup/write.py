"""Writes a backup: one file, written beside its final name, checked, and then given that name.

No lock is taken, so a run goes on and none is refused. First the manifests of the snapshots are
read, then the files that they name, which never change, and then the cache, which has at least the
replies that these tables were made of. If a file has gone meanwhile, because of a gc or a purge,
the backup begins anew.
"""

import errno
import os
import sqlite3
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from pipeline.backup.archive import (
    ArchiveWriter,
    BackupManifest,
    FileChangedError,
    open_backup,
)
from pipeline.backup.beside import path_beside
from pipeline.backup.members import ProjectFiles, generations_of, is_sqlite, refuse_unreadable
from pipeline.backup.settings_text import with_values, without_secrets
from pipeline.errors import (
    DamagedError,
    DataError,
    GraphmillError,
    LockedError,
    UsageError,
    counted,
)
from pipeline.files import (
    SETTINGS,
    flush_folder,
    refuse_no_file,
    settings_file,
)
from pipeline.purge.intention import PurgeIntents
from pipeline.runs.owner import owner_of
from pipeline.runs.reports import clock_now
from pipeline.runs.services import Services
from pipeline.settings.file import read_settings
from pipeline.stores.base import Advanced, silent

SNAPSHOTS = "data/snapshots"
"""The folder of the snapshots in every backup, wherever the project has them."""
ATTEMPTS = 3
LISTED = 20
READ_AT_ONCE = 500
"""Files of tables that are fetched together from an object store."""
SECONDS_FOR_SQLITE = 60.0


@dataclass(frozen=True)
class BackupReport:
    """The result of a backup.

    ``bytes`` counts those of the files, ``size`` is that of the backup. ``keys`` are the variables
    that stand in its settings for secrets. ``left_out`` says what it does not have, and why.
    """

    file: str
    files: int
    bytes: int
    size: int
    keys: tuple[str, ...]
    left_out: dict[str, str]

    def lines(self) -> list[str]:
        return [
            f"{self.file}: {counted(self.files, 'file')}, {self.bytes / 1e6:,.1f} MB in"
            f" {self.size / 1e6:,.1f} MB, each checked by its hash"
        ]

    def notes(self) -> list[str]:
        """Return notes on what the backup does not have."""
        notes: list[str] = []
        if self.keys:
            notes.append(
                f"backup: {SETTINGS} in it names variables in place of secrets:"
                f" {', '.join(self.keys)}; set them where it is restored"
            )
        names = list(self.left_out)
        shown = names[:LISTED]
        notes += [f"backup: not in it: {name} ({self.left_out[name]})" for name in shown]
        if len(names) > LISTED:
            notes.append(f"backup: not in it: {len(names) - LISTED} more")
        return notes

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def write_backup(
    project: Services, file: Path, with_keys: bool = False, advanced: Advanced = silent
) -> BackupReport:
    """Write a backup of the project into a new file; a run may go on meanwhile.

    With ``with_keys`` it also has .env, the secrets of sessions and hashes, and files of keys.
    ``advanced`` is called with the number of files.

    Raises UsageError if the file exists, LockedError while a purge is under way, DataError for a
    file that cannot be read or is damaged, and DiskFullError.
    """
    refuse_no_file(file)
    if file.exists():
        raise UsageError(f"{file}: exists already; name a new file")
    for _ in range(ATTEMPTS):
        manifest = _try_to_write(project, file, with_keys, advanced)
        if manifest is not None:
            return BackupReport(
                str(file), len(manifest.files), manifest.total, file.stat().st_size,
                manifest.keys,
                dict(manifest.left_out),
            )  # fmt: skip
    raise LockedError(
        "backup: files of the project vanish while they are read, as by gc or purge; run the same"
        " command again when that is done"
    )


def _try_to_write(
    project: Services, file: Path, with_keys: bool, advanced: Advanced
) -> BackupManifest | None:
    """Write and check the backup; return None, with nothing left, if a file vanished meanwhile."""
    intents = PurgeIntents(project.root)
    intents.refuse_broken_off()
    with path_beside(file) as temporary:
        try:
            _write_members(project, file, temporary, with_keys, advanced)
        except (FileChangedError, FileNotFoundError):
            return None
        intents.refuse_broken_off()
        with open_backup(temporary) as backup:
            backup.check(advanced)
            manifest = backup.manifest
        _publish(temporary, file)
    return manifest


def _publish(temporary: Path, file: Path) -> None:
    """Give the temporary file its name, unless there is a file of that name by now."""
    with temporary.open("rb") as written:
        os.fsync(written.fileno())
    try:
        # Unlike a rename, a link never replaces a file.
        os.link(temporary, file)
    except FileExistsError:
        raise UsageError(f"{file}: exists by now; name a new file") from None
    except OSError:
        # Some file systems have no links.
        if file.exists():
            raise UsageError(f"{file}: exists by now; name a new file") from None
        temporary.replace(file)
    flush_folder(file.parent)


def _write_members(
    project: Services, file: Path, temporary: Path, with_keys: bool, advanced: Advanced
) -> None:
    owner = owner_of(project.root)
    temporary.touch(mode=0o600)
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as archive:
        writer = ArchiveWriter(archive)
        writer.write_about()
        _add_snapshots(project, writer, advanced)
        # The order matters: the cache has more replies than the tables need, never fewer.
        found = ProjectFiles(project, file.resolve(), with_keys)
        keys: list[str] = []
        for name in found:
            if name == SETTINGS:
                keys = _add_settings(project, writer, with_keys)
            elif name.endswith("/"):
                writer.add_folder(name)
            else:
                # A file that was deleted since it was listed is no part of the project any more.
                with suppress(FileNotFoundError):
                    _add_file(found, name, file, writer)
            advanced("files", len(writer.files), len(writer.files))
        manifest = BackupManifest(
            clock_now(), version("graphmill"), owner, str(project.root),
            project.settings.workspace, _workflow_to_load(project), with_keys,
            tuple(keys), found.left_out, project.root.stat().st_mode & 0o777,
        )  # fmt: skip
        writer.finish(manifest)


def _workflow_to_load(project: Services) -> str:
    """Return the workflow that the stores show, else the one loaded last, else that of settings.

    Return "" if it has no tables. A purge deletes the reports of earlier loads.
    """
    shown: list[str | None] = []
    # A backup needs no database.
    with suppress(GraphmillError):
        shown.append(project.live_workflow())
    shown += [report["workflow"] for report in project.runs.reports() if report["load"]][:1]
    shown.append(project.settings.workflow)
    has_tables = project.snapshots.workflows()
    return next((name for name in shown if name in has_tables), "")


def _add_snapshots(project: Services, writer: ArchiveWriter, advanced: Advanced) -> None:
    folder = project.snapshots.folder
    folder.refresh()
    generations = generations_of(project.snapshots)
    for start in range(0, len(generations.tables), READ_AT_ONCE):
        some = generations.tables[start : start + READ_AT_ONCE]
        folder.fetch(some)
        for name in some:
            path = folder.root / name
            digest = _copy(path, f"{SNAPSHOTS}/{name}", writer)
            if digest != PurePosixPath(name).stem:
                raise DamagedError(
                    path, "damaged", "run the workflow again, which writes it anew, then back up"
                )
        advanced("files", len(writer.files), len(generations.tables))
    for name, text in generations.texts.items():
        content = text.encode()
        writer.add(f"{SNAPSHOTS}/{name}", BytesIO(content), 0o644, 0.0, len(content))


def _add_settings(project: Services, writer: ArchiveWriter, with_keys: bool) -> list[str]:
    """Add settings.yaml without its secrets, and return the variables in their place."""
    path = settings_file(project.root)
    text, keys = path.read_text(encoding="utf-8"), list[str]()
    if not with_keys:
        text, keys = without_secrets(text, read_settings(project.root))
    if project.settings.snapshots != SNAPSHOTS:
        text = with_values(text, {("snapshots",): SNAPSHOTS})
    state, content = path.stat(), text.encode()
    writer.add(SETTINGS, BytesIO(content), state.st_mode, state.st_mtime, len(content))
    return keys


def _add_file(found: ProjectFiles, name: str, file: Path, writer: ArchiveWriter) -> None:
    path = found.project.root / name
    if is_sqlite(path) and not found.is_document(path):
        with _sqlite_copy(path, file) as copied:
            _copy(copied, name, writer, path.stat().st_mode)
    else:
        _copy(path, name, writer)


def _copy(path: Path, name: str, writer: ArchiveWriter, mode: int | None = None) -> str:
    try:
        with path.open("rb") as source:
            state = os.fstat(source.fileno())
            own_mode = state.st_mode if mode is None else mode
            return writer.add(name, source, own_mode, state.st_mtime, state.st_size)
    except PermissionError as error:
        refuse_unreadable(error)


@contextmanager
def _sqlite_copy(path: Path, file: Path) -> Iterator[Path]:
    """Give a copy of a SQLite database as it is at one moment, also while others write to it.

    It lies beside the backup, ``file``.
    """
    with path_beside(file) as copied:
        copied.touch(mode=0o600)
        try:
            # The mode "rw" creates no database where the file has just gone.
            address = f"file:{quote(os.fsencode(path))}?mode=rw"
            with (
                closing(sqlite3.connect(address, SECONDS_FOR_SQLITE, uri=True)) as source,
                closing(sqlite3.connect(copied)) as target,
            ):
                source.backup(target)
                # Everything is in one file then; the restored one gets a journal when it is opened.
                target.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(copied)) from error
            raise DataError(
                f"{path}: a database that cannot be read ({error}); close what holds it, or mend"
                " it, then back up again"
            ) from error
        yield copied
