"""Snapshots: immutable Parquet tables addressed by their content, and the records that point at them.

    <root>/<table>/<sha256>.parquet     a table, or some of its rows (snapshots/tables.py)
    <root>/steps/<fingerprint>.json     which snapshots a step wrote (the key to reuse)
    <root>/steps/unfinished/<task>.json which files a task of a step wrote that is not done (engine/tasks.py); beside
                                        them what the processes share that do tasks
    <root>/manifest-<workflow>.json     the live snapshot of each table
    <root>/manifests/<workflow>/<run_id>.json   the manifests that were live, each from the run that made it

Run ids sort by time, and a run that changed nothing leaves no manifest: what was live when a run ended is the
newest manifest up to its id. Every file comes to its name by fsync and rename, records after what they point
at: a crash at any instant leaves whole files only. One that something else has damaged counts as missing in a run,
which makes it again; whoever else reads it gets a DataError.
"""

import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.cells import as_frame
from pipeline.contract.schema_version import SCHEMA_VERSION, refuse_newer
from pipeline.errors import DamagedError, DataError
from pipeline.files import read_json, sha256_of, sweep_partials, tell, write_json
from pipeline.snapshots.tables import GONE_FOLDER, Snapshot, TableFile, TableFiles

LIVE_PREFIX = "manifest-"
UNFINISHED = "steps/unfinished"
NAMED_BY_CONTENT = re.compile(r"[0-9a-f]{64}")
FILE_OF_A_TABLE = re.compile(rf"(?!\.\.?/)[^/]+/({GONE_FOLDER}/)?[0-9a-f]{{64}}\.parquet")
Made = TypeVar("Made")


@dataclass(frozen=True)
class StepRecord:
    """What a step with this fingerprint wrote. ``components`` are the parts of the fingerprint, kept to
    say later which of them changed; ``retry`` marks rows that failed for a passing reason, so that the
    record is no ground for reuse."""

    step: str
    fingerprint: str
    components: Mapping[str, Any]
    outputs: Mapping[str, Snapshot]
    retry: bool = False


@dataclass(frozen=True)
class Manifest:
    """The live tables of a workflow and the records of the steps that wrote them."""

    workflow: str
    tables: Mapping[str, Snapshot] = field(default_factory=dict)
    steps: Mapping[str, StepRecord] = field(default_factory=dict)


