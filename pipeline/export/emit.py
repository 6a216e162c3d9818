"""What a workflow emits: tables as files under their names, beside the snapshots that are named by
content."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
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
"""File name -> what it was made of, and its own hash: other files stay, but for those of a table's
name."""


@dataclass(frozen=True)
class _EmittedFile:
    """``table``: the hash of the snapshot; ``file``: of the file, "" until it is whole."""

    table: str = ""
    file: str = ""


def emit(
    workflow: Workflow, manifest: Manifest, snapshots: SnapshotStore, folder: Path
) -> list[str]:
    """Bring the folder's files up to date with the tables that the workflow emits; the names of
    those written anew.

    Each file is whole at any time. What an earlier run emitted and this workflow does not is
    deleted. Raises UsageError where the folder cannot be written to.
    """
    wanted: dict[str, tuple[Snapshot, Format]] = {
        f"{table}.{format}": (manifest.tables[table], format)
        for table, formats in workflow.emit.items()
        for format in formats
    }
    try:
        return _brought_up_to_date(folder, wanted, snapshots)
    except OSError as error:
        raise UsageError(
            f"emit: {folder}: {error.strerror or error}; set output to a folder you may write to"
        ) from error


def withdraw(folder: Path) -> None:
    """Delete what was emitted into the folder."""
    if (folder / RECORD).exists():
        _brought_up_to_date(folder, {}, SnapshotStore(folder))


def _brought_up_to_date(
    folder: Path, wanted: Mapping[str, tuple[Snapshot, Format]], snapshots: SnapshotStore
) -> list[str]:
    there = _record(folder)
    if not wanted and not there:
        return []
    stale = {
        name: entry
        for name, entry in wanted.items()
        if not _is_whole(folder / name, there.get(name), entry[0].sha256)
    }
    gone = sorted(set(there) - set(wanted))
    _write_record(
        folder, {**there, **dict.fromkeys(stale, _EmittedFile())}
    )  # what a crash leaves is known as emitted
    for name, (snapshot, format) in stale.items():
        with new_file(folder / name) as path:
            WRITERS[format](snapshots, snapshot, path)
        there[name] = _EmittedFile(snapshot.sha256, sha256_of(folder / name))
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    _write_record(folder, {name: there[name] for name in wanted})
    return list(stale)


def _is_whole(path: Path, emitted: _EmittedFile | None, table: str) -> bool:
    """As it was made of this table."""
    return (
        emitted is not None
        and emitted.table == table
        and path.is_file()
        and sha256_of(path) == emitted.file
    )


def _record(folder: Path) -> dict[str, _EmittedFile]:
    """Nothing where the record is lost: then no file is taken for an emitted one. An earlier
    version's has no hashes of the files."""
    try:
        content = read_json(folder / RECORD)
        return {
            Path(name).name: _EmittedFile(*([entry] if isinstance(entry, str) else entry))
            for name, entry in content.items()
        }
    except (FileNotFoundError, DamagedError, TypeError):
        return {}


def _write_record(folder: Path, files: Mapping[str, _EmittedFile]) -> None:
    write_json(
        folder / RECORD, {name: [emitted.table, emitted.file] for name, emitted in files.items()}
    )


def _write_parquet(snapshots: SnapshotStore, snapshot: Snapshot, path: Path) -> None:
    with pq.ParquetWriter(
        path, snapshots.tables.schema(snapshot), compression="zstd", store_schema=False
    ) as file:
        for batch in snapshots.tables.read_batches(snapshot):
            file.write_batch(batch.cast(file.schema))


def _write_csv(snapshots: SnapshotStore, snapshot: Snapshot, path: Path) -> None:
    """Lists and records as JSON."""
    schema = snapshots.tables.schema(snapshot)
    flat = pa.schema(
        [(field.name, STRING if pa.types.is_nested(field.type) else field.type) for field in schema]
    )
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    write_rows(path.parent, path.name, flat, _flattened(snapshots, snapshot, nested))


def _flattened(
    snapshots: SnapshotStore, snapshot: Snapshot, nested: list[str]
) -> Iterator[pd.DataFrame]:
    for batch in snapshots.tables.read_batches(snapshot):
        yield with_json_texts(as_frame(batch), nested)


def _write_json(snapshots: SnapshotStore, snapshot: Snapshot, path: Path) -> None:
    """A JSON array, an object a line."""
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
