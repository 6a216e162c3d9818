"""The stages of a run, index and load, and the run of them. The caller must hold the project."""

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
from pipeline.engine.reply_lengths import longest_replies
from pipeline.engine.run_options import RunOptions
from pipeline.engine.run_report import LoadCounts, Outcome, Progress, RunReport
from pipeline.engine.runner import Runner
from pipeline.engine.tasks import Workers, Workplace
from pipeline.engine.usage.journal import Journal, read_usage, settle
from pipeline.engine.usage.run_budget import Budget, estimated_tokens
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
from pipeline.runs.correction_notes import note_corrections
from pipeline.runs.metrics import write_textfile
from pipeline.runs.ontology_notes import note_ontology
from pipeline.runs.project_lock import this_process
from pipeline.runs.reports import UnfinishedRun, clock_now
from pipeline.runs.run_log import ProgressNotes, log_of
from pipeline.runs.services import Services
from pipeline.runs.without_calls import notes_on_waiting, run_quietly
from pipeline.settings.schema import Settings
from pipeline.snapshots.manifests import digest_of_view, view_of
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.spans import span
from pipeline.stores.base import Live
from pipeline.stores.loaded_workspaces import LoadedWorkspaces, Workspace

if TYPE_CHECKING:
    from pipeline.engine.cluster import Cluster


@dataclass
class RunState:
    """The state of a run.

    The index stage sets ``reject_ratio``, ``unread_ratio``, ``health`` and
    ``decision_notes``; the load stage sets ``load`` and ``store_notes``. A run that has indexed
    does not load if more than ``max_reject_ratio`` of its rows were rejected.
    """

    run_id: str
    workflow: Workflow
    runner: Runner
    options: RunOptions
    max_reject_ratio: float
    reject_ratio: float = 0.0
    unread_ratio: float = 0.0
    health: Mapping[str, float] = field(default_factory=dict)
    decision_notes: tuple[str, ...] = ()
    load: LoadCounts | None = None
    load_seconds: float = 0.0
    store_notes: tuple[str, ...] = ()
    began: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        notes = list(self.runner.notes)
        if self.unread_ratio > self.max_reject_ratio and not self.above_max_rejects:
            notes.append(
                f"{self.unread_ratio:.0%} of the input could not be read; what could be is used:"
                f" see 'graphmill rejects {self.workflow.name}'"
            )
        notes += extraction_notes(self.health, self.workflow)
        notes += self.decision_notes
        notes += notes_on_waiting(self.runner.reports)
        estimated = estimated_tokens(self.runner.reports)
        if estimated:
            notes.append(estimated)
        return (*notes, *self.store_notes)

    @property
    def above_max_rejects(self) -> bool:
        """True if too many rows were rejected or, whatever the setting, all of them."""
        return self.reject_ratio > self.max_reject_ratio or self.reject_ratio == 1

    @property
    def not_selected(self) -> tuple[str, ...]:
        """The steps that the options left as they were."""
        selection = self.options.selection
        steps = [step.id for step in self.workflow.steps]
        return tuple(step for step in steps if selection.leaves(step, self.workflow))

    def report(self, outcome: Outcome, exit_code: int, message: str = "") -> RunReport:
        """Return the report of the run as it is now, which ends it."""
        return RunReport(
            run_id=self.run_id,
            workflow=self.workflow.name,
            outcome=outcome,
            exit_code=exit_code,
            steps=tuple(self.runner.reports),
            load=self.load or {},
            message=message,
            load_seconds=self.load_seconds,
            health=self.health,
            notes=self.notes,
            documents=self.runner.documents,
            ended=clock_now(),
            began=self.began,
            not_selected=self.not_selected,
        )

    def broken_off(self, error: BaseException) -> RunReport:
        """Return the report of a run that an error has ended."""
        message = "interrupted" if isinstance(error, KeyboardInterrupt) else in_words(error)
        return self.report(outcome_of(error), exit_code_of(error), message)

    def completed(self) -> RunReport:
        """Return the report of a run whose stages have all ended."""
        if not self.above_max_rejects:
            has_rejects = any(step.rejects for step in self.runner.reports)
            outcome = "completed_with_rejects" if has_rejects else "completed"
            return self.report(outcome, 0)
        name = self.workflow.name
        message = (
            f"{self.reject_ratio:.0%} of a step's rows or records are lost; the stores are left as"
            f" they were; see 'graphmill rejects {name}', mend the cause, then 'graphmill retry"
            f" {name}'; 'graphmill load {name}' loads what there is"
        )
        return self.report("completed_with_rejects", ABOVE_MAX_REJECTS, message)


