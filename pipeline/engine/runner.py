"""Execute a workflow: plan each step, reuse or run it, write its tables, record the step last.

How a step recomputes no more than what changed is in engine/changed_groups.py and
docs/incremental.md.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

import pandas as pd

from pipeline.contract.conversion import Converter
from pipeline.contract.fingerprint import fingerprint
from pipeline.contract.laws import Part
from pipeline.contract.reasons import PASSING_REASONS, refuse_unknown_reasons
from pipeline.contract.registry import LastTables
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.engine.bill.counting_models import forget_replies
from pipeline.engine.changed_groups import (
    Groups,
    LastRun,
    find_last_run,
    outputs_of,
    read_last_tables,
)
from pipeline.engine.documents.deletions import (
    DOCUMENTS,
    changes_between,
    documents_before,
    refuse_deletions,
)
from pipeline.engine.documents.kept_documents import last_documents, record_before, with_kept
from pipeline.engine.documents.row_deletions import (
    GUARDED,
    refuse_imported_deletions,
    refuse_input_deletions,
    refuse_row_deletions,
)
from pipeline.engine.extraction_check import refuse_all_empty
from pipeline.engine.losses import (
    RECOVERED,
    decided,
    lost,
    no_input,
    refuse_nothing,
    reject_ratio,
    trades,
    unread_ratio,
)
from pipeline.engine.memory import PeakMemory
from pipeline.engine.plan import (
    PlannedStep,
    Planner,
    examine_source,
    tables_of,
    update_stamp,
    version_of,
)
from pipeline.engine.reply_lengths import lengths_of
from pipeline.engine.resources import Model, Resources
from pipeline.engine.run_options import ALL, Rows, Selection, rows_to_ask_again
from pipeline.engine.run_report import Action, Progress, StepReport
from pipeline.engine.tasks import InBuckets, Workers, Workplace, works_in_buckets
from pipeline.engine.usage.journal import Journal
from pipeline.engine.usage.run_budget import Budget, Meter, metered, refuse_unpriced
from pipeline.engine.workflow import (
    IMPORTED_DOCUMENTS,
    INPUT_DOCUMENTS,
    LOADER,
    READ_TABLE,
    REJECTS,
    Step,
    Workflow,
)
from pipeline.errors import BudgetError, DataError, WaitingError, counted
from pipeline.models.base import Listener, Repeats, ServedModel
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord
from pipeline.spans import span

MOST_READINGS = 3
"""The number of times that a step reads its source, if that is written to while it is read."""


@dataclass(frozen=True)
class Unasked:
    """A step that was run without asking an endpoint.

    ``record``: that of its tables. ``waiting``: the number of requests that wait for the next run.
    ``noted``: the record that the manifest has of the step, from which the next run goes on.
    """

    record: StepRecord
    waiting: int
    noted: StepRecord


AskNobody = Callable[[Workflow, PlannedStep, Mapping[str, Snapshot], Manifest], Unasked]
"""Runs a step that would ask an endpoint, without asking: (workflow, plan of the step, tables,
manifest of the last run) -> the step as it is then."""


@dataclass(frozen=True)
class IndexResult:
    """The result of a run: a report of each step, and the manifest that was published.

    ``reject_ratio``: the share of lost rows or records in the worst step. ``unread_ratio``: the
    share of what sources could not read, whenever that began (engine/losses.py).
    """

    steps: tuple[StepReport, ...]
    manifest: Manifest
    reject_ratio: float
    unread_ratio: float = 0.0


@dataclass(frozen=True)
class Execution:
    """An execution of a step.

    ``planned``: the plan whose fingerprint holds what the step has read. ``outputs``: the tables by
    the verb's names. ``is_stable``: whether nothing that the step reads outside of its tables was
    written to meanwhile.
    """

    planned: PlannedStep
    outputs: dict[str, Snapshot]
    is_stable: bool


@dataclass
class VerbCalls:
    """Calls the verb of one step in a run, with its models and converters metered.

    ``previous``: the manifest of the last run. ``last_tables``: what the step wrote then, for a
    verb that asks for it. ``repeats``: chooses the rows and files that are asked for again.
    ``latest_inputs``: the inputs of the latest call; empty before the first one.
    """

    runner: "Runner"
    previous: Manifest
    last_tables: LastTables
    meter: Meter
    repeats: Repeats | None
    latest_inputs: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    def call(
        self,
        step: Step,
        part: Part,
        inputs: Mapping[str, pd.DataFrame],
        groups: Groups | None,
    ) -> Mapping[str, pd.DataFrame]:
        """Return the outputs of the sub-step for these inputs, with the documents that are kept."""
        self.latest_inputs = inputs
        self.meter.documents = _documents_of_rows(inputs.values())
        self.meter.lengths = lengths_of(step, inputs, self.runner.longest_reply)
        wrap = partial(metered, meter=self.meter, repeats=self.repeats)
        frames = self.runner.resources.call(step, inputs, wrap, self.meter, self.last_tables, part)
        return with_kept(
            step, frames, self.previous, self.runner.snapshots, law=part.law, groups=groups
        )


@dataclass
class Runner:
    """Runs workflows on one snapshot store.

    - ``again``: rows that are asked for once more, by step, though the step has nothing new.
      ``unended``: those of them whose replies without an end mark are asked for again.
    - ``reconvert``: convert all files again.
    - ``max_delete_ratio``: the share of the last run's documents that may be gone; None for any.
    - ``before_calls``: called when models of an endpoint will be needed; an error ends the run.
    - ``workers``: other processes that recompute buckets of a step; None for this process alone.
      ``task_rows``: the number of rows from which a step is divided into buckets (engine/tasks.py).
    - ``longest_reply``: returns the tokens of the longest good reply of a step in earlier runs.
    - ``ask_nobody``: runs steps that would ask an endpoint; None for an ordinary run, which asks.

    ``reports`` grows as steps finish, so that what was done is known even when a later step raises.
    ``documents`` counts the documents that are new, edited and gone, and all. ``noted``: the
    records of steps of which something waits, as the manifest has them.
    """

    resources: Resources
    snapshots: SnapshotStore
    progress: Progress
    selection: Selection = ALL
    budget: Budget = field(default_factory=Budget)
    journal: Journal | None = None
    again: Rows = field(default_factory=dict)
    unended: Rows = field(default_factory=dict)
    reconvert: bool = False
    watch_memory: bool = False
    max_delete_ratio: float | None = None
    before_calls: Callable[[], None] | None = None
    workers: Workers | None = None
    task_rows: int | None = None
    longest_reply: Callable[[str], int] = lambda step: 0
    ask_nobody: AskNobody | None = None
    reports: list[StepReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    documents: dict[str, int] = field(default_factory=dict)
    noted: dict[str, StepRecord] = field(default_factory=dict)

    def run(
        self, workflow: Workflow, run_id: str, loaded: pd.DataFrame | None = None
    ) -> IndexResult:
        """Run the steps that must run, and publish the manifest under the run's id.

        ``loaded``: the rejects of the tables that the stores were last loaded with; None before the
        first load.

        Raises AuthError or ModelError, before any work, when a model that will be needed cannot
        work; DataError when a verb breaks its schema, or nothing was extracted; DeletionError when
        too many documents are gone; BudgetError and WaitingError when the run has to stop before
        its end.
        """
        self.selection.check(workflow)
        previous = self.snapshots.manifest(workflow.name)
        before = documents_before(workflow, self.snapshots)
        planner = Planner(
            workflow, self.resources, self.snapshots, self.selection, self.again, previous.steps
        )
        # A run that asks nobody must not even look whether an endpoint is there.
        models = [] if self.ask_nobody else self._preflight(planner.all())
        try:
            return self._run_steps(workflow, run_id, loaded, planner, previous, before)
        finally:
            notes = [model.note() for model in models if isinstance(model, ServedModel)]
            self.notes += dict.fromkeys(filter(None, notes))

    def _run_steps(
        self,
        workflow: Workflow,
        run_id: str,
        loaded: pd.DataFrame | None,
        planner: Planner,
        previous: Manifest,
        before: Snapshot | None,
    ) -> IndexResult:
        """Run or reuse each step and publish the manifest.

        ``previous``: the manifest of the last run; ``before``: its documents.
        """
        tables: dict[str, Snapshot] = {}
        records: dict[str, StepRecord] = {}
        rejected: list[pd.DataFrame] = []
        worst = unread = 0.0
        for position, step in enumerate(workflow.steps, start=1):
            self.progress.step_started(step.id, position, len(workflow.steps))
            planned = planner.plan(step, tables)
            with span("graphmill.step", step=step.id, verb=step.verb.name):
                record, report = self._reuse_or_run(planner, planned, workflow, tables, previous)
            tables |= tables_of(step, record)
            records[step.id] = self.noted.get(step.id, record)
            rejects = self._read_rejects(record.outputs)
            rejected.append(rejects.assign(step=step.id))
            worst = max(worst, reject_ratio(step, record, tables, rejects, loaded))
            if not step.verb.inputs:
                unread = max(unread, unread_ratio(step, record, rejects))
            self.reports.append(_complete_report(report, step, record, rejects))
            self.progress.step_finished(self.reports[-1])
            if step.verb.name == READ_TABLE and self.max_delete_ratio is not None:
                before_tables = last_documents(step, previous.steps, self.snapshots)
                refuse_row_deletions(
                    self.snapshots,
                    before_tables,
                    record.outputs[DOCUMENTS],
                    rejects,
                    self.max_delete_ratio,
                )
            if step.verb.name == LOADER and self.max_delete_ratio is not None:
                refuse_input_deletions(
                    self.snapshots,
                    last_documents(step, previous.steps, self.snapshots),
                    record.outputs[DOCUMENTS],
                    [source.name for source in getattr(step.params, "inputs", ())],
                    self.max_delete_ratio,
                )
            if step.verb.name in GUARDED and self.max_delete_ratio is not None:
                last = record_before(step, previous.steps, self.snapshots)
                rows = {name: snapshot.rows for name, snapshot in record.outputs.items()}
                refuse_imported_deletions(step.verb.name, last, rows, self.max_delete_ratio)
            for table in (INPUT_DOCUMENTS, IMPORTED_DOCUMENTS):
                if table in step.outputs.values() and self.max_delete_ratio is not None:
                    # A few files beside a large index may all be gone: the ratio of all is small.
                    refuse_deletions(
                        self.snapshots,
                        workflow.name,
                        previous.tables.get(table),
                        tables[table],
                        self.max_delete_ratio,
                    )
            if step.outputs.get(DOCUMENTS) == DOCUMENTS:
                self._check_documents(workflow, before, tables[DOCUMENTS])
        self.notes += trades(workflow, pd.concat(rejected))
        tables[REJECTS] = self._write_rejects(rejected)
        manifest = Manifest(workflow.name, tables, records)
        self.snapshots.publish(manifest, run_id)
        return IndexResult(tuple(self.reports), manifest, worst, unread)

    def _check_documents(
        self, workflow: Workflow, before: Snapshot | None, after: Snapshot
    ) -> None:
        """Count the documents; raise DeletionError if too many of the last run's are gone."""
        if self.max_delete_ratio is not None:
            refuse_deletions(self.snapshots, workflow.name, before, after, self.max_delete_ratio)
        self.documents = self._count_documents(before, after)

    def _count_documents(self, before: Snapshot | None, after: Snapshot) -> dict[str, int]:
        """Return the number of documents that are new, edited and gone, and of all.

        Only ``all`` is returned where the table of the last run is damaged.
        """
        if before == after:
            return {"new": 0, "edited": 0, "gone": 0, "all": after.rows}
        try:
            changes = changes_between(self.snapshots, before, after)
        except DataError:
            return {"all": after.rows}
        return {**changes.counts, "all": after.rows}

    def _preflight(self, planned: list[PlannedStep]) -> list[Model]:
        """Check every model that may be asked, wait for servers that are starting, and return these
        models.

        Raises UsageError when a limit of costs is set and a model has no price.
        """
        models: dict[int, Model] = {}
        for entry in planned:
            if entry.action == "reuse":
                continue
            for model in self.resources.models_of(entry.step).values():
                models[id(model)] = model
        for model in models.values():
            if self.budget.max_cost is not None:
                refuse_unpriced(model)
            if isinstance(model, ServedModel):
                model.begin_run(self.progress.told)
            else:
                model.preflight()
        if self.before_calls and any(hasattr(model, "cost") for model in models.values()):
            self.before_calls()
        return list(models.values())

    def _reuse_or_run(
        self,
        planner: Planner,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        previous: Manifest,
    ) -> tuple[StepRecord, StepReport]:
        """Return the record of the step and its report, which has no rows and rejects yet.

        A step that raises is reported, too, as failed, stopped or waiting.
        """
        started = time.perf_counter()
        step = planned.step
        meter = Meter(
            step.id,
            lambda done, expected: self.progress.step_advanced(step.id, done, expected),
            self.budget,
            self.journal,
            tell=self.progress.told,
        )
        memory = PeakMemory() if self.watch_memory else None
        waiting = 0
        try:
            if self.ask_nobody is None:
                planned = self._with_format(planner, planned, tables, meter)
                settle_batches(planned, self.resources, meter)
            with memory or nullcontext():
                record = planned.record
                if record is None and self.ask_nobody and self.resources.asks_elsewhere(step):
                    unasked = self.ask_nobody(workflow, planned, tables, previous)
                    record, waiting = unasked.record, unasked.waiting
                    self.noted[step.id] = unasked.noted
                elif record is None:
                    record = self._run_step(planned, workflow, tables, previous, meter)
        except BaseException as error:
            seconds = time.perf_counter() - started
            self.reports.append(_report_step(planned, _action_of_error(error), meter, seconds))
            raise
        action: Action = "reused" if planned.record else "ran"
        report = _report_step(planned, action, meter, time.perf_counter() - started)
        peak = memory.megabytes if memory else None
        return record, replace(report, peak_mb=peak, waiting=waiting)

    def _with_format(
        self, planner: Planner, planned: PlannedStep, tables: Mapping[str, Snapshot], meter: Meter
    ) -> PlannedStep:
        """Return the plan of the step with the format of its replies decided; where that takes a
        trial, ask for it.

        A step that is reused, or has no row to ask about, needs no format.
        """
        step = planned.step
        decide = self.resources.decide_format
        if decide is None or not step.format_undecided or planned.action == "reuse":
            return planned
        if step.verb.rowwise is None:
            return planned
        rows_to_ask_about = tables[step.inputs[step.verb.rowwise]].rows
        if rows_to_ask_about == 0:
            return planned
        return planner.plan(decide(step, meter), tables)

    def _run_step(
        self,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        previous: Manifest,
        meter: Meter,
    ) -> StepRecord:
        """Execute the step, check what it wrote, and return its record, which is stored last.

        Raises DataError when a source wrote no document, or a reject has an undeclared reason.
        """
        execution = self._execute_until_stable(planned, workflow, tables, previous, meter)
        step, outputs = execution.planned.step, execution.outputs
        retry = not execution.is_stable
        rejects = self._read_rejects(outputs)
        refuse_nothing(step, outputs, rejects)
        if len(rejects):
            refuse_unknown_reasons(rejects["reason"], f"step '{step.id}'", step.verb.reasons)
            has_transient_errors = bool(rejects["reason"].isin(sorted(PASSING_REASONS)).any())
            retry = retry or has_transient_errors
        components = execution.planned.components
        record = StepRecord(step.id, fingerprint(components), components, outputs, retry)
        self.snapshots.save_record(record)
        # Notes of finished buckets are not needed once the record is there. A source keeps them:
        # it runs every time, perhaps before the step whose run was killed.
        if works_in_buckets(step, self.resources):
            self.snapshots.tasks.clear()
        return record

    def _execute_until_stable(
        self,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        previous: Manifest,
        meter: Meter,
    ) -> Execution:
        """Execute the step; execute it again while files that it reads are written to meanwhile.

        After MOST_READINGS executions the last one is returned with a fingerprint that no later run
        reuses. Raises DataError when a model answered for every row and nothing was extracted.
        """
        step = planned.step
        repeats = rows_to_ask_again(step.id, self.again, self.unended)
        if self.reconvert and step.verb.roles_of(Converter):
            repeats = _every_file
        last_tables = read_last_tables(planned, previous, self.snapshots)
        last = find_last_run(planned, previous, self.snapshots)
        calls = VerbCalls(self, previous, last_tables, meter, repeats)
        reading = 1
        while True:
            planned = update_stamp(planned)
            version_read = version_of(planned.step)
            outputs = self._execute(planned, workflow, tables, last, calls)
            seen_after = examine_source(planned.step, previous.steps, self.snapshots)
            is_stable = version_of(seen_after) == version_read
            if is_stable or reading == MOST_READINGS:
                break
            planned = replace(planned, step=seen_after)
            reading += 1
        if step.models:
            self._refuse_all_empty(step, calls.latest_inputs, outputs)
        self._note_execution(step, meter, is_stable)
        return Execution(update_stamp(planned, is_stable), outputs, is_stable)

    def _execute(
        self,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        last: LastRun,
        calls: VerbCalls,
    ) -> dict[str, Snapshot]:
        """Execute the step once: recompute the groups that changed since the last run."""
        make = partial(calls.call, planned.step)
        in_buckets = self._in_buckets(planned, workflow, calls.meter)
        return outputs_of(
            planned.step,
            tables,
            last,
            self.snapshots,
            make,
            in_buckets.outputs if in_buckets else None,
        )

    def _in_buckets(
        self, planned: PlannedStep, workflow: Workflow, meter: Meter
    ) -> InBuckets | None:
        """Return what recomputes the step in buckets, in this process or in the workers.

        None is returned for a step that other processes cannot recompute from its tables alone.
        """
        if not works_in_buckets(planned.step, self.resources):
            return None
        steps = {(workflow.name, planned.step.id): planned.step}
        here = Workplace(lambda _: workflow, self.resources, self.snapshots, steps)
        return InBuckets(
            workflow=workflow.name,
            step=planned.step,
            components=planned.components,
            snapshots=self.snapshots,
            do=self.workers.do if self.workers else here.do_each,
            expect=meter.expect,
            finished=meter.finished,
            task_rows=self.task_rows,
        )

    def _refuse_all_empty(
        self, step: Step, inputs: Mapping[str, pd.DataFrame], outputs: Mapping[str, Snapshot]
    ) -> None:
        """Raise DataError if nothing was extracted, and delete these replies from the cache."""
        try:
            refuse_all_empty(inputs, outputs, self.snapshots)
        except DataError:
            forget_replies(step, inputs, self.resources)
            raise

    def _note_execution(self, step: Step, meter: Meter, is_stable: bool) -> None:
        """Note conversions by another converter than today's, and a source that kept changing."""
        for converter, files in sorted(meter.converters.items()):
            self.notes.append(
                f"{step.id}: {counted(files, 'file')} as {converter} converted them; 'graphmill run"
                " --reconvert' converts them again"
            )
        if not is_stable:
            self.notes.append(
                f"{step.id}: what it reads was written to while it was read; the next run reads it"
                " again"
            )

    def _read_rejects(self, outputs: Mapping[str, Snapshot]) -> pd.DataFrame:
        if REJECTS not in outputs or not outputs[REJECTS].rows:
            return REJECTS_SCHEMA.frame()
        return self.snapshots.tables.read(outputs[REJECTS])

    def _write_rejects(self, rejected: list[pd.DataFrame]) -> Snapshot:
        """Write the rejects of all steps as the workflow's table of rejects."""
        frames = [frame for frame in rejected if len(frame)]
        no_rejects = REJECTS_SCHEMA.frame()
        gathered = pd.concat(frames, ignore_index=True) if frames else no_rejects
        rows = REJECTS_SCHEMA.encode(gathered, "rejects")
        return self.snapshots.tables.write(REJECTS, rows, REJECTS_SCHEMA.order)


