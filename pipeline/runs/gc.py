"""Garbage collection: deletes snapshots and step records that no manifest to be kept names.

Manifests are deleted first, the oldest first; then records, then snapshots. If it is interrupted
anywhere, every manifest and every record that is left is complete, and the next collection deletes
the rest. Logs of runs from before the oldest kept manifest of their workflow are deleted; run
reports and usage are left alone. The work of a run that did not complete has no
manifest yet, so it is deleted too; the replies that it paid for stay in the cache.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any

from pipeline.errors import UsageError, counted
from pipeline.runs.reports import LOG_SUFFIX, Runs
from pipeline.snapshots.folder import Kept
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Advanced, silent

STEPS = "steps"
DELETED_AT_ONCE = 1000


@dataclass(frozen=True)
class SnapshotSize:
    files: int
    bytes: int


@dataclass(frozen=True)
class GcReport:
    """The files that were deleted, or with ``dry_run`` would be.

    ``tables`` maps each table to the size of its deleted snapshots. ``manifests`` maps each
    workflow to the ids of the runs that can no longer be loaded. ``logs`` are those of runs before
    the oldest that is kept.
    """

    dry_run: bool
    keep: int
    manifests: Mapping[str, Sequence[str]]
    records: SnapshotSize
    tables: Mapping[str, SnapshotSize]
    logs: SnapshotSize = SnapshotSize(0, 0)

    @property
    def total(self) -> SnapshotSize:
        """The files and bytes of all that is deleted."""
        sizes = [self.records, *self.tables.values(), self.logs]
        files = sum(size.files for size in sizes)
        total_bytes = sum(size.bytes for size in sizes)
        return SnapshotSize(files, total_bytes)

    @property
    def runs(self) -> list[str]:
        """A line for each workflow that says how many of its runs are deleted, and which."""
        lines: list[str] = []
        for workflow, runs in self.manifests.items():
            which = runs[0] if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
            lines.append(f"{workflow}: {counted(len(runs), 'earlier run')}, {which}")
        return lines

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "total": asdict(self.total)}


def collect_garbage(
    snapshots: SnapshotStore,
    keep: int,
    dry_run: bool,
    advanced: Advanced = silent,
    runs: Runs | None = None,
) -> GcReport:
    """Keep the live manifests, the newest ``keep`` of each workflow, and the files that they name.

    Delete everything else, or only report it if ``dry_run`` is true. The caller must hold the
    snapshots alone. ``advanced`` is called with the number of deleted files. ``runs``: those whose
    logs are collected too.

    Raises UsageError if ``keep`` is below 1. Raises DataError, before anything is deleted, if a
    live manifest cannot be read.
    """
    if keep < 1:
        raise UsageError(f"gc: keep is {keep}; keep at least 1 manifest of each workflow")
    kept, old = _manifests(snapshots, keep)
    named = _paths(kept)
    unneeded = [file for file in snapshots.all_files() if file.name not in named]
    # Sorted by name, the files of a folder are together.
    unneeded.sort(key=lambda file: file.name)
    sizes = {folder: _size(list(files)) for folder, files in groupby(unneeded, key=_folder)}
    records = sizes.pop(STEPS, SnapshotSize(0, 0))
    logs = _find_old_logs(runs, snapshots, keep) if runs else []
    size_of_logs = SnapshotSize(len(logs), sum(log.stat().st_size for log in logs))
    report = GcReport(dry_run, keep, old, records, sizes, size_of_logs)
    if not dry_run:
        snapshots.tasks.clear()
        gone: list[tuple[str, str]] = []
        for workflow, run_ids in old.items():
            gone += [(workflow, run_id) for run_id in run_ids]
        # Records first: a record that is found must have all its snapshots.
        unneeded.sort(key=lambda file: _folder(file) != STEPS)
        expected = len(gone) + len(unneeded) + len(logs)
        for done, (workflow, run_id) in enumerate(gone, start=1):
            snapshots.delete_manifest(workflow, run_id)
            advanced("files", done, expected)
        for start in range(0, len(unneeded), DELETED_AT_ONCE):
            some = unneeded[start : start + DELETED_AT_ONCE]
            snapshots.folder.delete([file.name for file in some])
            done = len(gone) + start + len(some)
            advanced("files", done, expected)
        for log in logs:
            log.unlink(missing_ok=True)
        if logs:
            advanced("files", expected, expected)
    return report


def _find_old_logs(runs: Runs, snapshots: SnapshotStore, keep: int) -> list[Path]:
    """Return the logs of runs from before the oldest kept manifest of their workflow.

    Where a run has no workflow that is known, or one without manifests, the oldest of all counts.
    """
    oldest: dict[str, str] = {}
    for workflow in snapshots.workflows():
        history = snapshots.history(workflow)
        if history:
            oldest[workflow] = history[-keep:][0]
    if not oldest:
        return []
    oldest_of_all = min(oldest.values())
    newest = max(oldest.values())
    # A log that is not older than any of these is kept, whatever its workflow.
    logs = {log.stem: log for log in runs.folder.glob(f"*{LOG_SUFFIX}") if log.stem < newest}
    workflows = {entry.run_id: entry.workflow for entry in runs.entries(list(logs))}
    old_logs: list[Path] = []
    for run_id, log in sorted(logs.items()):
        first_kept = oldest.get(workflows[run_id], oldest_of_all)
        if run_id < first_kept:
            old_logs.append(log)
    return old_logs


def _manifests(snapshots: SnapshotStore, keep: int) -> tuple[list[Manifest], dict[str, list[str]]]:
    """Return the manifests to keep, and for each workflow the run ids of those to delete, oldest
    first."""
    kept: list[Manifest] = []
    old: dict[str, list[str]] = {}
    for workflow in snapshots.workflows():
        history = snapshots.history(workflow)
        older, newest = history[:-keep], history[-keep:]
        kept.append(snapshots.live_manifest(workflow))
        kept += snapshots.kept_manifests(workflow, newest)
        if older:
            old[workflow] = older
    return kept, old


def _paths(manifests: Sequence[Manifest]) -> set[str]:
    """Return the paths of all files that the manifests and their records name, and of these
    records."""
    paths: set[str] = set()
    for manifest in manifests:
        snapshots = list(manifest.tables.values())
        for record in manifest.steps.values():
            paths.add(f"{STEPS}/{record.fingerprint}.json")
            snapshots += record.outputs.values()
        for snapshot in snapshots:
            paths.update(snapshot.paths)
    return paths


def _folder(file: Kept) -> str:
    """Return the first folder of a file's path: the table of a snapshot, or that of records."""
    return PurePosixPath(file.name).parts[0]


def _size(files: Sequence[Kept]) -> SnapshotSize:
    """Return the number of the files and their bytes together."""
    total_bytes = sum(file.bytes for file in files)
    return SnapshotSize(len(files), total_bytes)
