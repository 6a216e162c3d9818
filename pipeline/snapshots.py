"""Snapshots: immutable Parquet tables addressed by their content, and the records that point at them.

    <root>/<table>/<sha256>.parquet     a table
    <root>/steps/<fingerprint>.json     which snapshots a step wrote (the key to reuse)
    <root>/manifest-<workflow>.json     the live snapshot of each table
    <root>/manifests/<workflow>/<run_id>.json   the manifests that were live, each from the run that made it

Run ids sort by time, and a run that changed nothing leaves no manifest: what was live when a run ended is the
newest manifest up to its id. Every file comes to its name by fsync and rename, records after what they point
at: a crash at any instant leaves whole files only.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import DataError
from pipeline.files import PARTIAL, publish_file, temporary_file
from pipeline.schema_version import SCHEMA_VERSION, refuse_newer
from pipeline.schemas import WIDE

ROW_GROUP = 100_000
BATCH_ROWS = 20_000
LIVE_PREFIX = "manifest-"


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
    """``intact`` remembers the files this process has found whole, as (path, size, time of change)."""

    root: Path
    intact: set[tuple[str, int, int]] = field(default_factory=set, repr=False, compare=False)

    def write(self, name: str, table: pa.Table) -> Snapshot:
        """Write the table unless its content is there already. Raises DiskFullError, and leaves nothing."""
        folder = self.root / name
        with temporary_file(folder) as temporary:
            pq.write_table(table, temporary, compression="zstd", row_group_size=ROW_GROUP, store_schema=False)
            sha256 = _sha256(temporary)
            path = folder / f"{sha256}.parquet"
            if not path.exists():
                publish_file(temporary, path)
        return Snapshot(path.relative_to(self.root).as_posix(), table.num_rows, sha256)

    def read(self, snapshot: Snapshot) -> pd.DataFrame:
        """Raises DataError when the file is gone or damaged."""
        return self.table(snapshot).to_pandas()

    def table(self, snapshot: Snapshot, columns: list[str] | None = None) -> pa.Table:
        """As ``read``, in Arrow."""
        return read_parquet(self._whole(snapshot), columns)

    def batches(self, snapshot: Snapshot, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """As ``table``, some thousands of rows at a time."""
        with pq.ParquetFile(self._whole(snapshot), **WIDE) as file:
            yield from file.iter_batches(BATCH_ROWS, columns=columns)

    def columns(self, snapshot: Snapshot, names: list[str]) -> pd.DataFrame:
        """Some columns of a table, without a look at the rest."""
        return read_parquet(self.root / snapshot.path, names).to_pandas()

    def require(self, snapshot: Snapshot) -> None:
        """Raises DataError when the file is gone or damaged."""
        self._whole(snapshot)

    def _whole(self, snapshot: Snapshot) -> Path:
        """The table's file, found undamaged."""
        path = self.root / snapshot.path
        try:
            state = path.stat()
            seen = (snapshot.path, state.st_size, state.st_mtime_ns)
            if seen not in self.intact and _sha256(path) != snapshot.sha256:
                raise DataError(f"{path}: damaged; delete it and run the workflow again")
        except OSError as error:
            raise DataError(f"{path}: {error.strerror}; run the workflow again") from error
        self.intact.add(seen)
        return path

    def exists(self, snapshot: Snapshot) -> bool:
        return (self.root / snapshot.path).is_file()

    def record(self, record: StepRecord) -> None:
        self._write_json(f"steps/{record.fingerprint}.json", asdict(record))

    def lookup(self, fingerprint: str) -> StepRecord | None:
        """The record of this fingerprint if every snapshot it names is there."""
        content = self._read_json(f"steps/{fingerprint}.json")
        try:
            record = _step_record(content) if content else None
        except (KeyError, TypeError):  # written by another version: as if it were not there
            return None
        return record if record and all(map(self.exists, record.outputs.values())) else None

    def publish(self, manifest: Manifest, run_id: str) -> None:
        """Make it the live manifest of its workflow and keep it under the run's id, unless it is live already.

        The copy comes first: there is never a live manifest that its run's id does not lead to.
        """
        kept = self.history(manifest.workflow)
        if kept and manifest == self.manifest(manifest.workflow):
            return
        self._write_json(_kept_name(manifest.workflow, run_id), asdict(manifest))
        self._write_json(_live_name(manifest.workflow), asdict(manifest))

    def manifest(self, workflow: str, run_id: str = "") -> Manifest:
        """The workflow's live manifest, or the one kept under the run's id; empty if there is none."""
        name = _kept_name(workflow, run_id) if run_id else _live_name(workflow)
        content = self._read_json(name)
        try:
            return _manifest(content) if content else Manifest(workflow)
        except (KeyError, TypeError) as error:
            path = self.root / name
            raise DataError(f"{path}: of another version ({error}); run the workflow again to replace it") from error

    def history(self, workflow: str) -> list[str]:
        """Ids of the runs whose manifests are kept, oldest first."""
        return sorted(path.stem for path in (self.root / "manifests" / workflow).glob("*.json"))

    def workflows(self) -> list[str]:
        """Names of the workflows that have a manifest, live or kept."""
        live = {path.stem.removeprefix(LIVE_PREFIX) for path in self.root.glob(f"{LIVE_PREFIX}*.json")}
        return sorted(live | {path.name for path in (self.root / "manifests").glob("*") if path.is_dir()})

    def forget(self, workflow: str, run_id: str) -> None:
        """Delete the manifest kept under the run's id."""
        (self.root / _kept_name(workflow, run_id)).unlink()

    def sweep(self) -> None:
        """Remove what killed processes have left half written. Only for a caller who is alone here."""
        for partial in self.root.rglob(f".*{PARTIAL}"):
            partial.unlink(missing_ok=True)

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        path = self.root / name
        with temporary_file(path.parent) as temporary:
            marked = {**content, "schema_version": SCHEMA_VERSION}
            text = json.dumps(marked, indent=1, sort_keys=True, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")
            publish_file(temporary, path)

    def _read_json(self, name: str) -> dict[str, Any] | None:
        path = self.root / name
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise DataError(f"{path}: not readable ({error}); delete it and run the workflow again") from error
        refuse_newer(content.pop("schema_version", None), str(path))
        return content


def read_parquet(path: Path, columns: list[str] | None = None) -> pa.Table:
    return pq.read_table(path, columns=columns, **WIDE)


def _live_name(workflow: str) -> str:
    return f"{LIVE_PREFIX}{workflow}.json"


def _kept_name(workflow: str, run_id: str) -> str:
    return f"manifests/{workflow}/{run_id}.json"


def _manifest(content: dict[str, Any]) -> Manifest:
    return Manifest(
        content["workflow"],
        {name: Snapshot(**snapshot) for name, snapshot in content["tables"].items()},
        {name: _step_record(record) for name, record in content["steps"].items()},
    )


def _step_record(content: dict[str, Any]) -> StepRecord:
    outputs = {name: Snapshot(**snapshot) for name, snapshot in content["outputs"].items()}
    return StepRecord(**{**content, "outputs": outputs})


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