def _every_file(file: str) -> bool:
    """Choose each file to be converted again."""
    return True


def _action_of_error(error: BaseException) -> Action:
    """Return how a step ended that raised this error."""
    if isinstance(error, WaitingError):
        return "waiting"
    if isinstance(error, BudgetError | KeyboardInterrupt):
        return "stopped"
    return "failed"


def _documents_of_rows(inputs: Iterable[pd.DataFrame]) -> dict[str, str]:
    """Map the ids of rows to the document they come from, for tables that have both columns."""
    known = {}
    for frame in inputs:
        if {"id", "document_id"} <= set(frame.columns):
            known |= dict(zip(frame["id"], frame["document_id"], strict=True))
    return known


def _report_step(planned: PlannedStep, action: Action, meter: Meter, seconds: float) -> StepReport:
    return StepReport(
        step=planned.step.id,
        verb=planned.step.verb.name,
        action=action,
        reason=planned.reason,
        calls=meter.calls,
        throttled_calls=meter.throttled_calls,
        cached_calls=meter.cached_calls,
        estimated_calls=meter.estimated_calls,
        input_tokens=meter.input_tokens,
        output_tokens=meter.output_tokens,
        cost=meter.cost,
        conversions=dict(meter.conversions),
        converted_bytes=meter.converted_bytes,
        conversion_seconds=round(meter.conversion_seconds, 3),
        seconds=round(seconds, 3),
    )


