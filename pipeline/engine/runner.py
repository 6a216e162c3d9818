"""Execute a workflow: plan each step, reuse or run it, write its snapshots, record last."""

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pandas as pd
import pyarrow.compute

from pipeline.contract.conversion import Converter
from pipeline.contract.fingerprint import fingerprint
from pipeline.contract.laws import Part
from pipeline.contract.reasons import PASSING_REASONS, refuse_unknown_reasons
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.engine.bill.counting_models import forget_replies
from pipeline.engine.changed_groups import Groups, last_run, last_tables, outputs_of, whole
from pipeline.engine.deletions import DOCUMENTS, changes_between, documents_before, refuse_deletions
from pipeline.engine.extraction_check import refuse_all_empty
from pipeline.engine.kept_documents import with_kept
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
    ALL,
    PlannedStep,
    Planner,
    Rows,
    Selection,
    following,
    rows_to_ask_again,
    stamped_anew,
    tables_of,
    version_of,
)
from pipeline.engine.reply_lengths import lengths_of
from pipeline.engine.resources import Model, Resources
from pipeline.engine.run_report import Action, Progress, StepReport
from pipeline.engine.tasks import InBuckets, Workers, Workplace, works_in_buckets
from pipeline.engine.usage.budget import Budget, Meter, metered
from pipeline.engine.usage.journal import Journal
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.errors import BudgetError, DataError, UsageError, WaitingError, counted
from pipeline.models.base import Listener, ServedModel, Tokens
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

pc: Any = (
    pyarrow.compute
)  # its functions are made as it is imported: type checkers see none of them

MOST_READINGS = 3
ONE_TOKEN = Tokens(1, 1)


@dataclass(frozen=True)
class IndexResult:
    """``reject_ratio`` is the worst step's share of lost rows or records, ``unread_ratio`` the
    share of what sources could not read, whenever that began (engine/losses.py)."""

    steps: tuple[StepReport, ...]
    manifest: Manifest
    reject_ratio: float
    unread_ratio: float = 0.0


