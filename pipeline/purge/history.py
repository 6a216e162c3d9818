"""Forget what only earlier nights hold: their snapshots and reports, and replies that nothing needs
at present."""

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
    """What went, or with ``dry_run`` would: snapshots and records, ``reports`` of runs, ``replies``
    and vectors from the cache (with ``dry_run`` all there are: of these those go that nothing
    needs). ``unowned``: replies and vectors of nobody known, which stay."""

    dry_run: bool
    snapshots: GcReport
    reports: int
    replies: int
    unowned: int

    def lines(self) -> list[str]:
        nights = [f"{night}, cannot be loaded any more" for night in self.snapshots.nights]
        total = self.snapshots.total
        files = counted(
            total.files, "file of snapshots and records", "files of snapshots and records"
        )
        replies = counted(self.replies, "cached reply or vector", "cached replies and vectors")
        which = f"of {replies} those" if self.dry_run else replies
        return [
            *nights,
            (
                f"{files} ({total.bytes / 1e6:,.1f} MB), {counted(self.reports, 'run report')},"
                f" {which} that the present tables do not need"
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "snapshots": self.snapshots.to_json()}


def purge_history(project: Services, dry_run: bool) -> HistoryReport:
    """Keep of every workflow the newest tables, the newest report of a run, and what is needed to
    make the tables again; documents and stores stay as they are.

    Raises LockedError while a run is under way or a purge was broken off, UsageError for a workflow
    whose file is gone, StoreError when others read the cache all the time.
    """
    with project.runs.alone():
        PurgeIntents(project.root).refuse_broken_off()
        workflows = workflows_with_tables(project)
        if dry_run:
            collected = collect_garbage(project.snapshots, keep=1, dry_run=True)
            reports = max(0, len(project.runs.all_ids()) - 1)
            return HistoryReport(
                True, collected, reports, project.cache.owned(), project.cache.unowned()
            )
        return forget_history(project, workflows, max(project.runs.all_ids(), default=""))


def forget_history(project: Services, workflows: Sequence[str], since: str) -> HistoryReport:
    """Also the reports of all runs before ``since``. Only for a caller who holds the project."""
    LoadedVersions(project.snapshots).forget()
    project.snapshots.folder.sweep()
    _forget_later(project.snapshots)
    for name in workflows:
        project.snapshots.compact(name)
    collected = collect_garbage(project.snapshots, keep=1, dry_run=False)
    reports = project.runs.forget_before(since)
    keys = set().union(*(_needed(project, name) for name in workflows))
    replies = project.cache.forget_all_but(keys)
    return HistoryReport(False, collected, reports, replies, project.cache.unowned())


def _needed(project: Services, name: str) -> set[str]:
    """Return the keys of what the workflow's tables were made of, and of what a run of now would
    need.

    Both are the same unless a prompt or a setting was edited since. Then the edit can be taken
    back, and nothing is paid for again.
    """
    workflow, manifest = project.workflow(name), project.snapshots.manifest(name)
    recorded = needed_as_recorded(
        workflow, manifest, project.resources, project.cache, project.snapshots
    )
    with suppress(
        SettingsError, DataError
    ):  # a prompt or workflow that was edited and cannot be used as it is
        return recorded | needed_keys(workflow, project.resources, project.snapshots)
    return recorded


def _forget_later(snapshots: SnapshotStore) -> None:
    """Manifests of earlier nights whose ids sort after the last run's, as where a clock was set
    back since."""
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
            manifest = project.snapshots.folder.describe(f"manifest-{name}.json")
            raise UsageError(
                f"purge: workflow '{name}' has tables but no file; restore workflows/{name}.yaml,"
                f" or delete {manifest} and manifests/{name}"
            )
    return names
