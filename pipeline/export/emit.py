"""Writes the tables that a workflow emits as files with the tables' names.

The snapshots themselves have names made of their content.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contract.cells import as_frame, with_json_texts
from pipeline.contract.schemas import STRING
from pipeline.engine.workflow import Format, Workflow
from pipeline.errors import DamagedError, UsageError
from pipeline.export.source import write_rows
from pipeline.files import new_file, read_json, sha256_of, write_json
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore

RECORD = ".emitted.json"
"""The file that lists emitted files with their hashes. Files that are not listed stay, unless an
emitted file has the same name."""


@dataclass(frozen=True)
class _EmittedFile:
    """The hashes of an emitted file: of the snapshot it was made of, and of the file itself.

    ``file`` is "" until the file is complete.
    """

    table: str = ""
    file: str = ""


def emit(
    workflow: Workflow, manifest: Manifest, snapshots: SnapshotStore, folder: Path
) -> list[str]:
    """Write the tables that the workflow emits into the folder; return the names of new files.

    A file that is up to date is not written again. A file is replaced at once, so it is complete at
    any time. Files of an earlier run that the workflow does not emit any more are deleted. Raises
    UsageError if the folder cannot be written to.
    """
    wanted: dict[str, tuple[Snapshot, Format]] = {}
    for table, formats in workflow.emit.items():
        for format in formats:
            wanted[f"{table}.{format}"] = (manifest.tables[table], format)
    try:
        return _update_files(folder, wanted, snapshots)
    except OSError as error:
        raise UsageError(
            f"emit: {folder}: {error.strerror or error}; set output to a folder you may write to"
        ) from error


def withdraw(folder: Path) -> None:
    """Delete the files that were emitted into the folder."""
    if (folder / RECORD).exists():
        _update_files(folder, {}, SnapshotStore(folder))


def _update_files(
    folder: Path, wanted: Mapping[str, tuple[Snapshot, Format]], snapshots: SnapshotStore
) -> list[str]:
    """Write the wanted files that are not up to date, and delete emitted files that are not wanted.

    Return the names of the files that were written.
    """
    emitted = _read_record(folder)
    if not wanted and not emitted:
        return []
    stale: dict[str, tuple[Snapshot, Format]] = {
        name: (snapshot, format)
        for name, (snapshot, format) in wanted.items()
        if not _is_up_to_date(folder / name, emitted.get(name), snapshot.sha256)
    }
    no_longer_wanted = sorted(set(emitted) - set(wanted))
    # The files are listed before they are written: after a crash they are known as emitted.
    unfinished = dict.fromkeys(stale, _EmittedFile())
    _write_record(folder, {**emitted, **unfinished})
    for name, (snapshot, format) in stale.items():
        write = WRITERS[format]
        with new_file(folder / name) as path:
            write(snapshots, snapshot, path)
        emitted[name] = _EmittedFile(snapshot.sha256, sha256_of(folder / name))
    for name in no_longer_wanted:
        (folder / name).unlink(missing_ok=True)
    _write_record(folder, {name: emitted[name] for name in wanted})
    return list(stale)


def _is_up_to_date(path: Path, emitted: _EmittedFile | None, table: str) -> bool:
    """Return whether a file was made of the snapshot with the hash ``table``, and is unchanged."""
    return (
        emitted is not None
        and emitted.table == table
        and path.is_file()
        and sha256_of(path) == emitted.file
    )


def _read_record(folder: Path) -> dict[str, _EmittedFile]:
    """Read the list of emitted files; it is empty if it is lost or damaged.

    Then no file counts as emitted. An entry of an earlier version is only the hash of the snapshot.
    """
    try:
        files: dict[str, _EmittedFile] = {}
        for name, entry in read_json(folder / RECORD).items():
            hashes = [entry] if isinstance(entry, str) else entry
            # Only the name is used, so that no entry leads out of the folder.
            files[Path(name).name] = _EmittedFile(*hashes)
        return files
    except (FileNotFoundError, DamagedError, TypeError):
        return {}


def _write_record(folder: Path, files: Mapping[str, _EmittedFile]) -> None:
    entries: dict[str, list[str]] = {}
    for name, emitted in files.items():
        entries[name] = [emitted.table, emitted.file]
    write_json(folder / RECORD, entries)


def _write_parquet(snapshots: SnapshotStore, snapshot: Snapshot, path: Path) -> None:
    with pq.ParquetWriter(
        path, snapshots.tables.schema(snapshot), compression="zstd", store_schema=False
    ) as file:
        for batch in snapshots.tables.read_batches(snapshot):
            file.write_batch(batch.cast(file.schema))


def _write_csv(snapshots: SnapshotStore, snapshot: Snapshot, path: Path) -> None:
    """Write a table as CSV, with lists and records as texts of JSON."""
    schema = snapshots.tables.schema(snapshot)
    nested: list[str] = []
    types: dict[str, pa.DataType] = {}
    for field in schema:
        is_nested = pa.types.is_nested(field.type)
        types[field.name] = STRING if is_nested else field.type
        if is_nested:
            nested.append(field.name)
    frames = (
        with_json_texts(as_frame(batch), nested)
        for batch in snapshots.tables.read_batches(snapshot)
    )
    write_rows(path.parent, path.name, pa.schema(list(types.items())), frames)


def _write_json(snapshots: SnapshotStore, snapshot: Snapshot, path: Path) -> None:
    """Write a table as a JSON array with an object on each line."""
    with path.open("w", encoding="utf-8") as file:
        file.write("[")
        separator = "\n"
        for batch in snapshots.tables.read_batches(snapshot):
            for row in batch.to_pylist():
                file.write(separator + json.dumps(row, ensure_ascii=False))
                separator = ",\n"
        file.write("\n]\n")


WRITERS: Mapping[Format, Callable[[SnapshotStore, Snapshot, Path], None]] = {
    "parquet": _write_parquet,
    "csv": _write_csv,
    "json": _write_json,
}
