"""Snapshots: immutable Parquet tables addressed by their content, and the records that point at them.

    <root>/<table>/<sha256>.parquet     a table
    <root>/steps/<fingerprint>.json     which snapshots a step wrote (the key to reuse)
    <root>/manifest-<workflow>.json     the live snapshot of each table
    <root>/manifests/<workflow>/<run_id>.json   the manifests that were live, each from the run that made it

Run ids sort by time, and a run that changed nothing leaves no manifest: what was live when a run ended is the
newest manifest up to its id. Every file comes to its name by fsync and rename, records after what they point
at: a crash at any instant leaves whole files only. One that something else has damaged counts as missing in a run,
which makes it again; whoever else reads it gets a DataError.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.contract.cells import as_frame
from pipeline.contract.schemas import SCHEMA_VERSION, WIDE, refuse_newer
from pipeline.errors import DamagedError, DataError
from pipeline.files import publish_file, read_json, sha256_of, sweep_partials, tell, temporary_file, write_json

ROW_GROUP = 100_000
BATCH_ROWS = 20_000
READ_AT_ONCE = 2**20
LIVE_PREFIX = "manifest-"
NAMED_BY_CONTENT = re.compile(r"[0-9a-f]{64}")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Snapshot:
    """``path`` is relative to the snapshots folder; ``sha256`` is over the file's bytes."""

    path: str
    rows: int
    sha256: str


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
    """``intact`` remembers the files this process has found whole, as (path, size, times of change)."""

    root: Path
    intact: set[tuple[str, int, int, int]] = field(default_factory=set, repr=False, compare=False)

    def write(self, name: str, table: pa.Table) -> Snapshot:
        """Write the table unless its content is there already. Raises DiskFullError, and leaves nothing."""
        folder = self.root / name
        with temporary_file(folder) as temporary:
            pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP, store_schema=False)
            sha256 = sha256_of(temporary)
            path = folder / f"{sha256}.parquet"
            snapshot = Snapshot(path.relative_to(self.root).as_posix(), table.num_rows, sha256)
            if not path.exists() or not self.exists(snapshot):
                publish_file(temporary, path)
                self.intact.add(_state(snapshot, path))
        return snapshot

    def read(self, snapshot: Snapshot, columns: list[str] | None = None) -> pd.DataFrame:
        """The table, or some columns of it without a look at the rest. Raises DataError when the file is gone or
        damaged."""
        return as_frame(self.table(snapshot, columns))

    def table(self, snapshot: Snapshot, columns: list[str] | None = None) -> pa.Table:
        """As ``read``, in Arrow."""
        return read_parquet(self._whole(snapshot), columns)

    def columns(self, snapshot: Snapshot) -> list[str]:
        """Raises DataError when the file is gone or damaged."""
        return pq.read_schema(self._whole(snapshot)).names

    def batches(self, snapshot: Snapshot, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """As ``table``, some thousands of rows at a time; no more of the file is held than these are read of."""
        with pq.ParquetFile(self._whole(snapshot), pre_buffer=False, buffer_size=READ_AT_ONCE, **WIDE) as file:
            yield from file.iter_batches(BATCH_ROWS, columns=columns)

    def require(self, snapshot: Snapshot) -> None:
        """Raises DataError when the file is gone or damaged."""
        self._whole(snapshot)

    def _whole(self, snapshot: Snapshot) -> Path:
        """The table's file, found undamaged: by its hash, once for each state of the file that this process meets."""
        path = self.root / snapshot.path
        try:
            seen = _state(snapshot, path)
            if seen not in self.intact and sha256_of(path) != snapshot.sha256:
                raise DamagedError(path, "damaged")
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}; run the workflow again") from error
        self.intact.add(seen)
        return path

    def exists(self, snapshot: Snapshot) -> bool:
        """Whether the table can be read. A damaged one is told: for a run it is not there."""
        try:
            self._whole(snapshot)
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
        return [Snapshot(f"{table}/{path.name}", 0, path.stem) for path in paths]

    def forget(self, workflow: str, run_id: str) -> None:
        """Delete the manifest kept under the run's id."""
        (self.root / _kept_name(workflow, run_id)).unlink()

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


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    return pq.read_table(path, columns=columns, **WIDE)


def _live_name(workflow: str) -> str:
    return f"{LIVE_PREFIX}{workflow}.json"


def _kept_name(workflow: str, run_id: str) -> str:
    return f"manifests/{workflow}/{run_id}.json"


def _manifest(content: dict[str, Any]) -> Manifest:
    return Manifest(
        content["workflow"],
        {name: _snapshot(snapshot) for name, snapshot in content["tables"].items()},
        {name: _step_record(record) for name, record in content["steps"].items()},
    )


def _step_record(content: dict[str, Any]) -> StepRecord:
    outputs = {name: _snapshot(snapshot) for name, snapshot in content["outputs"].items()}
    return StepRecord(**{**content, "outputs": outputs})


def _snapshot(content: dict[str, Any]) -> Snapshot:
    """Raises ValueError for one that names a file which this store has not written."""
    snapshot = Snapshot(**content)
    folder, *name = Path(snapshot.path).parts
    if name != [f"{snapshot.sha256}.parquet"] or folder == ".." or not NAMED_BY_CONTENT.fullmatch(snapshot.sha256):
        raise ValueError(f"no snapshot: {snapshot.path}")
    return snapshot


def _require(so: bool, path: Path, fact: str) -> None:
    if not so:
        raise DamagedError(path, fact)


def _state(snapshot: Snapshot, path: Path) -> tuple[str, int, int, int]:
    """What changes when anything writes to the file."""
    state = path.stat()
    return snapshot.path, state.st_size, state.st_mtime_ns, state.st_ctime_ns