def outcome_of(error: BaseException) -> Outcome:
    """Return the outcome of a run that this error has ended."""
    if isinstance(error, WaitingError):
        return "waiting"
    return "stopped" if isinstance(error, (KeyboardInterrupt, BudgetError)) else "failed"


LISTED = 5
"""The most runs that a message lists."""


def loaded_rejects(run: str | None, workflow: str, snapshots: SnapshotStore) -> pd.DataFrame | None:
    """Return the rejects of the tables that this run of the workflow loaded into the stores.

    Return None if ``run`` is None. The result has no rows if those tables are no longer kept, or
    cannot be read.
    """
    if run is None:
        return None
    until = [id for id in snapshots.history(workflow) if id <= run]
    for manifest in snapshots.kept_manifests(workflow, until[-1:]):
        rejects = manifest.tables.get(REJECTS)
        if rejects and snapshots.tables.exists(rejects):
            return snapshots.tables.read(rejects)
    return REJECTS_SCHEMA.frame()


def manifest_of(run: str, workflow: str, snapshots: SnapshotStore, runs: Sequence[str]) -> Manifest:
    """Return the workflow's manifest as it was at the end of a run.

    ``run`` is the run's id or an unambiguous beginning of it, ``runs`` are the ids of the
    workflow's runs.

    Raises UsageError if that names no run or several, DataError if the tables of that time are no
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
    run_id = named[0]
    until = [id for id in kept if id <= run_id]
    if not until:
        have = f"there is none; run 'graphmill index {workflow}'"
        if kept:
            have = f"the oldest is {kept[0]}"
        raise DataError(
            f"workflow '{workflow}': no manifest is kept from the time of run {run_id}; {have}"
        )
    manifest = snapshots.manifest(workflow, until[-1])
    for table, snapshot in manifest.tables.items():
        if snapshots.tables.exists(snapshot):
            continue
        path = snapshots.folder.describe(snapshot.paths[0])
        newest_first = sorted(kept, reverse=True)
        later = ", ".join(newest_first[:LISTED])
        raise DataError(
            f"{path}: gone or damaged, and table '{table}' of run {run_id} with it;"
            f" choose a later run: {later}"
        )
    return manifest


Stage = Callable[[Services, RunState], None]


def run_stages(
    project: Services, name: str | None, progress: Progress, options: RunOptions, *stages: Stage
) -> RunReport:
    """Run the stages of a workflow in order and save the report, even if the run fails or is
    refused.

    The caller must hold the project (Runs.alone). Raises UsageError if what is to be indexed cannot
    be loaded, or not into this workspace.
    """
    workflow = project.workflow(name)
    for folder in (project.runs.folder, project.usage_folder, project.output_folder):
        sweep_partials(folder)
    project.snapshots.folder.sweep()
    settle(project.usage_folder)
    with Journal(project.usage_folder, project.runs.new_id(), workflow.name) as journal:
        reach_stores = None
        if load_stage in stages:
            indexes = index_stage in stages
            reach_stores = partial(project.reach_stores, workflow, options, indexes)
        begun = UnfinishedRun(journal.run_id, workflow.name, this_process(), began=clock_now())
        log = log_of(project.runs, journal.run_id)
        noted = ProgressNotes(progress, project.runs, begun, log)
        project.runs.note(begun)
        noted.run_started(journal.run_id, workflow.name)
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
            with span("graphmill.run", workflow=workflow.name, run=journal.run_id):
                for stage in stages:
                    stage(project, state)
        except BaseException as error:
            report = state.broken_off(error)
            # The error that ended the run matters more than a report that cannot be written.
            with suppress(DiskFullError):
                project.runs.save(report)
            with suppress(Exception):
                _publish_figures(project, report)
            with suppress(Exception):
                noted.run_ended(report)
            raise
    report = state.completed()
    project.runs.save(report)
    _publish_figures(project, report)
    noted.run_ended(report)
    return report


def _publish_figures(project: Services, report: RunReport) -> None:
    write_textfile(project.root, project.runs, project.settings.metrics.textfile, report)


def _refuse_what_cannot_be_loaded(
    project: Services, workflow: Workflow, options: RunOptions, stages: Sequence[Stage]
) -> None:
    if load_stage not in stages:
        return
    if index_stage in stages:
        fact = project.why_not_loadable(workflow.name)
        if fact:
            raise UsageError(
                f"{fact}; or run 'graphmill index {workflow.name}', for its tables alone"
            )
    # A store that does not answer now may do so when it is needed.
    with suppress(StoreError):
        project.reach_stores(workflow, options, indexes=index_stage in stages)


def index_stage(project: Services, state: RunState) -> None:
    """Bring the snapshots up to date with the documents, and write the files that the workflow
    emits."""
    workflow = state.workflow
    loaded = loaded_rejects(project.runs.loaded(workflow.name), workflow.name, project.snapshots)
    with state.runner.workers or nullcontext():
        result = state.runner.run(workflow, state.run_id, loaded)
    emit(workflow, result.manifest, project.snapshots, project.output_folder / workflow.name)
    state.reject_ratio = result.reject_ratio
    state.unread_ratio = result.unread_ratio
    state.health = health(result.manifest.tables, project.snapshots, state.workflow)
    of_ontology = note_ontology(workflow, result.manifest.tables, project.snapshots.tables)
    state.decision_notes = (*of_ontology, *note_corrections(project, workflow))


def load_stage(project: Services, state: RunState) -> None:
    """Bring the stores up to date with the snapshots, or with those of the run that the options
    name.

    Do nothing if too many rows were rejected.
    """
    if state.above_max_rejects:
        return
    name = state.workflow.name
    run = state.options.manifest
    if run is None:
        manifest = project.snapshots.live_manifest(name)
    else:
        manifest = manifest_of(run, name, project.snapshots, project.runs.ids(name))
    if not manifest.tables:
        advice = project.snapshots.advise_without_tables(name, "graphmill load")
        raise UsageError(f"workflow '{name}': nothing to load; {advice}")
    views = _views_to_load(project, manifest, is_earlier=run is not None)
    started = time.perf_counter()
    state.runner.progress.load_started()
    state.load = {}
    # They are noted before the first write: a purge must know of all of them.
    fills = project.loads_into
    _load_workspace(project, manifest, state, fills)
    for view in views.loaded:
        _load_workspace(project.over_view(view), view_of(manifest, view), state, fills)
    notes = [*state.store_notes, *views.notes, *_notes_on_removed_views(project)]
    state.store_notes = tuple(dict.fromkeys(notes))
    state.load_seconds = round(time.perf_counter() - started, 3)
    state.runner.progress.load_finished(state.load, state.load_seconds)


@dataclass(frozen=True)
class _Views:
    """The views to load, and notes on views that are left as they are."""

    loaded: Sequence[str]
    notes: Sequence[str]


def _views_to_load(project: Services, manifest: Manifest, is_earlier: bool) -> _Views:
    """Find the views whose tables the manifest has, made by the present conditions.

    ``is_earlier`` is true for the manifest of a chosen run, which may be older than the view.
    Otherwise raises UsageError if a view is missing.
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
            if why:
                raise UsageError(why)
            raise UsageError(
                f"serve.views.{view}: workflow '{manifest.workflow}' has no tables of it as"
                f" settings have it; run 'graphmill run {manifest.workflow}'"
            )
    return _Views(loaded, notes)


