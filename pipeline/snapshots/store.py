"""Snapshots: immutable tables in Parquet that are identified by their content, and their records.

    <root>/<table>/<sha256>.parquet     a table, or some of its rows (snapshots/tables.py)
    <root>/steps/<fingerprint>.json     the snapshots that a step wrote; the key for reuse
    <root>/steps/unfinished/<task>.json the files that a task wrote whose step is unfinished, and
                                        files that its processes share (snapshots/tasks.py)
    <root>/manifest-<workflow>.json     the live snapshot of each table
    <root>/manifests/<workflow>/<run_id>.json   the manifests that were live, one for each run that
                                        changed something

Run ids sort by time, and a run that changed nothing leaves no manifest. So the tables that were
live when a run ended are in the newest manifest up to its id. Every file gets its name by fsync
and rename, and records are written after the files that they name: a crash at any instant leaves
only whole files. A file that something else has damaged counts as missing in a run, which writes it
again; any other reader gets a DataError.

All of it is in a folder (snapshots/folder.py), or in an object store that a folder mirrors
(snapshots/mirror.py). In an object store the writer must hold a lease: ``folder.alone``.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from pipeline.contract.views import split_name
from pipeline.errors import DamagedError
from pipeline.files import tell
from pipeline.snapshots.folder import UNFINISHED, Folder, Kept
from pipeline.snapshots.manifests import (
    Manifest,
    StepRecord,
    manifest_from,
    step_record_from,
    view_of,
)
from pipeline.snapshots.tables import FILE_OF_A_TABLE, Snapshot, TableStore
from pipeline.snapshots.tasks import TaskNotes
from pipeline.snapshots.versioned_json import read_versioned, require_fact, with_version

if TYPE_CHECKING:
    from pipeline.snapshots.mirror import Mirror

__all__ = [
    "UNFINISHED",
    "Manifest",
    "Snapshot",
    "SnapshotStore",
    "StepRecord",
    "open_snapshots",
]

LIVE_PREFIX = "manifest-"
KEPT_FOLDER = "manifests"
OWN_FILE = re.compile(rf"{FILE_OF_A_TABLE.pattern}|steps/[0-9a-f]{{64}}\.json")
"""The path of a file of a table, or of the record of a step."""
LIVE_FILE = re.compile(rf"{LIVE_PREFIX}[^/]+\.json")


@dataclass(frozen=True)
class SnapshotStore:
    """The snapshots below one folder: records and manifests here, the rest in its three parts.

    - ``tables`` reads and writes tables.
    - ``tasks`` keeps notes on the finished tasks of an unfinished step.
    - ``folder`` is where all files are; it also locks them for a writer.

    ``root`` is the folder on disk. ``mirror`` is the same folder if it mirrors an object store; see
    `open_snapshots`. Tables that are not in this store are read from ``beneath``: a dry run writes
    to a temporary store above the real one.
    """

    root: Path
    mirror: "Mirror | None" = None
    beneath: "SnapshotStore | None" = None

    @cached_property
    def folder(self) -> Folder:
        return self.mirror or Folder(self.root)

    @cached_property
    def tables(self) -> TableStore:
        return TableStore(self.folder, self.beneath.tables if self.beneath else None)

    @cached_property
    def tasks(self) -> TaskNotes:
        return TaskNotes(self.folder)

    def save_record(self, record: StepRecord) -> None:
        """Write the record of a step, by its fingerprint."""
        self.tables.keep(record.outputs.values())
        self.folder.write(f"steps/{record.fingerprint}.json", with_version(asdict(record)))

    def find_record(self, fingerprint: str) -> StepRecord | None:
        """Return the record of this fingerprint if every snapshot it names is there and undamaged.

        A record that is damaged, or written by another version, counts as missing.
        """
        name = f"steps/{fingerprint}.json"
        path = self.folder.describe(name)
        try:
            record = read_versioned(self.folder, name, step_record_from)
            require_fact(record.fingerprint == fingerprint, path, "of another step")
        except FileNotFoundError:
            return None
        except DamagedError as error:
            tell(f"{path}: {error.fact}; its step runs again")
            return None
        is_complete = all(map(self.tables.exists, record.outputs.values()))
        return record if is_complete else None

    def publish(self, manifest: Manifest, run_id: str) -> None:
        """Make this the live manifest of its workflow and keep a copy under the run's id.

        Do nothing if it is live already. The copy is written first, so that there is never a live
        manifest without a copy under the id of its run.
        """
        workflow = manifest.workflow
        self.tables.keep(manifest.tables.values())
        newest_copy = None
        for newest_id in self.history(workflow)[-1:]:
            newest_copy = self._try_manifest(workflow, _kept_name(workflow, newest_id))
        content = with_version(asdict(manifest))
        live_name = _live_name(workflow)
        if newest_copy != manifest:
            self.folder.write(_kept_name(workflow, run_id), content)
            self.folder.write(live_name, content)
        elif self._try_manifest(workflow, live_name) != manifest:
            self.folder.write(live_name, content)

    def manifest(self, workflow: str, run_id: str = "") -> Manifest:
        """Return the workflow's live manifest, or the one kept under the run's id.

        It is empty if there is none. If the live one cannot be read, the newest copy that can be
        read takes its place. For a view, such as ``index@public``, return its part of the manifest
        of its workflow.

        Raises DamagedError if the manifest kept under the run's id cannot be read.
        """
        base, view = split_name(workflow)
        if view:
            return view_of(self.manifest(base, run_id), view)
        if run_id:
            try:
                return self._read_manifest(workflow, _kept_name(workflow, run_id))
            except FileNotFoundError:
                return Manifest(workflow)
            except DamagedError as error:
                raise DamagedError(error.path, error.fact, "choose another run") from error
        newest_first = reversed(self.history(workflow))
        names = [_live_name(workflow), *(_kept_name(workflow, id) for id in newest_first)]
        for name in names:
            if found := self._try_manifest(workflow, name):
                return found
        return Manifest(workflow)

    def live_manifest(self, workflow: str) -> Manifest:
        """Return the workflow's live manifest, or its copy if the live one cannot be read.

        Unlike `manifest` this never returns an older one. Raises DamagedError if neither can be
        read.
        """
        base, view = split_name(workflow)
        if view:
            return view_of(self.live_manifest(base), view)
        damaged = None
        for name in self._live_names(workflow):
            try:
                return self._read_manifest(workflow, name)
            except FileNotFoundError:
                continue
            except DamagedError as error:
                damaged = error
        if damaged:
            raise DamagedError(
                damaged.path, damaged.fact, f"run 'graphmill index {workflow}' first"
            )
        return Manifest(workflow)

    def _live_names(self, workflow: str) -> list[str]:
        """Return the name of the live manifest, and that of its copy under a run's id."""
        newest = self.history(workflow)[-1:]
        return [_live_name(workflow), *(_kept_name(workflow, id) for id in newest)]

    def is_lost(self, workflow: str) -> bool:
        """Return whether the workflow has manifests, but none that can be read."""
        return workflow in self.workflows() and not self.manifest(workflow).tables

    def kept_manifests(self, workflow: str, run_ids: Iterable[str]) -> list[Manifest]:
        """Return the manifests kept under these ids; print a warning for each damaged one."""
        found = (self._try_manifest(workflow, _kept_name(workflow, id)) for id in run_ids)
        return [manifest for manifest in found if manifest]

    def _try_manifest(self, workflow: str, name: str) -> Manifest | None:
        """Return a manifest, or None if it is missing or damaged; print a warning if damaged."""
        try:
            return self._read_manifest(workflow, name)
        except FileNotFoundError:
            return None
        except DamagedError as error:
            tell(f"{error.path}: {error.fact}; it is passed over")
            return None

    def _read_manifest(self, workflow: str, name: str) -> Manifest:
        manifest = read_versioned(self.folder, name, manifest_from)
        fault = f"of workflow '{manifest.workflow}'"
        require_fact(manifest.workflow == workflow, self.folder.describe(name), fault)
        return manifest

    def schema_version(self, workflow: str) -> int | None:
        """Return the version of the schema of the workflow's live manifest; None if it has none."""
        try:
            version = self.folder.read(_live_name(workflow)).get("schema_version")
        except (FileNotFoundError, DamagedError):
            return None
        return version if isinstance(version, int) else None

    def history(self, workflow: str) -> list[str]:
        """Return the ids of the runs whose manifests are kept, oldest first."""
        ids: list[str] = []
        for kept in self.folder.listed(f"{KEPT_FOLDER}/{workflow}"):
            path = PurePosixPath(kept.name)
            if path.suffix == ".json":
                ids.append(path.stem)
        return sorted(ids)

    def workflows(self) -> list[str]:
        """Return the names of the workflows that have a manifest, live or kept, sorted."""
        names: set[str] = set()
        for name in self.folder.top():
            if LIVE_FILE.fullmatch(name):
                names.add(name.removeprefix(LIVE_PREFIX).removesuffix(".json"))
        for kept in self.folder.listed(KEPT_FOLDER):
            # Each workflow has a folder of its own for the copies of its manifests.
            folder = PurePosixPath(kept.name).parent
            names.add(folder.name)
        return sorted(names)

    def advise_without_tables(self, workflow: str, naming: str) -> str:
        """Return what to do where a workflow has no tables: run it, or name one that has some.

        ``naming``: what stands before the name of the other workflow in a command.
        """
        run = f"run 'graphmill index {workflow}' first"
        others = [f"{naming} {name}" for name in self.workflows() if name != workflow]
        return f"{run}, or name one that has tables: {' or '.join(others)}" if others else run

    def all_files(self) -> list[Kept]:
        """Return every file of a table and every record of a step; other files are not ours."""
        return [kept for kept in self.folder.listed() if OWN_FILE.fullmatch(kept.name)]

    def delete_manifest(self, workflow: str, run_id: str) -> None:
        """Delete the manifest kept under the run's id."""
        self.folder.delete([_kept_name(workflow, run_id)])

    def compact(self, workflow: str) -> None:
        """Rewrite the files of the workflow's live tables that hold deleted rows.

        The caller must hold the folder alone. Files that no manifest names any more stay until the
        next garbage collection.
        """
        manifest = self.live_manifest(workflow)
        tables = {
            name: self.tables.drop_gone_rows(table) for name, table in manifest.tables.items()
        }
        steps: dict[str, StepRecord] = {}
        for step, record in manifest.steps.items():
            outputs = {
                name: self.tables.drop_gone_rows(table) for name, table in record.outputs.items()
            }
            steps[step] = replace(record, outputs=outputs)
        for record in steps.values():
            self.save_record(record)
        content = with_version(asdict(replace(manifest, tables=tables, steps=steps)))
        # The copy comes before the live manifest, as in `publish`.
        for name in reversed(self._live_names(workflow)):
            self.folder.write(name, content)


def open_snapshots(
    address: str, folder: Path, environment: Mapping[str, str] = os.environ
) -> SnapshotStore:
    """Open the snapshots in an object store.

    ``address`` is its URL, ``folder`` the folder that mirrors it. The keys are in ``environment``.
    Each process opens the store with a folder and an environment of its own.
    """
    from pipeline.snapshots.mirror import Mirror
    from pipeline.snapshots.objects import Objects

    return SnapshotStore(folder, Mirror(folder, objects=Objects(address, environment)))


def _live_name(workflow: str) -> str:
    return f"{LIVE_PREFIX}{workflow}.json"


def _kept_name(workflow: str, run_id: str) -> str:
    return f"{KEPT_FOLDER}/{workflow}/{run_id}.json"
