"""Snapshots: immutable Parquet tables addressed by their content, and the records that point at
them.

    <root>/<table>/<sha256>.parquet     a table, or some of its rows (snapshots/tables.py)
    <root>/steps/<fingerprint>.json     which snapshots a step wrote (the key to reuse)
    <root>/steps/unfinished/<task>.json which files a task of a step wrote that is not done (engine/tasks.py); beside
                                        them what the processes share that do tasks
    <root>/manifest-<workflow>.json     the live snapshot of each table
    <root>/manifests/<workflow>/<run_id>.json   the manifests that were live, each from the run that made it

Run ids sort by time, and a run that changed nothing leaves no manifest: what was live when a run
ended is the newest manifest up to its id. Every file comes to its name by fsync and rename, records
after what they point at: a crash at any instant leaves whole files only. One that something else
has damaged counts as missing in a run, which makes it again; whoever else reads it gets a
DataError.

All of it is in a folder (snapshots/folder.py), or in an object store that a folder mirrors
(snapshots/mirror.py): then who writes is ``alone``.
"""  # noqa: E501

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from pipeline.contract.cells import as_frame
from pipeline.contract.schema_version import SCHEMA_VERSION, refuse_newer
from pipeline.contract.views import split_name
from pipeline.errors import DamagedError, DataError
from pipeline.files import tell
from pipeline.snapshots.folder import UNFINISHED, Folder, Kept
from pipeline.snapshots.manifests import (
    FILE_OF_A_TABLE,
    Manifest,
    StepRecord,
    manifest_from,
    step_record_from,
    view_of,
)
from pipeline.snapshots.tables import GONE_FOLDER, Snapshot, TableFile, TableFiles

if TYPE_CHECKING:
    from pipeline.snapshots.mirror import Mirror

LIVE_PREFIX = "manifest-"
KEPT_FOLDER = "manifests"
OWN_FILE = re.compile(rf"{FILE_OF_A_TABLE.pattern}|steps/[0-9a-f]{{64}}\.json")
LIVE_FILE = re.compile(rf"{LIVE_PREFIX}[^/]+\.json")
Made = TypeVar("Made")