def _load_workspace(
    project: Services, manifest: Manifest, state: RunState, fills: Sequence[Workspace]
) -> None:
    """Load the manifest's tables into the workspace of the settings.

    ``fills`` are all workspaces that the load stage fills. The workspace of a view may show another
    workflow, or another model's vectors. It is replaced like the workspace of the project: that was
    allowed just now, or by an earlier load that was interrupted before the view.
    """
    options, progress = state.options, state.runner.progress
    follows = bool(project.view)
    suffix = f" (view {project.view})" if project.view else ""

    def begins(lives: Sequence[Live | None]) -> None:
        LoadedWorkspaces(project.root).note(fills)
        note = loaded_elsewhere(project.settings.workspace, lives, project.place)
        # A load may begin several times; the note of its first beginning stays.
        if note:
            state.store_notes += (note,)

    def advanced(store: str, table: str, done: int, rows: int) -> None:
        progress.load_advanced(f"{store}{suffix}", table, done, rows)

    load_options = LoadOptions(
        replace=options.replace or follows,
        re_embed=options.re_embed or follows,
        full=options.full,
        take_over=() if follows else options.take_over,
    )
    counts = load(
        manifest,
        project.snapshots,
        project.stores.all,
        project.settings.stores.neo4j.max_types,
        load_options,
        advanced,
        Owner(project.owner, project.place),
        progress.load_waits,
        begins,
    )
    counts_so_far = dict(state.load or {})
    for store, tables in counts.items():
        counts_so_far[f"{store}{suffix}"] = tables
    state.load = counts_so_far
    notes = list(state.store_notes)
    for store in project.stores.all:
        notes += [f"{store.name}{suffix}: {note}" for note in store.notes()]
    state.store_notes = tuple(dict.fromkeys(notes))