@dataclass
class Runner:
    """Runs workflows against one snapshot store. ``reports`` grows as steps finish, so that what
    was done is known even when a later step raises; ``documents`` counts those that are new, edited
    and gone, and all. ``again``: rows that are to be asked for once more, by step, though their
    step has nothing new; ``unended``: those of them whose replies without an end mark are asked for
    again; ``reconvert``: all files are converted again. ``max_delete_ratio``: share of the
    documents of the last run (``documents_before``) that may be gone; None for any.
    ``before_calls`` is called when models of an endpoint will be needed; what it raises ends the
    run. ``workers``: other processes that work on steps in buckets; None for this one alone;
    ``task_rows``: from how many rows on (engine/tasks.py). ``longest_reply``: of a step, the tokens
    of its longest good reply in earlier runs."""

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
    reports: list[StepReport] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    documents: dict[str, int] = field(default_factory=dict)

    def run(
        self, workflow: Workflow, run_id: str, loaded: pd.DataFrame | None = None
    ) -> IndexResult:
        """Run what must run, and publish the manifest as the run's. ``loaded``: the rejects of what
        the stores were last loaded with; None before the first load.

        Raises AuthError or ModelError, before any work, when a model that will be needed cannot
        work; DataError when a verb breaks its schema, or nothing was extracted; DeletionError when
        too many documents are gone; BudgetError and WaitingError when the run has to stop before
        its end."""
        self.selection.check(workflow)
        previous = self.snapshots.manifest(workflow.name)
        before = documents_before(workflow, self.snapshots)
        planner = Planner(
            workflow, self.resources, self.snapshots, self.selection, self.again, previous.steps
        )
        asked = self._preflight(planner.all())
        try:
            return self._run(workflow, run_id, loaded, planner, previous, before)
        finally:
            notes = [model.note() for model in asked if isinstance(model, ServedModel)]
            self.notes += dict.fromkeys(filter(None, notes))

    def _run(
        self,
        workflow: Workflow,
        run_id: str,
        loaded: pd.DataFrame | None,
        planner: Planner,
        previous: Manifest,
        before: Snapshot | None,
    ) -> IndexResult:
        """Run the steps; ``previous`` and ``before`` are the last run's manifest and documents."""
        tables: dict[str, Snapshot] = {}
        records: dict[str, StepRecord] = {}
        rejected: list[pd.DataFrame] = []
        worst = unread = 0.0
        for position, step in enumerate(workflow.steps, start=1):
            self.progress.step_started(step.id, position, len(workflow.steps))
            record, report = self._finish(
                planner, planner.plan(step, tables), workflow, tables, previous
            )
            tables |= tables_of(step, record)
            records[step.id] = record
            rejects = self._rejects(record)
            rejected.append(rejects.assign(step=step.id))
            worst = max(worst, reject_ratio(step, record, tables, rejects, loaded))
            unread = (
                unread if step.verb.inputs else max(unread, unread_ratio(step, record, rejects))
            )
            self.reports.append(_with_result(report, step, record, rejects))
            self.progress.step_finished(self.reports[-1])
            if step.outputs.get(DOCUMENTS) == DOCUMENTS:
                now = tables[DOCUMENTS]
                if self.max_delete_ratio is not None:
                    refuse_deletions(
                        self.snapshots, workflow.name, before, now, self.max_delete_ratio
                    )
                self.documents = self._counted(before, now)
        self.notes += trades(workflow, pd.concat(rejected))
        tables[REJECTS] = self._gather_rejects(rejected)
        manifest = Manifest(workflow.name, tables, records)
        self.snapshots.publish(manifest, run_id)
        return IndexResult(tuple(self.reports), manifest, worst, unread)

    def _counted(self, before: Snapshot | None, after: Snapshot) -> dict[str, int]:
        """How many documents there are and, as far as that can be known, how many are new, edited
        and gone."""
        if before == after:
            return {"new": 0, "edited": 0, "gone": 0, "all": after.rows}
        try:
            return {**changes_between(self.snapshots, before, after).counts, "all": after.rows}
        except DataError:
            return {"all": after.rows}

    def _preflight(self, planned: list[PlannedStep]) -> list[Model]:
        """Look at every model that may be asked, and wait for servers that are starting; return
        these models."""
        models: dict[int, Model] = {}
        for entry in planned:
            if entry.action != "reuse":
                models |= {
                    id(model): model for model in self.resources.models_of(entry.step).values()
                }
        for model in models.values():
            if (
                self.budget.max_cost is not None
                and getattr(model, "cost", _free)(ONE_TOKEN) is None
            ):
                raise UsageError(
                    f"--max-cost: model '{model.identity['model']}' has no price; set its price in"
                    " settings.yaml ({input: 0, output: 0} for a model on your own machine), or"
                    " use --max-tokens"
                )
            if isinstance(model, ServedModel):
                model.begin_run(self.progress.told)
            else:
                model.preflight()
        if self.before_calls and any(hasattr(model, "cost") for model in models.values()):
            self.before_calls()
        return list(models.values())

    def _finish(
        self,
        planner: Planner,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        previous: Manifest,
    ) -> tuple[StepRecord, StepReport]:
        started = time.perf_counter()
        step = planned.step
        meter = Meter(
            step.id, lambda done, expected: self.progress.step_advanced(step.id, done, expected),
            self.budget, self.journal, tell=self.progress.told,
        )  # fmt: skip
        memory = PeakMemory() if self.watch_memory else None
        try:
            planned = self._with_format(planner, planned, tables, meter)
            settle_batches(planned, self.resources, meter)
            with memory or nullcontext():
                record = planned.record or self._run_step(
                    planned, workflow, tables, previous, meter
                )
        except BaseException as error:
            self.reports.append(
                _report(planned, _broken_off(error), meter, time.perf_counter() - started)
            )
            raise
        report = _report(
            planned, "reused" if planned.record else "ran", meter, time.perf_counter() - started
        )
        return record, replace(report, peak_mb=memory.megabytes if memory else None)

    def _with_format(
        self, planner: Planner, planned: PlannedStep, tables: Mapping[str, Snapshot], meter: Meter
    ) -> PlannedStep:
        """Return the plan of the step with the format of its replies decided; where that takes a
        trial, ask for it.

        A step that is reused, or has no row to ask about, needs no format.
        """
        step = planned.step
        decide = self.resources.decide_format
        rows = tables[step.inputs[step.verb.rowwise]].rows if step.verb.rowwise else 0
        if decide is None or not step.format_undecided or planned.action == "reuse" or not rows:
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
        planned, outputs, stands_still = self._made(planned, workflow, tables, previous, meter)
        step, retry = planned.step, not stands_still
        rejects = (
            self.snapshots.read(outputs[REJECTS]) if REJECTS in outputs else REJECTS_SCHEMA.frame()
        )
        refuse_nothing(step, outputs, rejects)
        if len(rejects):
            refuse_unknown_reasons(rejects["reason"], f"step '{step.id}'", step.verb.reasons)
            retry = retry or bool(rejects["reason"].isin(sorted(PASSING_REASONS)).any())
        components = planned.components
        record = StepRecord(step.id, fingerprint(components), components, outputs, retry)
        self.snapshots.record(record)
        if works_in_buckets(
            step, self.resources
        ):  # a source is read every night, maybe before a step that was killed
            self.snapshots.forget_tasks()
        return record

    def _in_buckets(
        self, planned: PlannedStep, workflow: Workflow, meter: Meter
    ) -> InBuckets | None:
        """What makes pieces of the step in buckets, here or in the workers; None where it must be
        made whole."""
        if not works_in_buckets(planned.step, self.resources):
            return None
        steps = {(workflow.name, planned.step.id): planned.step}
        here = Workplace(lambda _: workflow, self.resources, self.snapshots, steps)
        return InBuckets(
            workflow.name,
            planned.step,
            planned.components,
            self.snapshots,
            self.workers.do if self.workers else here.do_each,
            meter.expect,
            meter.finished,
            self.task_rows,
        )

    def _refuse_all_empty(
        self, step: Step, inputs: Mapping[str, pd.DataFrame], outputs: Mapping[str, Snapshot]
    ) -> None:
        try:
            refuse_all_empty(inputs, outputs, self.snapshots)
        except DataError:
            forget_replies(step, inputs, self.resources)
            raise

    def _made(
        self,
        planned: PlannedStep,
        workflow: Workflow,
        tables: Mapping[str, Snapshot],
        previous: Manifest,
        meter: Meter,
    ) -> tuple[PlannedStep, dict[str, Snapshot], bool]:
        """What the step wrote, with the stamp of what it read. What was written to meanwhile is
        read again; False where it never stands still: then the record is no ground for reuse."""
        step, anew = planned.step, rows_to_ask_again(planned.step.id, self.again, self.unended)
        before = last_tables(planned, previous, self.snapshots)
        wrap = partial(
            metered, meter=meter, anew=_any if self.reconvert and _converts(step) else anew
        )
        last = last_run(planned, previous, self.snapshots)
        asked: Mapping[str, pd.DataFrame] = {}
        reading = 0

        def make(
            part: Part, inputs: Mapping[str, pd.DataFrame], groups: Groups | None
        ) -> Mapping[str, pd.DataFrame]:
            nonlocal asked
            asked, meter.documents = inputs, _documents(inputs.values())
            meter.lengths = lengths_of(step, inputs, self.longest_reply)
            frames = self.resources.call(planned.step, inputs, wrap, meter, before, part)
            return with_kept(step, frames, previous, self.snapshots, law=part.law, groups=groups)

        while True:
            reading += 1
            planned = stamped_anew(planned)
            version = version_of(planned.step)
            in_buckets = self._in_buckets(planned, workflow, meter)
            outputs = outputs_of(
                planned.step,
                tables,
                last,
                self.snapshots,
                make,
                in_buckets.outputs if in_buckets else whole,
            )
            seen = following(planned.step, previous.steps, self.snapshots)
            stands_still = version_of(seen) == version
            if stands_still or reading == MOST_READINGS:
                break
            planned = replace(planned, step=seen)
        if step.models:
            self._refuse_all_empty(step, asked, outputs)
        for converter, files in sorted((+meter.converters).items()):
            self.notes.append(
                f"{step.id}: {counted(files, 'file')} as {converter} converted them; 'graphmill run"
                " --reconvert' does it anew"
            )
        if not stands_still:
            self.notes.append(
                f"{step.id}: what it reads was written to while it was read; the next run reads it"
                " again"
            )
        return stamped_anew(planned, stands_still), outputs, stands_still

    def _rejects(self, record: StepRecord) -> pd.DataFrame:
        if REJECTS not in record.outputs or not record.outputs[REJECTS].rows:
            return REJECTS_SCHEMA.frame()
        return self.snapshots.read(record.outputs[REJECTS])

    def _gather_rejects(self, rejected: list[pd.DataFrame]) -> Snapshot:
        frames = [frame for frame in rejected if len(frame)] or [REJECTS_SCHEMA.frame()]
        gathered = pd.concat(frames, ignore_index=True)
        return self.snapshots.write(
            REJECTS, REJECTS_SCHEMA.encode(gathered, "rejects"), REJECTS_SCHEMA.order
        )


