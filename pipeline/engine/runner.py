"""Execute a workflow: plan each step, reuse or run it, write its tables, record the step last.

How a step recomputes no more than what changed is in engine/changed_groups.py and
docs/incremental.md.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
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
    find_documents_before,
    refuse_deletions,
)
from pipeline.engine.documents.input_deletions import (
    InputLimits,
    find_limits,
    refuse_input_deletions,
)
from pipeline.engine.documents.kept_documents import (
    find_last_documents,
    find_last_record,
    with_kept,
)
from pipeline.engine.documents.row_deletions import (
    GUARDED,
    refuse_imported_deletions,
    refuse_row_deletions,
)
from pipeline.engine.extraction_check import refuse_all_empty
from pipeline.engine.losses import (
    RECOVERED,
    count_no_input,
    note_trades,
    refuse_nothing,
    reject_ratio,
    select_decided,
    select_lost,
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
"""The largest number of times that a step reads its source, if that changes while it is read."""


@dataclass(frozen=True)
class StepWithoutCalls:
    """A step that was run without asking an endpoint.

    - ``record``: describes the tables as they are now.
    - ``waiting``: the number of requests that wait for the next run.
    - ``record_for_manifest``: goes into the manifest in place of ``record``, so that the next run
      asks for what waits.
    """

    record: StepRecord
    waiting: int
    record_for_manifest: StepRecord


RunWithoutCalls = Callable[
    [Workflow, PlannedStep, Mapping[str, Snapshot], Manifest], StepWithoutCalls
]
"""A function that runs a step without asking the endpoint of its model: (workflow, plan of the
step, tables, manifest of the last run) -> the step as it is then."""


@dataclass(frozen=True)
class IndexResult:
    """The result of a run: a report of each step, and the manifest that was published.

    ``reject_ratio``: the share of lost rows or records in the step that lost most.
    ``unread_ratio``: the share of inputs that the worst source could not read, in this run or since
    an earlier one (engine/losses.py).
    """

    steps: tuple[StepReport, ...]
    manifest: Manifest
    reject_ratio: float
    unread_ratio: float = 0.0


@dataclass(frozen=True)
class Execution:
    """An execution of a step.

    ``planned``: the plan whose fingerprint holds what the step has read. ``outputs``: the tables by
    the verb's names. ``is_stable``: whether the sources of the step stayed the same while it ran.
    """

    planned: PlannedStep
    outputs: dict[str, Snapshot]
    is_stable: bool


@dataclass
class VerbCalls:
    """Calls the verb of one step in a run, with its models and converters metered.

    ``last_manifest``: the manifest of the last run. ``last_tables``: what the step wrote then, for
    a verb that asks for it. ``repeats``: chooses the rows and files that are asked for again.
    ``latest_inputs``: the inputs of the latest call; empty before the first one.
    """

    runner: "Runner"
    last_manifest: Manifest
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
            step, frames, self.last_manifest, self.runner.snapshots, law=part.law, groups=groups
        )


@dataclass
class Runner:
    """Runs workflows on one snapshot store.

    - ``resources``: the models, prompts and converters of the steps.
    - ``progress``: is told what is done.
    - ``selection``: the steps that the run is limited to.
    - ``budget``: stops the run at a cost or a number of tokens.
    - ``journal``: keeps what each call of a model used; None keeps nothing.
    - ``again``: the rows, by step, whose bad replies are asked for once more, though the step has
      nothing new.
    - ``unended``: those rows of ``again`` of which good replies without an end mark are asked for
      again too.
    - ``reconvert``: convert all files again.
    - ``watch_memory``: report the largest memory that each step took.
    - ``max_delete_ratio``: the share of the last run's documents that may be gone; None for any.
    - ``allow_deletes_of``: the inputs whose documents may be gone in any number.
    - ``before_calls``: is called when models of an endpoint will be needed; an error ends the run.
    - ``workers``: other processes that recompute buckets of a step; None for this process alone.
    - ``task_rows``: the number of rows from which on a step is divided into buckets
      (engine/tasks.py).
    - ``longest_reply``: returns the tokens of the longest good reply of a step in earlier runs.
    - ``run_without_calls``: runs the steps that would ask an endpoint; None for an ordinary run,
      which asks.

    The others are results. They grow as steps finish, so that what was done is known even when a
    later step raises.

    - ``reports``: a report of each step.
    - ``notes``: messages for the report of the run.
    - ``documents``: the numbers of documents that are new, edited and gone, and of all.
    - ``records_for_manifest``: the records that the manifest gets of steps of which something
      waits.
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
    allow_deletes_of: Collection[str] = ()
    before_calls: Callable[[], None] | None = None
    workers: Workers | None = None
    task_rows: int | None = None
    longest_reply: Callable[[str], int] = lambda step: 0
    run_without_calls: RunWithoutCalls | None = None
    reports: list[StepReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    documents: dict[str, int] = field(default_factory=dict)
    records_for_manifest: dict[str, StepRecord] = field(default_factory=dict)

    def run(
        self, workflow: Workflow, run_id: str, loaded_rejects: pd.DataFrame | None = None
    ) -> IndexResult:
        """Run the steps that must run, and publish the manifest under the run's id.

        ``loaded_rejects``: the rejects of the tables that the stores were last loaded with; None
        before the first load.

        These errors are raised before any work:

        - UsageError when a step is not known, an input of ``allow_deletes_of`` is not known, or a
          model has no price and costs are limited.
        - AuthError or ModelError when a model that will be needed cannot work.

        These are raised later:

        - DataError when a verb breaks its schema, or nothing was extracted.
        - DeletionError when too many documents are gone.
        - BudgetError or WaitingError when the run has to stop before its end.
        """
        self.selection.check(workflow)
        last_manifest = self.snapshots.manifest(workflow.name)
        documents_before = find_documents_before(workflow, self.snapshots)
        limits = find_limits(workflow, self.allow_deletes_of)
        limits.refuse_unknown(self.snapshots, documents_before)
        planner = Planner(
            workflow,
            self.resources,
            self.snapshots,
            self.selection,
            self.again,
            last_manifest.steps,
        )
        # A run that asks no endpoint must not even look whether one is there.
        models = [] if self.run_without_calls else self._preflight(planner.all())
        try:
            return self._run_steps(
                workflow, run_id, loaded_rejects, planner, last_manifest, documents_before, limits
            )
        finally:
            notes = [model.note() for model in models if isinstance(model, ServedModel)]
            self.notes += dict.fromkeys(filter(None, notes))

    def _run_steps(
        self,
        workflow: Workflow,
        run_id: str,
        loaded_rejects: pd.DataFrame | None,
        planner: Planner,
        last_manifest: Manifest,
        documents_before: Snapshot | None,
        limits: InputLimits,
    ) -> IndexResult:
        """Run or reuse each step and publish the manifest.

        ``documents_before``: the documents of the last run; ``limits``: how many of them each
        input may lose.
        """
        tables: dict[str, Snapshot] = {}
        records: dict[str, StepRecord] = {}
        rejects_of_steps: list[pd.DataFrame] = []
        worst_reject_ratio = 0.0
        worst_unread_ratio = 0.0
        for position, step in enumerate(workflow.steps, start=1):
            self.progress.step_started(step.id, position, len(workflow.steps))
            planned = planner.plan(step, tables)
            with span("graphmill.step", step=step.id, verb=step.verb.name):
                record, report = self._reuse_or_run(
                    planner, planned, workflow, tables, last_manifest
                )
            tables |= tables_of(step, record)
            # The manifest gets another record of a step of which something waits: from it, the
            # next run goes on.
            records[step.id] = self.records_for_manifest.get(step.id, record)
            rejects = self._read_rejects(record.outputs)
            rejects_of_steps.append(rejects.assign(step=step.id))
            ratio = reject_ratio(step, record, tables, rejects, loaded_rejects)
            worst_reject_ratio = max(worst_reject_ratio, ratio)
            is_source = not step.verb.inputs
            if is_source:
                worst_unread_ratio = max(worst_unread_ratio, unread_ratio(step, record, rejects))
            self.reports.append(_complete_report(report, step, record, rejects))
            self.progress.step_finished(self.reports[-1])
            self._guard_deletions(workflow.name, step, record, rejects, last_manifest, limits)
            writes_documents = step.outputs.get(DOCUMENTS) == DOCUMENTS
            if writes_documents:
                documents = tables[DOCUMENTS]
                self._guard_all_documents(workflow.name, documents_before, documents, limits)
                self.documents = self._count_documents(documents_before, documents)
        self.notes += note_trades(workflow, pd.concat(rejects_of_steps))
        tables[REJECTS] = self._write_rejects(rejects_of_steps)
        manifest = Manifest(workflow.name, tables, records)
        self.snapshots.publish(manifest, run_id)
        reports = tuple(self.reports)
        return IndexResult(reports, manifest, worst_reject_ratio, worst_unread_ratio)

    def _guard_deletions(
        self,
        workflow: str,
        step: Step,
        record: StepRecord,
        rejects: pd.DataFrame,
        last_manifest: Manifest,
        limits: InputLimits,
    ) -> None:
        """Raise DeletionError if too much is gone of one part of what a source gave last time.

        A part may be gone as a whole and still be a small share of all documents, which
        `_guard_all_documents` looks at.
        """
        if self.max_delete_ratio is None:
            return
        verb = step.verb.name
        if verb == READ_TABLE:
            # The rows of one table: its file may be a broken export.
            refuse_row_deletions(
                self.snapshots,
                find_last_documents(step, last_manifest.steps, self.snapshots),
                record.outputs[DOCUMENTS],
                rejects,
                self.max_delete_ratio,
            )
        if verb == LOADER:
            # The documents of one input: it may be a database that is just filled anew.
            refuse_input_deletions(
                self.snapshots,
                find_last_documents(step, last_manifest.steps, self.snapshots),
                record.outputs[DOCUMENTS],
                limits,
                self.max_delete_ratio,
            )
        if verb in GUARDED:
            # The rows of one file of another tool's index: the tool may be writing it.
            last_record = find_last_record(step, last_manifest.steps, self.snapshots)
            rows = {name: snapshot.rows for name, snapshot in record.outputs.items()}
            refuse_imported_deletions(verb, last_record, rows, self.max_delete_ratio)
        tables = tables_of(step, record)
        for table in (INPUT_DOCUMENTS, IMPORTED_DOCUMENTS):
            if table in tables:
                # The files, or the documents of an imported index, where a workflow has both.
                refuse_deletions(
                    self.snapshots,
                    workflow,
                    last_manifest.tables.get(table),
                    tables[table],
                    self.max_delete_ratio,
                    limits.apart,
                )

    def _guard_all_documents(
        self, workflow: str, before: Snapshot | None, after: Snapshot, limits: InputLimits
    ) -> None:
        """Raise DeletionError if too many of all documents of the last run are gone."""
        if self.max_delete_ratio is not None:
            refuse_deletions(
                self.snapshots, workflow, before, after, self.max_delete_ratio, limits.apart
            )

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
        """Check the models that may be asked, and return them. Wait for servers that are starting.

        Raises UsageError when a limit of costs is set and a model has no price.
        """
        steps = [entry.step for entry in planned if entry.action != "reuse"]
        # Several steps may share a model, which is checked once. Not every model can be hashed, so
        # it is known by its identity as an object.
        models: dict[int, Model] = {}
        for step in steps:
            for model in self.resources.models_of(step).values():
                models[id(model)] = model
        for model in models.values():
            if self.budget.max_cost is not None:
                refuse_unpriced(model)
            if isinstance(model, ServedModel):
                model.begin_run(self.progress.told)
            else:
                model.preflight()
        asks_endpoint = any(self.resources.asks_elsewhere(step) for step in steps)
        if self.before_calls and asks_endpoint:
            self.before_calls()
        return list(models.values())

    def _reuse_or_run(
        self,
        planner: Planner,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        last_manifest: Manifest,
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
            if self.run_without_calls is None:
                planned = self._decide_format(planner, planned, tables, meter)
                _collect_earlier_batches(planned, self.resources, meter)
            with memory or nullcontext():
                record = planned.record
                asks_endpoint = record is None and self.resources.asks_elsewhere(step)
                if asks_endpoint and self.run_without_calls:
                    ran = self.run_without_calls(workflow, planned, tables, last_manifest)
                    record, waiting = ran.record, ran.waiting
                    self.records_for_manifest[step.id] = ran.record_for_manifest
                elif record is None:
                    record = self._run_step(planned, workflow, tables, last_manifest, meter)
        except BaseException as error:
            seconds = time.perf_counter() - started
            self.reports.append(_report_step(planned, _action_of_error(error), meter, seconds))
            raise
        action: Action = "reused" if planned.record else "ran"
        report = _report_step(planned, action, meter, time.perf_counter() - started)
        peak = memory.megabytes if memory else None
        return record, replace(report, peak_mb=peak, waiting=waiting)

    def _decide_format(
        self, planner: Planner, planned: PlannedStep, tables: Mapping[str, Snapshot], meter: Meter
    ) -> PlannedStep:
        """Return the plan of the step with the format of its replies decided, if need be by a call
        that tries it.

        A step that is reused, or has no row to ask about, needs no format.
        """
        step = planned.step
        decide = self.resources.decide_format
        if decide is None or not step.format_undecided or planned.action == "reuse":
            return planned
        row_input = step.verb.rowwise
        if row_input is None:
            return planned
        rows_to_ask_about = tables[step.inputs[row_input]].rows
        if rows_to_ask_about == 0:
            return planned
        return planner.plan(decide(step, meter), tables)

    def _run_step(
        self,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        last_manifest: Manifest,
        meter: Meter,
    ) -> StepRecord:
        """Execute the step, check what it wrote, and return its record, which is stored last.

        Raises DataError when a source wrote no document, or a reject has an undeclared reason.
        """
        execution = self._execute_until_stable(planned, workflow, tables, last_manifest, meter)
        step, outputs = execution.planned.step, execution.outputs
        rejects = self._read_rejects(outputs)
        refuse_nothing(step, outputs, rejects)
        has_passing_errors = False
        if len(rejects):
            refuse_unknown_reasons(rejects["reason"], f"step '{step.id}'", step.verb.reasons)
            has_passing_errors = bool(rejects["reason"].isin(PASSING_REASONS).any())
        must_run_again = has_passing_errors or not execution.is_stable
        components = execution.planned.components
        record = StepRecord(step.id, fingerprint(components), components, outputs, must_run_again)
        self.snapshots.save_record(record)
        # Once the record is there, it is no longer needed to know which buckets are finished. A
        # source, which does not work in buckets, must not clear that: it runs in every run, and
        # would delete what a later step had finished before the last run was killed.
        if works_in_buckets(step, self.resources):
            self.snapshots.tasks.clear()
        return record

    def _execute_until_stable(
        self,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        last_manifest: Manifest,
        meter: Meter,
    ) -> Execution:
        """Execute the step until its sources stay the same while it reads them.

        After MOST_READINGS executions the last one is returned with a fingerprint that no later run
        reuses. Raises DataError when a model answered for every row and nothing was extracted.
        """
        step = planned.step
        repeats = rows_to_ask_again(step.id, self.again, self.unended)
        if self.reconvert and step.verb.roles_of(Converter):
            repeats = _choose_every_file
        last_tables = read_last_tables(planned, last_manifest, self.snapshots)
        last = find_last_run(planned, last_manifest, self.snapshots)
        calls = VerbCalls(self, last_manifest, last_tables, meter, repeats)
        reading = 1
        # The stamp says what the step reads, and is in its fingerprint. The version is cheaper, and
        # also tells of a file that was changed and changed back.
        while True:
            planned = update_stamp(planned)
            version_read = version_of(planned.step)
            outputs = self._execute(planned, workflow, tables, last, calls)
            seen_after = examine_source(planned.step, last_manifest.steps, self.snapshots)
            is_stable = version_of(seen_after) == version_read
            if is_stable or reading == MOST_READINGS:
                break
            planned = replace(planned, step=seen_after)
            reading += 1
        if step.models:
            self._refuse_all_empty(step, calls.latest_inputs, outputs)
        self._note_execution(step, meter, is_stable)
        return Execution(update_stamp(planned, reusable=is_stable), outputs, is_stable)

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
        in_buckets = self._divide_into_buckets(planned, workflow, calls.meter)
        return outputs_of(
            planned.step,
            tables,
            last,
            self.snapshots,
            make,
            in_buckets.outputs if in_buckets else None,
        )

    def _divide_into_buckets(
        self, planned: PlannedStep, workflow: Workflow, meter: Meter
    ) -> InBuckets | None:
        """Return an object that recomputes the step in buckets, in this process or in the workers.

        None is returned for a step that other processes cannot recompute from its tables alone.
        """
        if not works_in_buckets(planned.step, self.resources):
            return None
        # A worker reads the workflow and finds the step. This process has both already.
        known_steps = {(workflow.name, planned.step.id): planned.step}
        here = Workplace(lambda _: workflow, self.resources, self.snapshots, known_steps)
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
        """Raise DataError if nothing was extracted, and delete the replies to its rows.

        Otherwise the next run would take the same empty replies from the cache.
        """
        try:
            refuse_all_empty(inputs, outputs, self.snapshots)
        except DataError:
            forget_replies(step, inputs, self.resources)
            raise

    def _note_execution(self, step: Step, meter: Meter, is_stable: bool) -> None:
        """Note conversions by another converter than today's, and a source that kept changing."""
        for converter, files in sorted(meter.converters.items()):
            self.notes.append(
                f"{step.id}: {counted(files, 'file')} with the text that {converter} made;"
                " 'graphmill run --reconvert' converts again"
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


def _choose_every_file(file: str) -> bool:
    """Choose each file to be converted again. See ``Repeats`` of models/base.py."""
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
    missing = select_lost(rejects, step.verb.reasons)
    by_rule = select_decided(rejects, step.verb.reasons)
    is_recovered = rejects["kind"] == RECOVERED
    return replace(
        report,
        rows=rows,
        rejects=len(missing),
        recovered=int(is_recovered.sum()),
        reject_reasons=_count_by_reason(missing),
        decided=len(by_rule),
        decided_reasons=_count_by_reason(by_rule),
        not_read=count_no_input(rejects),
    )


def _count_by_reason(rejects: pd.DataFrame) -> dict[str, int]:
    """Return the number of rejects with each reason, the most frequent first."""
    counts = rejects["reason"].value_counts()
    return {str(reason): int(count) for reason, count in counts.items()}


def _collect_earlier_batches(
    planned: PlannedStep, resources: Resources, listener: Listener
) -> None:
    """Keep the replies to batches that earlier runs sent; cancel batches that no workflow needs.

    A step that runs in batches now does this itself. ``listener``: receives what replies have cost.
    """
    step = planned.step
    runs_in_batches = planned.action != "reuse" and step.execution == "batch"
    if resources.settle_batches and not runs_in_batches:
        for name in resources.chat_names(step):
            resources.settle_batches(name, listener)