@dataclass(frozen=True)
class SnapshotStore:
    """``root``: a folder on disk; ``mirror``: the same where it mirrors an object store, see
    ``open_snapshots``. ``beneath``: where files of tables are read that are not here: what is only
    tried is written beside what is kept, not into it."""

    root: Path
    mirror: "Mirror | None" = None
    beneath: "SnapshotStore | None" = None

    @cached_property
    def folder(self) -> Folder:
        return self.mirror or Folder(self.root)

    def alone(self, place: str) -> AbstractContextManager[None]:
        """For who writes more than tasks; ``place``: where that is, for people. Raises LockedError
        where another client writes into the same object store; of a folder the caller sees to that.

        What is written raises LeaseLostError once another client has taken it over."""
        return self.folder.alone(place)

    def look_anew(self) -> None:
        """For a process that has been here since before the present run: what it knew may not be so
        any more."""
        self.folder.look_anew()

    def told(self, name: str) -> str:
        """Where a file is, for people."""
        return self.folder.told(name)

    def write(
        self, name: str, table: pa.Table, order: Sequence[str] = (), before: Snapshot | None = None
    ) -> Snapshot:
        """Write what of the table is not there already. ``order``: what fixes the order of its
        rows; ``before``: the table as it was, of which it may share files. Raises DiskFullError,
        and leaves nothing."""
        known = before if before is not None and self.exists(before) else None
        return self._files.write(name, table, order, known)

    def replaced(
        self, name: str, before: Snapshot, column: str, values: pa.Array, rows: pa.Table
    ) -> Snapshot:
        """The table with ``rows`` in place of those whose ``column`` has one of the values; it must
        have an order."""
        return self._files.replaced(name, before, column, values, rows)

    def write_bucket(
        self, name: str, rows: pa.Table, order: Sequence[str], bucket: str, naming: str
    ) -> list[TableFile]:
        """Some rows of a table, those of a bucket of groups, which the column ``naming`` names."""
        return self._files.write_bucket(name, rows, order, bucket, naming)

    def joined(
        self,
        name: str,
        files: Sequence[TableFile],
        schema: pa.Schema,
        order: Sequence[str],
        before: Snapshot | None,
    ) -> Snapshot:
        """The table whose rows are in these files, of tasks that are noted, or ``before`` where it
        has the same."""
        self.folder.kept_by_others(file.path for file in files)
        self.folder.bring(file.path for file in files)
        known = before if before is not None and self.exists(before) else None
        return self._files.joined(name, files, schema, order, known)

    def keep(self, tables: Iterable[Snapshot]) -> None:
        """See that they are found wherever the snapshots are, also before a record names them."""
        self.folder.keep(path for table in tables for path in table.paths)

    def note_task(self, task: str, files: Mapping[str, Sequence[TableFile]]) -> None:
        """Remember the files of a task, by the names of its outputs, until its step has a
        record."""
        tables = {name: list(map(asdict, some)) for name, some in files.items()}
        self.folder.keep(file.path for some in files.values() for file in some)
        self.folder.note(f"{UNFINISHED}/{task}.json", _versioned({"task": task, "files": tables}))

    def noted_tasks(self, tasks: Collection[str]) -> dict[str, dict[str, list[TableFile]]]:
        """What those of these tasks have written that are done, by their names: if it is all there
        and undamaged."""
        there = {PurePosixPath(kept.name).stem for kept in self.folder.listed(UNFINISHED)}
        found = {task: self._noted_task(task) for task in tasks if task in there}
        noted = {task: files for task, files in found.items() if files is not None}
        paths = {
            task: {file.path for some in files.values() for file in some}
            for task, files in noted.items()
        }
        lacking = self.folder.lacking(chain.from_iterable(paths.values()))
        return {task: files for task, files in noted.items() if not paths[task] & lacking}

    def _noted_task(self, task: str) -> dict[str, list[TableFile]] | None:
        try:
            content = self._read(f"{UNFINISHED}/{task}.json", dict)
        except (FileNotFoundError, DataError):
            return None
        return {
            name: [TableFile(**file) for file in some] for name, some in content["files"].items()
        }

    def share(self, files: Mapping[str, Path]) -> None:
        """Make these files of this folder those that every process finds by these names, wherever
        it is, until they are taken back or their step has a record. Of a crash nobody will want
        them."""
        self.folder.share({f"{UNFINISHED}/{name}": file for name, file in files.items()})

    def shared(self, name: str) -> Path:
        """Raises FileNotFoundError, at the latest where it is read."""
        return self.folder.shared(f"{UNFINISHED}/{name}")

    def unshare(self, names: Collection[str]) -> None:
        """Only for who has shared them."""
        self.folder.delete([f"{UNFINISHED}/{name}" for name in names])

    def take_back(self, names: Collection[str]) -> None:
        """As ``unshare``, for any process that has shared something by names that nobody else
        has."""
        self.folder.take_back([f"{UNFINISHED}/{name}" for name in names])

    def forget_tasks(self) -> None:
        """Only for a caller who is alone here."""
        self.folder.clear(UNFINISHED)

    def ordered(self, name: str, snapshot: Snapshot, order: Sequence[str]) -> Snapshot:
        """The table as one whose rows can be replaced, which those of an earlier version are
        not."""
        return self._files.ordered(name, snapshot, order)

    def read(self, snapshot: Snapshot, columns: list[str] | None = None) -> pd.DataFrame:
        """The table, or some columns of it without a look at the rest. Raises DataError when a file
        is gone or damaged."""
        return as_frame(self.table(snapshot, columns))

    def table(self, snapshot: Snapshot, columns: list[str] | None = None) -> pa.Table:
        """As ``read``, in Arrow."""
        self._bring(snapshot)
        return self._files.table(snapshot, columns)

    def select(
        self,
        snapshot: Snapshot,
        names: Collection[str],
        values: pa.Array,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """The rows that have one of the values in one of the columns ``names``, in the table's
        order."""
        self._bring(snapshot)
        return self._files.select(snapshot, names, values, columns)

    def selected(
        self, snapshot: Snapshot, names: Collection[str], values: pa.Array, columns: Sequence[str]
    ) -> pa.Table:
        """As ``select``, in no order yet, and with what ``in_order`` needs."""
        self._bring(snapshot)
        return self._files.selected(snapshot, names, values, columns)

    def goes_by(self, snapshot: Snapshot, column: str, bits: int) -> bool:
        """Whether the buckets of this column's hash, of so many bits, are those of the table's
        files, or nearly."""
        return self._files.goes_by(snapshot, column, bits)

    def bucket_sizes(self, snapshot: Snapshot, bits: int) -> np.ndarray:
        """How many rows are in each bucket of so many bits of the key's hash."""
        self._bring(snapshot)
        return self._files.bucket_sizes(snapshot, bits)

    def bucket(self, snapshot: Snapshot, bucket: str, columns: Sequence[str]) -> pa.Table:
        """The rows whose keys have hashes that begin so, in the table's order."""
        return self._files.bucket(snapshot, bucket, columns)

    def difference(
        self, before: Snapshot, now: Snapshot, columns: Sequence[str] | None = None
    ) -> tuple[pa.Table, pa.Table]:
        """The rows that ``before`` alone has, and those that ``now`` alone has, in no order: a row
        that changed is in both. Few files are read where they share most."""
        return self._files.difference(before, now, columns)

    def columns(self, snapshot: Snapshot) -> list[str]:
        """Raises DataError when a file is gone or damaged."""
        return self._files.columns(snapshot)

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Raises DataError when a file is gone or damaged."""
        return self._files.schema(snapshot)

    def batches(
        self, snapshot: Snapshot, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """As ``table``, some thousands of rows at a time."""
        self._bring(snapshot)
        return self._files.batches(snapshot, columns)

    def first(self, snapshot: Snapshot, columns: Sequence[str]) -> pa.Table:
        """Its first row, without a look at the rest; none of an empty table."""
        self._bring(snapshot)
        return self._files.first(snapshot, columns)

    def unordered(
        self, snapshot: Snapshot, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """As ``batches``, file by file: for those to whom the order means nothing."""
        self._bring(snapshot)
        return self._files.unordered(snapshot, columns)

    def require(self, snapshot: Snapshot) -> None:
        """Raises DataError when a file is gone or damaged."""
        self.require_files(snapshot.paths)

    def require_files(self, paths: Iterable[str]) -> None:
        """As ``require``, of files by their paths in the snapshots."""
        ours, others = self._ours_and_others(paths)
        self.folder.require(ours)
        if self.beneath and others:
            self.beneath.require_files(others)

    @property
    def _files(self) -> TableFiles:
        return TableFiles(self.root, self._whole, made=self.folder.made)

    def _bring(self, snapshot: Snapshot) -> None:
        """All of a table will be read."""
        ours, others = self._ours_and_others(snapshot.paths)
        self.folder.bring(ours)
        if self.beneath and others:
            self.beneath.folder.bring(others)

    def _ours_and_others(self, paths: Iterable[str]) -> tuple[list[str], list[str]]:
        asked = list(paths)
        others = [path for path in asked if not self.folder.is_here(path)] if self.beneath else []
        return [path for path in asked if path not in others], others

    def _whole(self, name: str) -> Path:
        """A table's file, found undamaged. Raises DataError, DamagedError."""
        if self.beneath and not self.folder.is_here(name):
            return self.beneath._whole(name)
        return self.folder.whole(name)

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
        self.keep(record.outputs.values())
        self._write_json(f"steps/{record.fingerprint}.json", asdict(record))

    def lookup(self, fingerprint: str) -> StepRecord | None:
        """The record of this fingerprint if every snapshot it names is there and undamaged. A
        record that cannot be read, or that another version has written, is as if it were not
        there."""
        name = f"steps/{fingerprint}.json"
        try:
            record = self._read(name, step_record_from)
            _require(record.fingerprint == fingerprint, self.told(name), "of another step")
        except FileNotFoundError:
            return None
        except DamagedError as error:
            tell(f"{self.told(name)}: {error.fact}; its step runs again")
            return None
        return record if all(map(self.exists, record.outputs.values())) else None

    def publish(self, manifest: Manifest, run_id: str) -> None:
        """Make it the live manifest of its workflow and keep it under the run's id, unless it is
        live already.

        The copy comes first: there is never a live manifest that its run's id does not lead to.
        """
        self.folder.keep(path for table in manifest.tables.values() for path in table.paths)
        newest = self.history(manifest.workflow)[-1:]
        kept = newest and self._found(manifest.workflow, _kept_name(manifest.workflow, newest[0]))
        if kept != manifest:
            self._write_json(_kept_name(manifest.workflow, run_id), asdict(manifest))
        if (
            kept != manifest
            or self._found(manifest.workflow, _live_name(manifest.workflow)) != manifest
        ):
            self._write_json(_live_name(manifest.workflow), asdict(manifest))

    def manifest(self, workflow: str, run_id: str = "") -> Manifest:
        """The workflow's live manifest, or the one kept under the run's id; empty if there is none.
        Where the live one cannot be read it is the newest that is kept and can be. Of a view, as
        ``index@public``, what the manifest of its workflow has of it.

        Raises DamagedError for one kept under the run's id that cannot be read."""
        base, view = split_name(workflow)
        if view:
            return view_of(self.manifest(base, run_id), view)
        if run_id:
            try:
                return self._manifest(workflow, _kept_name(workflow, run_id))
            except FileNotFoundError:
                return Manifest(workflow)
            except DamagedError as error:
                raise DamagedError(error.path, error.fact, "choose another run") from error
        names = [
            _live_name(workflow),
            *(_kept_name(workflow, id) for id in reversed(self.history(workflow))),
        ]
        found = next(filter(None, (self._found(workflow, name) for name in names)), None)
        return found or Manifest(workflow)

    def certain(self, workflow: str) -> Manifest:
        """As ``manifest``, but no older one: where the live one cannot be read, its copy. Raises
        DamagedError where that cannot be read either."""
        base, view = split_name(workflow)
        if view:
            return view_of(self.certain(base), view)
        damaged = None
        for name in [
            _live_name(workflow),
            *(_kept_name(workflow, id) for id in self.history(workflow)[-1:]),
        ]:
            try:
                return self._manifest(workflow, name)
            except FileNotFoundError:
                continue
            except DamagedError as error:
                damaged = error
        if damaged:
            raise DamagedError(
                damaged.path, damaged.fact, f"run 'graphmill index {workflow}' first"
            )
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
            tell(
                f"{error.path}: {error.fact}; it is passed over, and the newest whole manifest"
                " taken"
            )
            return None

    def _manifest(self, workflow: str, name: str) -> Manifest:
        manifest = self._read(name, manifest_from)
        _require(
            manifest.workflow == workflow, self.told(name), f"of workflow '{manifest.workflow}'"
        )
        return manifest

    def history(self, workflow: str) -> list[str]:
        """Ids of the runs whose manifests are kept, oldest first."""
        places = [
            PurePosixPath(kept.name) for kept in self.folder.listed(f"{KEPT_FOLDER}/{workflow}")
        ]
        return sorted(place.stem for place in places if place.suffix == ".json")

    def workflows(self) -> list[str]:
        """Names of the workflows that have a manifest, live or kept."""
        live = {
            name[len(LIVE_PREFIX) : -len(".json")]
            for name in self.folder.top()
            if LIVE_FILE.fullmatch(name)
        }
        return sorted(
            live
            | {PurePosixPath(kept.name).parent.name for kept in self.folder.listed(KEPT_FOLDER)}
        )

    def files(self, table: str) -> list[Snapshot]:
        """Every snapshot of the table that has a file, the largest first; ``rows`` is not known:
        0."""
        there = [kept for kept in self.folder.listed(table) if _table_of(kept) == table]
        there.sort(key=lambda kept: kept.bytes, reverse=True)
        return [
            Snapshot(0, PurePosixPath(kept.name).stem, (TableFile(kept.name, 0),)) for kept in there
        ]

    def all_files(self) -> list[Kept]:
        """Every file of a table, and every record of a step; others are somebody's."""
        return [kept for kept in self.folder.listed() if OWN_FILE.fullmatch(kept.name)]

    def columns_of_files(self, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Of tables' files, by their paths, the names of their columns; of those that can be
        read."""
        return self.folder.columns(names)

    def delete_files(self, names: Sequence[str]) -> None:
        """By their paths; only for a caller who is alone here."""
        self.folder.delete(names)

    def forget(self, workflow: str, run_id: str) -> None:
        """Delete the manifest kept under the run's id."""
        self.folder.delete([_kept_name(workflow, run_id)])

    def clear(self, workflow: str) -> None:
        """Write anew those of the workflow's live tables whose files still hold rows that are gone.
        Only for a caller who is alone here; files that no manifest names any more are left to a
        collection of garbage."""
        manifest = self.certain(workflow)
        cleared = replace(
            manifest,
            tables={name: self._files.cleared(table) for name, table in manifest.tables.items()},
            steps={
                id: replace(
                    record,
                    outputs={
                        name: self._files.cleared(table) for name, table in record.outputs.items()
                    },
                )
                for id, record in manifest.steps.items()
            },
        )
        for record in cleared.steps.values():
            self.record(record)
        for name in [
            *(_kept_name(workflow, id) for id in self.history(workflow)[-1:]),
            _live_name(workflow),
        ]:
            self._write_json(name, asdict(cleared))

    def sweep(self) -> None:
        """Remove what killed processes have left half written. Only for a caller who is alone
        here."""
        self.folder.sweep()

    def _write_json(self, name: str, content: Mapping[str, Any]) -> None:
        self.folder.write(name, _versioned(content))

    def _read(self, name: str, made: Callable[[dict[str, Any]], Made]) -> Made:
        """Raises FileNotFoundError, DamagedError, and DataError for what a later version has
        written."""
        content, path = self.folder.read(name), self.told(name)
        version = content.pop("schema_version", None)
        _require(version is None or isinstance(version, int), path, "of no known version")
        refuse_newer(version, path)
        try:
            return made(content)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise DamagedError(path, f"of another version ({error})") from error


def open_snapshots(
    address: str, folder: Path, environment: Mapping[str, str] = os.environ
) -> SnapshotStore:
    """``address``: the URL of an object store, which ``folder`` is then the mirror of; any process
    opens the same ones so, with a folder and the keys in an environment of its own."""
    from pipeline.snapshots.mirror import Mirror
    from pipeline.snapshots.objects import Objects

    return SnapshotStore(folder, Mirror(folder, objects=Objects(address, environment)))


def _versioned(content: Mapping[str, Any]) -> dict[str, Any]:
    return {**content, "schema_version": SCHEMA_VERSION}


def _table_of(kept: Kept) -> str:
    """Whose rows the file holds; "" of other files."""
    place = PurePosixPath(kept.name)
    return (
        place.parent.as_posix()
        if FILE_OF_A_TABLE.fullmatch(kept.name) and place.parent.name != GONE_FOLDER
        else ""
    )


def _live_name(workflow: str) -> str:
    return f"{LIVE_PREFIX}{workflow}.json"


def _kept_name(workflow: str, run_id: str) -> str:
    return f"{KEPT_FOLDER}/{workflow}/{run_id}.json"


def _require(so: bool, path: str, fact: str) -> None:
    if not so:
        raise DamagedError(path, fact)