def _any(row: str) -> bool:
    return True


def _converts(step: Step) -> bool:
    return bool(step.verb.roles_of(Converter))


def _broken_off(error: BaseException) -> Action:
    if isinstance(error, WaitingError):
        return "waiting"
    return "stopped" if isinstance(error, BudgetError | KeyboardInterrupt) else "failed"


def _free(tokens: Tokens) -> float:
    return 0.0


def _documents(inputs: Iterable[pd.DataFrame]) -> dict[str, str]:
    """Which document a row is of, for tables whose rows are of one."""
    known = {}
    for frame in inputs:
        if {"id", "document_id"} <= set(frame.columns):
            known |= dict(zip(frame["id"], frame["document_id"], strict=True))
    return known


def _report(planned: PlannedStep, action: Action, meter: Meter, seconds: float) -> StepReport:
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


def _with_result(
    report: StepReport, step: Step, record: StepRecord, rejects: pd.DataFrame
) -> StepReport:
    missing, by_rule = lost(rejects, step.verb.reasons), decided(rejects, step.verb.reasons)
    return replace(
        report,
        rows={name: snapshot.rows for name, snapshot in tables_of(step, record).items()},
        rejects=len(missing),
        recovered=int((rejects["kind"] == RECOVERED).sum()),
        reject_reasons=_by_reason(missing),
        decided=len(by_rule),
        decided_reasons=_by_reason(by_rule),
        not_read=no_input(rejects),
    )


def _by_reason(rejects: pd.DataFrame) -> dict[str, int]:
    return {str(reason): int(count) for reason, count in rejects["reason"].value_counts().items()}


def settle_batches(planned: PlannedStep, resources: Resources, listener: Listener) -> None:
    """Keep the replies that have come, as the step's; a batch that no step will ever ask for is
    cancelled."""
    step = planned.step
    goes_on = planned.action != "reuse" and step.execution == "batch"
    if resources.settle_batches and not goes_on:
        for name in resources.chat_names(step):
            resources.settle_batches(name, listener)