@dataclass(frozen=True)
class SnapshotStore:
    """``intact`` remembers the files this process has found whole, as (path, size, times of change). ``beneath``: where
    files of tables are read that are not here: what is only tried is written beside what is kept, not into it."""

    root: Path
    intact: set[tuple[str, int, int, int]] = field(default_factory=set, repr=False, compare=False)
    beneath: "SnapshotStore | None" = None

    def write(self, name: str, table: pa.Table, order: Sequence[str] = (), before: Snapshot | None = None) -> Snapshot:
        """Write what of the table is not there already. ``order``: what fixes the order of its rows; ``before``: the
        table as it was, of which it may share files. Raises DiskFullError, and leaves nothing."""
        known = before if before is not None and self.exists(before) else None
        return self._files.write(name, table, order, known)

    def replaced(self, name: str, before: Snapshot, column: str, values: pa.Array, rows: pa.Table) -> Snapshot:
        """The table with ``rows`` in place of those whose ``column`` has one of the values; it must have an order."""
        return self._files.replaced(name, before, column, values, rows)

    def write_bucket(
        self, name: str, rows: pa.Table, order: Sequence[str], bucket: str, naming: str
    ) -> list[TableFile]:
        """Some rows of a table, those of a bucket of groups, which the column ``naming`` names."""
        return self._files.write_bucket(name, rows, order, bucket, naming)

    def joined(
        self, name: str, files: Sequence[TableFile], schema: pa.Schema, order: Sequence[str], before: Snapshot | None
    ) -> Snapshot:
        """The table whose rows are in these files, or ``before`` where it has the same rows."""
        known = before if before is not None and self.exists(before) else None
        return self._files.joined(name, files, schema, order, known)

    def note_task(self, task: str, files: Mapping[str, Sequence[TableFile]]) -> None:
        """Remember the files of a task, by the names of its outputs, until its step has a record."""
        tables = {name: list(map(asdict, some)) for name, some in files.items()}
        self._write_json(f"{UNFINISHED}/{task}.json", {"task": task, "files": tables})

    def noted_task(self, task: str) -> dict[str, list[TableFile]] | None:
        """What a task of this name has written, if it is all there and undamaged."""
        try:
            content = self._read(self.root / f"{UNFINISHED}/{task}.json", dict)
            files = {name: [TableFile(**file) for file in some] for name, some in content["files"].items()}
            self.require_files(file.path for some in files.values() for file in some)
        except (FileNotFoundError, DataError):
            return None
        return files

    def share(self, name: str, file: Path) -> None:
        """Make the file one that every process finds by this name, until it is taken back or its step has a record. Of
        a crash nobody will want it."""
        file.replace(self.root / UNFINISHED / name)

    def shared(self, name: str) -> Path:
        """Raises FileNotFoundError."""
        return self.root / UNFINISHED / name

    def unshare(self, name: str) -> None:
        self.shared(name).unlink(missing_ok=True)

    def forget_tasks(self) -> None:
        """Only for a caller who is alone here."""
        shutil.rmtree(self.root / UNFINISHED, ignore_errors=True)

    def ordered(self, name: str, snapshot: Snapshot, order: Sequence[str]) -> Snapshot:
        """The table as one whose rows can be replaced, which those of an earlier version are not."""
        return self._files.ordered(name, snapshot, order)

    def read(self, snapshot: Snapshot, columns: list[str] | None = None) -> pd.DataFrame:
        """The table, or some columns of it without a look at the rest. Raises DataError when a file is gone or
        damaged."""
        return as_frame(self.table(snapshot, columns))

    def table(self, snapshot: Snapshot, columns: list[str] | None = None) -> pa.Table:
        """As ``read``, in Arrow."""
        return self._files.table(snapshot, columns)

    def select(
        self, snapshot: Snapshot, names: Collection[str], values: pa.Array, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The rows that have one of the values in one of the columns ``names``, in the table's order."""
        return self._files.select(snapshot, names, values, columns)

    def selected(
        self, snapshot: Snapshot, names: Collection[str], values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """As ``select``, in no order yet, and with what ``in_order`` needs."""
        return self._files.selected(snapshot, names, values, columns)

    def goes_by(self, snapshot: Snapshot, column: str, bits: int) -> bool:
        """Whether the buckets of this column's hash, of so many bits, are those of the table's files, or nearly."""
        return self._files.goes_by(snapshot, column, bits)

    def bucket_sizes(self, snapshot: Snapshot, bits: int) -> np.ndarray:
        """How many rows are in each bucket of so many bits of the key's hash."""
        return self._files.bucket_sizes(snapshot, bits)

    def bucket(self, snapshot: Snapshot, bucket: str, columns: Sequence[str]) -> pa.Table:
        """The rows whose keys have hashes that begin so, in the table's order."""
        return self._files.bucket(snapshot, bucket, columns)

    def difference(
        self, before: Snapshot, now: Snapshot, columns: Sequence[str] | None = None
    ) -> tuple[pa.Table, pa.Table]:
        """The rows that ``before`` alone has, and those that ``now`` alone has, in no order: a row that changed is in
        both. Few files are read where they share most."""
        return self._files.difference(before, now, columns)

    def columns(self, snapshot: Snapshot) -> list[str]:
        """Raises DataError when a file is gone or damaged."""
        return self._files.columns(snapshot)

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Raises DataError when a file is gone or damaged."""
        return self._files.schema(snapshot)

    def batches(self, snapshot: Snapshot, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """As ``table``, some thousands of rows at a time."""
        return self._files.batches(snapshot, columns)

    def first(self, snapshot: Snapshot, columns: Sequence[str]) -> pa.Table:
        """Its first row, without a look at the rest; none of an empty table."""
        return self._files.first(snapshot, columns)

    def unordered(self, snapshot: Snapshot, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """As ``batches``, file by file: for those to whom the order means nothing."""
        return self._files.unordered(snapshot, columns)

    def require(self, snapshot: Snapshot) -> None:
        """Raises DataError when a file is gone or damaged."""
        self.require_files(snapshot.paths)

    def require_files(self, paths: Iterable[str]) -> None:
        """As ``require``, of files by their paths in the snapshots."""
        for path in paths:
            self._whole(path)

    @property
    def _files(self) -> TableFiles:
        return TableFiles(self.root, self._whole, made=self._made)

    def _whole(self, name: str) -> Path:
        """A table's file, found undamaged: by its hash, once for each state of the file that this process meets."""
        path = self.root / name
        if self.beneath and not path.exists():
            return self.beneath._whole(name)
        try:
            seen = _state(name, path)
            if seen not in self.intact and sha256_of(path) != path.stem:
                raise DamagedError(path, "damaged")
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}; run the workflow again") from error
        self.intact.add(seen)
        return path

    def _made(self, name: str) -> None:
        self.intact.add(_state(name, self.root / name))

    def exists(self, snapshot: Snapshot) -> bool:
        """Whether the table can be read. A damaged one is told: for a run it is not there."""
        try:
            self.require(snapshot)
        except DamagedError as error:
            tell(f"{error.path}: {error.fact}; it counts as missing, and a run makes it again")
            return False
        except DataError:
            return False
        return True

    def record(self, record: StepRecord) -> None:
        self._write_json(f"steps/{record.fingerprint}.json", asdict(record))

    def lookup(self, fingerprint: str) -> StepRecord | None:
        """The record of this fingerprint if every snapshot it names is there and undamaged. A record that cannot be
        read, or that another version has written, is as if it were not there."""
        path = self.root / f"steps/{fingerprint}.json"
        try:
            record = self._read(path, _step_record)
            _require(record.fingerprint == fingerprint, path, "of another step")
        except FileNotFoundError:
            return None
        except DamagedError as error:
            tell(f"{path}: {error.fact}; its step runs again")
            return None
        return record if all(map(self.exists, record.outputs.values())) else None

    def publish(self, manifest: Manifest, run_id: str) -> None:
        """Make it the live manifest of its workflow and keep it under the run's id, unless it is live already.

        The copy comes first: there is never a live manifest that its run's id does not lead to.
        """
        newest = self.history(manifest.workflow)[-1:]
        kept = newest and self._found(manifest.workflow, _kept_name(manifest.workflow, newest[0]))
        if kept != manifest:
            self._write_json(_kept_name(manifest.workflow, run_id), asdict(manifest))
        if kept != manifest or self._found(manifest.workflow, _live_name(manifest.workflow)) != manifest:
            self._write_json(_live_name(manifest.workflow), asdict(manifest))

    def manifest(self, workflow: str, run_id: str = "") -> Manifest:
        """The workflow's live manifest, or the one kept under the run's id; empty if there is none. Where the live one
        cannot be read it is the newest that is kept and can be.

        Raises DamagedError for one kept under the run's id that cannot be read."""
        if run_id:
            try:
                return self._manifest(workflow, _kept_name(workflow, run_id))
            except FileNotFoundError:
                return Manifest(workflow)
            except DamagedError as error:
                raise DamagedError(error.path, error.fact, "choose another run") from error
        names = [_live_name(workflow), *(_kept_name(workflow, id) for id in reversed(self.history(workflow)))]
        found = next(filter(None, (self._found(workflow, name) for name in names)), None)
        return found or Manifest(workflow)

    def certain(self, workflow: str) -> Manifest:
        """As ``manifest``, but no older one: where the live one cannot be read, its copy. Raises DamagedError where
        that cannot be read either."""
        damaged = None
        for name in [_live_name(workflow), *(_kept_name(workflow, id) for id in self.history(workflow)[-1:])]:
            try:
                return self._manifest(workflow, name)
            except FileNotFoundError:
                continue
            except DamagedError as error:
                damaged = error
        if damaged:
            raise DamagedError(damaged.path, damaged.fact, f"run 'graphmill index {workflow}' first")
        return Manifest(workflow)

    def is_lost(self, workflow: str) -> bool:
        """Whether the workflow has manifests, and none that can be read."""
        return workflow in self.workflows() and not self.manifest(workflow).tables

    def kept(self, workflow: str, run_ids: Iterable[str]) -> list[Manifest]:
        """Those of the manifests kept under these ids that can be read; of the others is told."""
        found = (self._found(workflow, _kept_name(workflow, run_id)) for run_id in run_ids)
        return [manifest for manifest in found if manifest]

    def _found(self, workflow: str, name: str) -> Manifest | None:
        """None where it is not there, or cannot be read, which is told."""
        try:
            return self._manifest(workflow, name)
        except FileNotFoundError:
            return None
        except DamagedError as error:
            tell(f"{error.path}: {error.fact}; it is passed over, and the newest whole manifest taken")
            return None

    def _manifest(self, workflow: str, name: str) -> Manifest:
        path = self.root / name
        manifest = self._read(path, _manifest)
        _require(manifest.workflow == workflow, path, f"of workflow '{manifest.workflow}'")
        return manifest

    def history(self, workflow: str) -> list[str]:
        """Ids of the runs whose manifests are kept, oldest first."""
        return sorted(path.stem for path in (self.root / "manifests" / workflow).glob("*.json"))

    def workflows(self) -> list[str]:
        """Names of the workflows that have a manifest, live or kept."""
        live = {path.stem.removeprefix(LIVE_PREFIX) for path in self.root.glob(f"{LIVE_PREFIX}*.json")}
        return sorted(live | {path.name for path in (self.root / "manifests").glob("*") if path.is_dir()})

    def files(self, table: str) -> list[Snapshot]:
        """Every snapshot of the table that has a file, the largest first; ``rows`` is not known: 0."""
        paths = [path for path in (self.root / table).glob("*.parquet") if NAMED_BY_CONTENT.fullmatch(path.stem)]
        paths.sort(key=lambda path: path.stat().st_size, reverse=True)
        return [Snapshot(0, path.stem, (TableFile(f"{table}/{path.name}", 0),)) for path in paths]

    def forget(self, workflow: str, run_id: str) -> None:
        """Delete the manifest kept under the run's id."""
        (self.root / _kept_name(workflow, run_id)).unlink()

    def clear(self, workflow: str) -> None:
        """Write anew those of the workflow's live tables whose files still hold rows that are gone. Only for a caller
        who is alone here; files that no manifest names any more are left to a collection of garbage."""
        manifest = self.certain(workflow)
        cleared = replace(
            manifest,
            tables={name: self._files.cleared(table) for name, table in manifest.tables.items()},
            steps={
                id: replace(
                    record, outputs={name: self._files.cleared(table) for name, table in record.outputs.items()}
                )
                for id, record in manifest.steps.items()
            },
        )
        for record in cleared.steps.values():
            self.record(record)
        for name in [*(_kept_name(workflow, id) for id in self.history(workflow)[-1:]), _live_name(workflow)]:
            self._write_json(name, asdict(cleared))

    def sweep(self) -> None:
        """Remove what killed processes have left half written. Only for a caller who is alone here."""
        sweep_partials(self.root)

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        write_json(self.root / name, {**content, "schema_version": SCHEMA_VERSION})

    def _read(self, path: Path, made: Callable[[dict[str, Any]], Made]) -> Made:
        """Raises FileNotFoundError, DamagedError, and DataError for what a later version has written."""
        content = read_json(path)
        version = content.pop("schema_version", None)
        _require(version is None or isinstance(version, int), path, "of no known version")
        refuse_newer(version, str(path))
        try:
            return made(content)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DamagedError(path, f"of another version ({error})") from error


def _live_name(workflow: str) -> str:
    return f"{LIVE_PREFIX}{workflow}.json"


def _kept_name(workflow: str, run_id: str) -> str:
    return f"manifests/{workflow}/{run_id}.json"


def _manifest(content: dict[str, Any]) -> Manifest:
    return Manifest(
        content["workflow"],
        {name: snapshot_of(snapshot) for name, snapshot in content["tables"].items()},
        {name: _step_record(record) for name, record in content["steps"].items()},
    )


def _step_record(content: dict[str, Any]) -> StepRecord:
    outputs = {name: snapshot_of(snapshot) for name, snapshot in content["outputs"].items()}
    return StepRecord(**{**content, "outputs": outputs})


def snapshot_of(content: dict[str, Any]) -> Snapshot:
    """Raises ValueError for one that names a file which this store has not written."""
    if "path" in content:  # of a version before tables of several files
        snapshot = Snapshot(content["rows"], content["sha256"], (TableFile(content["path"], content["rows"]),))
    else:
        files = tuple(_table_file(place, file) for place, file in enumerate(content["files"]))
        snapshot = Snapshot(content["rows"], content["sha256"], files, tuple(content["order"]))
    if not snapshot.files or not all(map(FILE_OF_A_TABLE.fullmatch, snapshot.paths)):
        raise ValueError(f"no snapshot: {snapshot.paths}")
    return snapshot


def _table_file(place: int, content: dict[str, Any]) -> TableFile:
    """Before tables had buckets, the first file was the only one that was not added."""
    return TableFile(**{"added": place > 0, **content})


def _require(so: bool, path: Path, fact: str) -> None:
    if not so:
        raise DamagedError(path, fact)


def _state(name: str, path: Path) -> tuple[str, int, int, int]:
    """What changes when anything writes to the file."""
    state = path.stat()
    return name, state.st_size, state.st_mtime_ns, state.st_ctime_ns
