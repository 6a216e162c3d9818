"""The stages of a run, and a run of them, for a caller who holds the project: index, then load."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cache as memoized
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from pipeline.contract.conversion import Converter
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.contract.views import conditions_digest
from pipeline.engine.extraction_check import health
from pipeline.engine.extraction_notes import extraction_notes
from pipeline.engine.plan import RunOptions
from pipeline.engine.reply_lengths import longest_replies
from pipeline.engine.run_report import LoadCounts, Outcome, Progress, RunReport
from pipeline.engine.runner import Runner
from pipeline.engine.tasks import Workers, Workplace
from pipeline.engine.usage.budget import Budget, estimated_tokens
from pipeline.engine.usage.journal import Journal, read_usage, settle
from pipeline.engine.workers import Processes
from pipeline.engine.workflow import REJECTS, Workflow
from pipeline.errors import (
    ABOVE_MAX_REJECTS,
    BudgetError,
    DataError,
    DiskFullError,
    StoreError,
    UsageError,
    WaitingError,
    exit_code_of,
    in_words,
    install_extra,
)
from pipeline.export.emit import emit
from pipeline.files import sweep_partials
from pipeline.load.loader import LoadOptions, Owner, load
from pipeline.load.owners import loaded_elsewhere
from pipeline.runs.reports import ProgressNotes, UnfinishedRun, clock_now, this_process
from pipeline.runs.services import Services
from pipeline.settings.schema import Settings
from pipeline.snapshots.manifests import digest_of_view, view_of
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.base import Live
from pipeline.stores.loaded_workspaces import LoadedWorkspaces, Workspace

if TYPE_CHECKING:
    from pipeline.engine.cluster import Cluster


@dataclass
class RunState:
    """``reject_ratio``, ``unread_ratio`` and ``health`` as the index stage found them, ``load`` and
    ``store_notes`` as the load stage did. Above ``max_reject_ratio`` a run that has indexed does
    not load."""

    run_id: str
    workflow: Workflow
    runner: Runner
    options: RunOptions
    max_reject_ratio: float
    reject_ratio: float = 0.0
    unread_ratio: float = 0.0
    health: Mapping[str, float] = field(default_factory=dict)
    load: LoadCounts | None = None
    load_seconds: float = 0.0
    store_notes: tuple[str, ...] = ()
    began: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        unread = (
            f"{self.unread_ratio:.0%} of the input could not be read; what could be is used: see"
            f" 'graphmill rejects {self.workflow.name}'"
        )
        told = (
            [unread]
            if self.unread_ratio > self.max_reject_ratio and not self.above_max_rejects
            else []
        )
        estimated = estimated_tokens(self.runner.reports)
        found = (*extraction_notes(self.health, self.workflow), *filter(None, [estimated]))
        return (*self.runner.notes, *told, *found, *self.store_notes)

    @property
    def above_max_rejects(self) -> bool:
        """Too many rows were rejected, or, whatever the setting, all."""
        return self.reject_ratio > self.max_reject_ratio or self.reject_ratio == 1

    def report(self, outcome: Outcome, exit_code: int, message: str = "") -> RunReport:
        return RunReport(
            self.run_id,
            self.workflow.name,
            outcome,
            exit_code,
            tuple(self.runner.reports),
            self.load or {},
            message,
            self.load_seconds,
            self.health,
            self.notes,
            self.runner.documents,
            ended=clock_now(),
            began=self.began,
        )

    def broken_off(self, error: BaseException) -> RunReport:
        message = "interrupted" if isinstance(error, KeyboardInterrupt) else in_words(error)
        return self.report(outcome_of(error), exit_code_of(error), message)

    def completed(self) -> RunReport:
        if not any(step.rejects for step in self.runner.reports):
            return self.report("completed", 0)
        if not self.above_max_rejects:
            return self.report("completed_with_rejects", 0)
        name = self.workflow.name
        message = (
            f"{self.reject_ratio:.0%} of a step's rows or records are lost; the stores are left as"
            f" they were; see 'graphmill rejects {name}', mend the cause, then 'graphmill retry"
            f" {name}'; 'graphmill load {name}' loads what there is"
        )
        return self.report("completed_with_rejects", ABOVE_MAX_REJECTS, message)


def outcome_of(error: BaseException) -> Outcome:
    """Of a run that this has ended."""
    if isinstance(error, WaitingError):
        return "waiting"
    return "stopped" if isinstance(error, (KeyboardInterrupt, BudgetError)) else "failed"


LISTED = 5


def loaded_rejects(run: str | None, workflow: str, snapshots: SnapshotStore) -> pd.DataFrame | None:
    """The rejects of the tables that this run of the workflow brought to the stores; None for no
    run, no row where those tables are no longer kept, or cannot be read."""
    if run is None:
        return None
    until = [id for id in snapshots.history(workflow) if id <= run]
    known = next(
        (
            manifest.tables.get(REJECTS)
            for manifest in snapshots.kept_manifests(workflow, until[-1:])
        ),
        None,
    )
    return (
        snapshots.tables.read(known)
        if known and snapshots.tables.exists(known)
        else REJECTS_SCHEMA.frame()
    )


def manifest_of(run: str, workflow: str, snapshots: SnapshotStore, runs: Sequence[str]) -> Manifest:
    """The workflow's manifest as it was at the end of a run. ``run``: the run's id, or the
    beginning of one that no other has; ``runs``: ids of the workflow's runs.

    Raises UsageError when that names no run or several, DataError when what the run had is no
    longer kept.
    """
    kept = snapshots.history(workflow)
    known = sorted({*kept, *runs}, reverse=True)
    named = [run] if run in known else [id for id in known if id.startswith(run)]
    if len(named) != 1:
        found = f"{len(named)} runs begin so" if named else "no such run"
        have = ", ".join((named or known)[:LISTED]) or f"none; run 'graphmill index {workflow}'"
        raise UsageError(
            f"workflow '{workflow}', manifest '{run}': {found}; the newest are: {have}"
        )
    until = [id for id in kept if id <= named[0]]
    if not until:
        have = (
            f"the oldest is {kept[0]}"
            if kept
            else f"there is none; run 'graphmill index {workflow}'"
        )
        raise DataError(
            f"workflow '{workflow}': no manifest is kept from the time of run {named[0]}; {have}"
        )
    manifest = snapshots.manifest(workflow, until[-1])
    for table, snapshot in manifest.tables.items():
        if not snapshots.tables.exists(snapshot):
            path = snapshots.folder.describe(snapshot.paths[0])
            later = ", ".join(sorted(kept, reverse=True)[:LISTED])
            raise DataError(
                f"{path}: gone or damaged, and table '{table}' of run {named[0]} with it;"
                f" choose a later run: {later}"
            )
    return manifest


Stage = Callable[[Services, RunState], None]


def run_stages(
    project: Services, name: str | None, progress: Progress, options: RunOptions, *stages: Stage
) -> RunReport:
    """Run the stages of a workflow in order and keep the report, also of a run that fails or is
    refused before any work. Only for a caller who holds the project (Runs.alone). Raises UsageError
    where what is to be indexed cannot be loaded, or not into this workspace."""
    workflow = project.workflow(name)
    for folder in (project.runs.folder, project.usage_folder, project.output_folder):
        sweep_partials(folder)
    project.snapshots.folder.sweep()
    settle(project.usage_folder)
    with Journal(project.usage_folder, project.runs.new_id(), workflow.name) as journal:
        reaches = partial(project.reach_stores, workflow, options, index_stage in stages)
        reach_stores = reaches if load_stage in stages else None
        begun = UnfinishedRun(journal.run_id, workflow.name, this_process(), began=clock_now())
        noted = ProgressNotes(progress, project.runs, begun)
        project.runs.note(begun)
        runner = _runner(project, workflow, journal, noted, options, reach_stores)
        state = RunState(
            journal.run_id,
            workflow,
            runner,
            options,
            project.settings.max_reject_ratio,
            began=begun.began,
        )
        try:
            _refuse_what_cannot_be_loaded(project, workflow, options, stages)
            project.cache.mend()
            for stage in stages:
                stage(project, state)
        except BaseException as error:
            with suppress(DiskFullError):  # what ended the run is told
                project.runs.save(state.broken_off(error))
            raise
    report = state.completed()
    project.runs.save(report)
    return report


def _refuse_what_cannot_be_loaded(
    project: Services, workflow: Workflow, options: RunOptions, stages: Sequence[Stage]
) -> None:
    if (
        index_stage in stages
        and load_stage in stages
        and (fact := project.why_not_loadable(workflow.name))
    ):
        raise UsageError(f"{fact}; or run 'graphmill index {workflow.name}', for its tables alone")
    if load_stage in stages:
        with suppress(StoreError):  # what does not answer may do so when it is needed
            project.reach_stores(workflow, options, indexes=index_stage in stages)


def index_stage(project: Services, state: RunState) -> None:
    """Bring the snapshots up to date with the documents, and the files that the workflow emits with
    them."""
    loaded = loaded_rejects(
        project.runs.loaded(state.workflow.name), state.workflow.name, project.snapshots
    )
    with state.runner.workers or nullcontext():
        result = state.runner.run(state.workflow, state.run_id, loaded)
    emit(
        state.workflow,
        result.manifest,
        project.snapshots,
        project.output_folder / state.workflow.name,
    )
    state.reject_ratio, state.unread_ratio = result.reject_ratio, result.unread_ratio
    state.health = health(result.manifest.tables, project.snapshots, state.workflow)


def load_stage(project: Services, state: RunState) -> None:
    """Bring the stores up to date with the snapshots, or with those of the run that the options
    name; not after too many rejects."""
    if state.above_max_rejects:
        return
    name, run = state.workflow.name, state.options.manifest
    earlier = (
        manifest_of(run, name, project.snapshots, project.runs.ids(name))
        if run is not None
        else None
    )
    manifest = earlier or project.snapshots.live_manifest(name)
    if not manifest.tables:
        raise UsageError(
            f"workflow '{manifest.workflow}': nothing to load; run 'graphmill index"
            f" {manifest.workflow}' first"
        )
    views = _views_to_load(project, manifest, earlier is not None)
    started = time.perf_counter()
    state.runner.progress.load_started()
    state.load = {}
    fills = project.loads_into  # noted before the first write: a purge must know of all of them
    _load_workspace(project, manifest, state, fills)
    for view in views.loaded:
        _load_workspace(project.over_view(view), view_of(manifest, view), state, fills)
    state.store_notes = tuple(
        dict.fromkeys([*state.store_notes, *views.notes, *_notes_on_removed_views(project)])
    )
    state.load_seconds = round(time.perf_counter() - started, 3)
    state.runner.progress.load_finished(state.load, state.load_seconds)


@dataclass(frozen=True)
class _Views:
    """``loaded``: the views whose tables are there; ``notes``: on those that are left as they
    are."""

    loaded: Sequence[str]
    notes: Sequence[str]


def _views_to_load(project: Services, manifest: Manifest, is_earlier: bool) -> _Views:
    """Find the views of which the manifest has tables, made by the present conditions.

    ``is_earlier``: whether it is that of a chosen run, which may be older than the view. Raises
    UsageError where it is the newest one and lacks a view.
    """
    loaded: list[str] = []
    notes: list[str] = []
    for view, settings in project.settings.serve.views.items():
        if digest_of_view(view_of(manifest, view)) == conditions_digest(settings.where):
            loaded.append(view)
        elif is_earlier:
            notes.append(
                f"view '{view}': that run has not made it as settings have it; its workspace is"
                " left as it is"
            )
        else:
            why = project.why_not_loadable(manifest.workflow)
            fact = (
                why
                or f"serve.views.{view}: workflow '{manifest.workflow}' has no tables of it as settings have it"  # noqa: E501
            )
            raise UsageError(
                f"{fact}; run 'graphmill run {manifest.workflow}'" if not why else fact
            )
    return _Views(loaded, notes)


def _load_workspace(
    project: Services, manifest: Manifest, state: RunState, fills: Sequence[Workspace]
) -> None:
    """Bring the workspace of the settings to the manifest's tables; ``fills``: all that the load
    stage fills.

    That of a view may show another workflow, or another model's vectors: it follows the workspace
    of the project, for which this was allowed just now, or earlier by a load that was cut off
    before the view.
    """
    options, progress = state.options, state.runner.progress
    follows = bool(project.view)
    told = f" (view {project.view})" if project.view else ""

    def begins(lives: Sequence[Live | None]) -> None:
        LoadedWorkspaces(project.root).note(fills)
        note = loaded_elsewhere(project.settings.workspace, lives, project.place)
        state.store_notes += (
            (note,) if note else ()
        )  # one that begins anew keeps what was there at first

    counts = load(
        manifest,
        project.snapshots,
        project.stores.all,
        project.settings.stores.neo4j.max_types,
        LoadOptions(
            options.replace or follows,
            options.re_embed or follows,
            options.full,
            () if follows else options.take_over,
        ),
        lambda store, table, done, rows: progress.load_advanced(
            f"{store}{told}", table, done, rows
        ),
        Owner(project.owner, project.place),
        progress.load_waits,
        begins,
    )
    state.load = {
        **(state.load or {}),
        **{f"{store}{told}": tables for store, tables in counts.items()},
    }
    notes = (
        f"{store.name}{told}: {note}" for store in project.stores.all for note in store.notes()
    )
    state.store_notes = tuple(dict.fromkeys([*state.store_notes, *notes]))


def _notes_on_removed_views(project: Services) -> list[str]:
    """Tell of workspaces that still show a view of this project's workspace which settings no
    longer have."""
    return [
        f"workspace '{name}': of a view that serve.views does not have any more, so that it is not"
        f" loaded again; 'graphmill workspace drop {name}' deletes it"
        for name in project.removed_views()
    ]


def _runner(
    project: Services,
    workflow: Workflow,
    journal: Journal,
    progress: Progress,
    options: RunOptions,
    before_calls: Callable[[], None] | None,
) -> Runner:
    converting = [
        step.id for step in workflow.steps if options.reconvert and step.verb.roles_of(Converter)
    ]
    selection = replace(options.selection, force=(*options.selection.force, *converting))
    return Runner(
        project.resources,
        project.snapshots,
        progress,
        selection=selection,
        budget=Budget(options.max_cost, options.max_tokens),
        journal=journal,
        again=options.again,
        unended=options.unended,
        reconvert=options.reconvert,
        watch_memory=options.memory_profile,
        max_delete_ratio=None if options.allow_deletes else project.settings.max_delete_ratio,
        before_calls=before_calls,
        workers=_workers(project, workflow, progress),
        task_rows=project.settings.engine.task_rows,
        longest_reply=_longest_reply(project.usage_folder),
    )


def _longest_reply(usage: Path) -> Callable[[str], int]:
    """Return what tells the tokens of a step's longest good reply; the usage is read when it is
    first asked."""
    known = memoized(lambda: longest_replies(read_usage(usage)))
    return lambda step: known().get(step, 0)


def _workers(project: Services, workflow: Workflow, progress: Progress) -> Workers | None:
    engine = project.settings.engine
    if engine.kind == "dask":
        from pipeline.runs.worker import ship

        return cluster_of(project, partial(ship, project, workflow), progress.told)
    assert engine.workers != "adaptive"
    return (
        Processes(engine.workers, partial(_workplace, project.root, project.settings))
        if engine.workers > 1
        else None
    )


def cluster_of(
    project: Services, ship: Callable[[], bytes], tell: Callable[[str], None]
) -> "Cluster":
    """The one that settings name. Raises UsageError without Dask."""
    try:
        from pipeline.engine.cluster import Cluster
    except ImportError as error:
        raise UsageError(
            f"engine.kind: dask: {in_words(error)}; {install_extra('dask')}"
        ) from error
    from pipeline.runs.worker import facts

    engine = project.settings.engine
    return Cluster(
        engine.address,
        None if engine.workers == "adaptive" else engine.workers,
        engine.wait_seconds,
        {name: file and str(project.root / file) for name, file in engine.tls.model_dump().items()},
        facts(),
        ship,
        project.snapshots,
        tell,
    )


def _workplace(root: Path, settings: Settings) -> Workplace:
    """What a process of its own works with: the project, opened there once."""
    project = Services(root, settings)
    return Workplace(memoized(project.workflow), project.resources, project.snapshots)