def _complete_report(
    report: StepReport, step: Step, record: StepRecord, rejects: pd.DataFrame
) -> StepReport:
    """Return the report with the rows that the step wrote and its rejects."""
    rows = {name: snapshot.rows for name, snapshot in tables_of(step, record).items()}
    if rejects.empty:
        # Most steps have no rejects, and each count below takes a millisecond, also of no rows.
        return replace(report, rows=rows)
    missing = lost(rejects, step.verb.reasons)
    by_rule = decided(rejects, step.verb.reasons)
    is_recovered = rejects["kind"] == RECOVERED
    return replace(
        report,
        rows=rows,
        rejects=len(missing),
        recovered=int(is_recovered.sum()),
        reject_reasons=_count_by_reason(missing),
        decided=len(by_rule),
        decided_reasons=_count_by_reason(by_rule),
        not_read=no_input(rejects),
    )


def _count_by_reason(rejects: pd.DataFrame) -> dict[str, int]:
    """Return the number of rejects with each reason, the most frequent first."""
    counts = rejects["reason"].value_counts()
    return {str(reason): int(count) for reason, count in counts.items()}


def settle_batches(planned: PlannedStep, resources: Resources, listener: Listener) -> None:
    """Keep the replies of the step's earlier batches, and cancel batches that no step asks for.

    Nothing is done for a step that goes on in batches. ``listener``: receives what replies have
    cost.
    """
    step = planned.step
    goes_on = planned.action != "reuse" and step.execution == "batch"
    if resources.settle_batches and not goes_on:
        for name in resources.chat_names(step):
            resources.settle_batches(name, listener)