def _notes_on_removed_views(project: Services) -> list[str]:
    """Return notes on workspaces that still show a view which settings no longer have."""
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
    """Return what runs the steps of the workflow with these options, as settings have it."""
    selection = options.selection
    if options.reconvert:
        converting = [step.id for step in workflow.steps if step.verb.roles_of(Converter)]
        selection = replace(selection, force=(*selection.force, *converting))
    resources, workers = project.resources, _processes(project)
    if project.settings.engine.kind == "dask":
        from pipeline.runs.worker import ship

        workers = cluster_of(project, partial(ship, project, workflow), progress.told)
        resources = replace(resources, converter=partial(_cluster_converter, project, workers))
    return Runner(
        resources,
        project.snapshots,
        progress,
        selection=selection,
        budget=Budget(options.max_cost, options.max_tokens),
        journal=journal,
        again=options.again,
        unended=options.unended,
        reconvert=options.reconvert,
        watch_memory=options.memory_profile,
        allow_deletes_of=options.allow_deletes_of,
        max_delete_ratio=None if options.allow_deletes else project.settings.max_delete_ratio,
        before_calls=before_calls,
        workers=workers,
        task_rows=project.settings.engine.task_rows,
        longest_reply=_longest_reply(project.usage_folder),
        run_without_calls=partial(run_quietly, project) if options.without_calls else None,
    )


def _longest_reply(usage: Path) -> Callable[[str], int]:
    """Return a function that gives the tokens of a step's longest good reply.

    The usage is read on its first call.
    """
    known = memoized(lambda: longest_replies(read_usage(usage)))
    return lambda step: known().get(step, 0)


def _cluster_converter(project: Services, cluster: "Cluster") -> Converter:
    """Return the converter of a run on a cluster. It keeps conversions as that of the project."""
    from pipeline.runs.cluster_conversions import ClusterConverter

    kept = project.converter
    return replace(kept, converter=ClusterConverter(cluster, kept.converter))


def _processes(project: Services) -> Workers | None:
    """Return the worker processes on this machine that settings name, or None for this one."""
    number = project.settings.engine.local_workers
    if number == 1:
        return None
    return Processes(number, partial(_workplace, project.root, project.settings))


def cluster_of(
    project: Services, ship: Callable[[], bytes], tell: Callable[[str], None]
) -> "Cluster":
    """Return the cluster that settings name. Raises UsageError if Dask is not installed."""
    try:
        from pipeline.engine.cluster import Cluster
    except ImportError as error:
        raise UsageError(
            f"engine.kind: dask: {in_words(error)}; {install_extra('dask')}"
        ) from error
    from pipeline.runs.worker import facts

    engine = project.settings.engine
    certificates: dict[str, str] = {}
    for name, file in engine.tls.model_dump().items():
        # "" stands for a file that is not set.
        certificates[name] = str(project.root / file) if file else ""
    return Cluster(
        address=engine.address,
        number=None if engine.workers == "adaptive" else engine.workers,
        wait_seconds=engine.wait_seconds,
        tls=certificates,
        facts=facts(),
        ship=ship,
        snapshots=project.snapshots,
        tell=tell,
    )


def _workplace(root: Path, settings: Settings) -> Workplace:
    """Open the project once in a worker process."""
    project = Services(root, settings)
    return Workplace(memoized(project.workflow), project.resources, project.snapshots)
