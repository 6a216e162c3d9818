"""Removes everything that only earlier runs have: snapshots, reports, and replies that nothing
needs now."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.engine.bill.counting_models import needed_keys
from pipeline.errors import DataError, SettingsError, UsageError, counted
from pipeline.load.last_load import LoadedVersions
from pipeline.purge.intention import PurgeIntents
from pipeline.purge.recorded_steps import needed_as_recorded
from pipeline.runs.gc import GcReport, collect_garbage
from pipeline.runs.services import Services
from pipeline.snapshots.store import SnapshotStore


@dataclass(frozen=True)
class HistoryReport:
    """The result of a purge of the history, or with ``dry_run`` its forecast.

    ``reports`` counts reports of runs, ``replies`` the replies and vectors deleted from the cache.
    With ``dry_run``, ``replies`` counts all of them: those that nothing needs would be deleted.
    ``unowned`` counts replies and vectors without a known owner, which stay.
    """

    dry_run: bool
    snapshots: GcReport
    reports: int
    replies: int
    unowned: int

    def lines(self) -> list[str]:
        runs = [f"{run}, cannot be loaded any more" for run in self.snapshots.runs]
        total = self.snapshots.total
        files = counted(
            total.files, "file of snapshots and records", "files of snapshots and records"
        )
        replies = counted(self.replies, "cached reply or vector", "cached replies and vectors")
        which = f"of {replies} those" if self.dry_run else replies
        reports = counted(self.reports, "run report")
        megabytes = total.bytes / 1e6
        last = (
            f"{files} ({megabytes:,.1f} MB), {reports}, {which} that the present tables do not need"
        )
        return [*runs, last]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "snapshots": self.snapshots.to_json()}


def purge_history(project: Services, dry_run: bool) -> HistoryReport:
    """Delete the history of all workflows.

    For every workflow the newest tables stay, with the newest report of a run, and the replies that
    are needed to make the tables again. Documents and stores are left alone.

    Raises LockedError while a run is under way or a purge was interrupted, UsageError for a
    workflow whose file is gone, StoreError if others read the cache all the time.
    """
    with project.runs.alone():
        PurgeIntents(project.root).refuse_broken_off()
        workflows = workflows_with_tables(project)
        if dry_run:
            collected = collect_garbage(project.snapshots, keep=1, dry_run=True)
            reports = max(0, len(project.runs.reported_ids()) - 1)
            return HistoryReport(
                True, collected, reports, project.cache.owned(), project.cache.unowned()
            )
        return forget_history(project, workflows, max(project.runs.reported_ids(), default=""))


def forget_history(project: Services, workflows: Sequence[str], since: str) -> HistoryReport:
    """Delete the history and the reports of all runs before ``since``. The caller must hold the
    project."""
    LoadedVersions(project.snapshots).forget()
    project.snapshots.folder.sweep()
    _delete_later_manifests(project.snapshots)
    for name in workflows:
        project.snapshots.compact(name)
    collected = collect_garbage(project.snapshots, keep=1, dry_run=False)
    reports = project.runs.forget_before(since)
    keys: set[str] = set()
    for name in workflows:
        keys |= _needed_keys(project, name)
    replies = project.cache.forget_all_but(keys)
    return HistoryReport(False, collected, reports, replies, project.cache.unowned())


def _needed_keys(project: Services, name: str) -> set[str]:
    """Return the keys of the replies from which the workflow's tables were made, and of those that
    a run would need now.

    Both are the same unless a prompt or a setting was edited since. Then the edit can be undone,
    and nothing is paid for again.
    """
    workflow, manifest = project.workflow(name), project.snapshots.manifest(name)
    recorded = needed_as_recorded(
        workflow, manifest, project.resources, project.cache, project.snapshots
    )
    # A prompt or workflow may have been edited so that it cannot be used.
    with suppress(SettingsError, DataError):
        return recorded | needed_keys(workflow, project.resources, project.snapshots)
    return recorded


def _delete_later_manifests(snapshots: SnapshotStore) -> None:
    """Delete manifests of earlier runs whose ids sort after the last run's, because a clock was set
    back."""
    for workflow in snapshots.workflows():
        live = snapshots.live_manifest(workflow)
        for run_id in reversed(snapshots.history(workflow)):
            if snapshots.kept_manifests(workflow, [run_id]) == [live]:
                break
            snapshots.delete_manifest(workflow, run_id)


def workflows_with_tables(project: Services) -> list[str]:
    """Return the names of the workflows that have tables.

    Raises UsageError for a workflow whose file is gone, because it cannot be run any more.
    """
    names = project.snapshots.workflows()
    for name in names:
        if not (project.root / "workflows" / f"{name}.yaml").is_file():
            raise UsageError(
                f"purge: workflow '{name}' has tables but no file; restore the file"
                f" workflows/{name}.yaml, then purge again"
            )
    return names
