"""Make the tables of a workflow without a document, from its last tables alone.

Rows of the document are filtered out of what the sources wrote. The steps behind work on the groups
of rows that this changes, as in any run, but with the params and prompts of their last run and with
models that ask nobody. Where the cache has no reply, the row has the reject ``purged``; where it
has no vector, the row has zeros. Such a step counts as missing, so that the next run makes it and
asks, within its own budget. Nothing of the input folder is read.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa

from pipeline.contract.fingerprint import code_fingerprint, fingerprint, library_versions
from pipeline.contract.laws import Part
from pipeline.contract.registry import LastTables
from pipeline.contract.schemas import REJECTS as REJECTS_SCHEMA
from pipeline.engine.bill.counting_models import Tally
from pipeline.engine.changed_groups import Groups, LastRun, outputs_of
from pipeline.engine.documents.deletions import DOCUMENTS
from pipeline.engine.losses import select_lost
from pipeline.engine.plan import INCOMPLETE, STAMP, tables_of
from pipeline.engine.run_report import StepReport
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.errors import counted
from pipeline.purge.recorded_steps import RecordedStep, recorded_steps
from pipeline.purge.target import PurgeTarget
from pipeline.runs.services import Services
from pipeline.runs.without_calls import Missing, incomplete, vector_width
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

SOURCE_COLUMN = {DOCUMENTS: "source", REJECTS: "row_id", "files": "name"}
"""Output of a source -> the column that names where a row is from."""


@dataclass(frozen=True)
class TakenOut:
    """Hold the result for one workflow.

    ``manifest``: the tables without the document. ``missing``: what the next run has to ask, by
    step. ``changed``: the steps that the workflow file has changed since; their tables are left
    out.
    """

    manifest: Manifest
    steps: tuple[StepReport, ...] = ()
    missing: Mapping[str, Missing] = field(default_factory=dict)
    changed: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        name = self.manifest.workflow
        n_replies = sum(len(missing.chats) for missing in self.missing.values())
        n_vectors = sum(len(missing.texts) for missing in self.missing.values())
        lost: list[str] = []
        if n_replies:
            lost.append(counted(n_replies, "reply", "replies"))
        if n_vectors:
            lost.append(counted(n_vectors, "vector"))
        notes: list[str] = []
        if lost:
            notes.append(
                f"{name}: {' and '.join(lost)} went with the document; the next run asks for them"
            )
        if self.changed:
            notes.append(
                f"{name}: the workflow file has changed {', '.join(self.changed)} since; the next"
                " run makes their tables"
            )
        return tuple(notes)


def take_out(
    project: Services, name: str, target: PurgeTarget, snapshots: SnapshotStore
) -> TakenOut:
    """Return the workflow's tables without the document, written to ``snapshots``. No manifest is
    published."""
    workflow = project.workflow(name)
    previous = project.snapshots.manifest(name)
    steps, changed = recorded_steps(workflow, previous)
    taking = _Taking(project, workflow, previous, target, snapshots)
    for one in steps:
        taking.work_on(one)
    return TakenOut(taking.manifest(), tuple(taking.reports), taking.missing, tuple(changed))


def foresee_tables(project: Services, name: str) -> tuple[set[str], list[str]]:
    """Return the names of the tables that `take_out` would write, and the ids of the steps that the
    workflow file has changed.

    No row is read, so a purge can be refused at once.
    """
    steps, changed = recorded_steps(project.workflow(name), project.snapshots.manifest(name))
    tables: set[str] = set()
    for one in steps:
        if _has_inputs(one.step, tables):
            # The present verb may write a table more than the recorded run did.
            tables.update(one.step.outputs[name] for name in one.step.writes if name != REJECTS)
    return tables, changed


def _has_inputs(step: Step, tables: Container[str]) -> bool:
    """Return whether all inputs of a step are there.

    They are not behind a step that was changed in the workflow file: its tables are not known any
    more.
    """
    return all(table in tables for table in step.inputs.values())


def _keeps_earlier_rows(step: Step) -> bool:
    """Check whether rows of the step may rest on tables of earlier runs, as a report that is kept
    does.

    Such a row may repeat what a document said that has been deleted since, so a purge makes all of
    them again.
    """
    return bool(step.verb.roles_of(LastTables))


@dataclass
class _Taking:
    """Work on the steps one after the other. ``tables``: those that are there by now, by the
    workflow's names."""

    project: Services
    workflow: Workflow
    previous: Manifest
    target: PurgeTarget
    snapshots: SnapshotStore
    tables: dict[str, Snapshot] = field(default_factory=dict)
    records: dict[str, StepRecord] = field(default_factory=dict)
    rejected: list[pd.DataFrame] = field(default_factory=list)
    reports: list[StepReport] = field(default_factory=list)
    missing: dict[str, Missing] = field(default_factory=dict)

    def work_on(self, one: RecordedStep) -> None:
        step = one.step
        if not _has_inputs(step, self.tables):
            return
        record = self._record_of(one)
        self.records[step.id] = record
        self.tables |= tables_of(step, record)
        rejects = self._rejects_of(record)
        self.rejected.append(rejects.assign(step=step.id))
        self.reports.append(_report_of(one, record, rejects))

    def manifest(self) -> Manifest:
        # Frames without rows would change the types of the columns.
        frames = [frame for frame in self.rejected if len(frame)]
        if not frames:
            frames = [REJECTS_SCHEMA.frame()]
        rejects = pd.concat(frames, ignore_index=True)
        encoded = REJECTS_SCHEMA.encode(rejects, REJECTS)
        snapshot = self.snapshots.tables.write(REJECTS, encoded, REJECTS_SCHEMA.order)
        return Manifest(self.workflow.name, {**self.tables, REJECTS: snapshot}, self.records)

    def _record_of(self, one: RecordedStep) -> StepRecord:
        step, recorded = one.step, one.record
        if not step.verb.inputs:
            return self._source_record(one)
        are_inputs_unchanged = all(
            self.tables[table] == self.previous.tables[table] for table in step.inputs.values()
        )
        if are_inputs_unchanged and not _keeps_earlier_rows(step):
            are_outputs_there = all(map(self.snapshots.tables.exists, recorded.outputs.values()))
            if are_outputs_there:
                return recorded
        outputs, missing = self._make_outputs(one)
        return self._new_record(one, outputs, missing)

    def _new_record(
        self, one: RecordedStep, outputs: Mapping[str, Snapshot], missing: Missing
    ) -> StepRecord:
        """Return the record of the step. It is for reuse only if nothing is missing and the verb's
        code is unchanged."""
        step, recorded = one.step, one.record
        # Inputs that are no tables of the workflow stay as they were recorded.
        inputs = dict(recorded.components["inputs"])
        for name, table in step.inputs.items():
            inputs[name] = self.tables[table].sha256
        parts = {**recorded.components, "inputs": inputs}
        if missing:
            self.missing[step.id] = missing
        if missing or INCOMPLETE in parts or not _has_recorded_code(step, parts):
            return incomplete(step.id, parts, outputs, recorded.retry)
        record = StepRecord(step.id, fingerprint(parts), parts, outputs, recorded.retry)
        self.snapshots.save_record(record)
        return record

    def _make_outputs(self, one: RecordedStep) -> tuple[dict[str, Snapshot], Missing]:
        step, recorded = one.bound_by_role(), one.record
        today = self.project.resources
        missing = Missing()
        tally = Tally(today.tokenizer)
        width = vector_width(self.snapshots, recorded.outputs)
        resources = one.resources(today, self.project.cache, tally, missing, width)

        def make(
            part: Part, inputs: Mapping[str, pd.DataFrame], groups: Groups | None
        ) -> Mapping[str, pd.DataFrame]:
            return resources.call(step, inputs, part=part)

        last_run = LastRun(None, {}) if _keeps_earlier_rows(step) else self._last_run(one)
        outputs = outputs_of(step, self.tables, last_run, self.snapshots, make, rejects_too=False)
        return outputs, missing

    def _last_run(self, one: RecordedStep) -> LastRun:
        """Return the tables of the step's last run, as far as their files are there."""
        exists = self.snapshots.tables.exists
        inputs: dict[str, Snapshot] | None = {}
        for name, table in one.step.inputs.items():
            inputs[name] = self.previous.tables[table]
        # Groups of rows are compared with all inputs of that run, or with none.
        if not all(map(exists, inputs.values())):
            inputs = None
        outputs = {name: table for name, table in one.record.outputs.items() if exists(table)}
        return LastRun(inputs, outputs)

    def _source_record(self, one: RecordedStep) -> StepRecord:
        """Return the record of a source, without the rows that name the document or its file.

        The record keeps the stamp of what was read then, so that the next run sees what has changed
        since. A source that writes a graph of its own, such as ``read_graphrag``, is read again
        instead: nobody else can tell what of the graph came of the document.
        """
        step, recorded = one.step, one.record
        writes_graph = bool(set(step.verb.outputs) - {DOCUMENTS, REJECTS})
        if writes_graph:
            outputs, _ = self._make_outputs(one)
            inputs = dict(recorded.components["inputs"])
            if step.verb.stamp:
                inputs[STAMP] = step.verb.stamp(step.params)
            parts = {**recorded.components, "inputs": inputs}
            return incomplete(step.id, parts, outputs, recorded.retry)
        outputs: dict[str, Snapshot] = {}
        for name, snapshot in recorded.outputs.items():
            outputs[name] = self._without_target(step, name, snapshot)
        if outputs == recorded.outputs:
            return recorded
        # A document that comes back must be read again, though all else is as it was: no plan has
        # this fingerprint.
        in_no_plan = fingerprint({**recorded.components, INCOMPLETE: True})
        return StepRecord(step.id, in_no_plan, recorded.components, outputs, recorded.retry)

    def _without_target(self, step: Step, name: str, snapshot: Snapshot) -> Snapshot:
        column = SOURCE_COLUMN.get(name)
        if column is None or column not in self.snapshots.tables.columns(snapshot):
            return snapshot
        table = self.snapshots.tables.read_arrow(snapshot)
        stays = [not self._is_of_target(name, value) for value in table[column].to_pylist()]
        if all(stays):
            return snapshot
        # An output that the workflow does not name is stored by its step.
        stored_name = step.outputs.get(name, f"{step.id}.{name}")
        remaining = table.filter(pa.array(stays))
        return self.snapshots.tables.write(stored_name, remaining, snapshot.order, snapshot)

    def _is_of_target(self, table: str, value: str) -> bool:
        """Check whether a row is of the document. A reject may name a place in a file: ``name:3``,
        ``name#page=2``."""
        is_place = table == REJECTS and value.startswith(f"{self.target.source}:")
        return is_place or self.target.matches(value)

    def _rejects_of(self, record: StepRecord) -> pd.DataFrame:
        rejects = record.outputs.get(REJECTS)
        if rejects is None or rejects.rows == 0:
            return REJECTS_SCHEMA.frame()
        return self.snapshots.tables.read(rejects)


def _has_recorded_code(step: Step, parts: Mapping[str, Any]) -> bool:
    """Check that the verb, its schemas and the libraries that matter are those that the step was
    recorded with."""
    tables = {**step.reads, **step.writes}
    schemas = {name: schema.describe() for name, schema in tables.items()}
    return (
        parts["code"] == code_fingerprint(step.verb.function)
        and parts["schemas"] == schemas
        and parts["libraries"] == library_versions(step.verb.libraries)
    )


def _report_of(one: RecordedStep, record: StepRecord, rejects: pd.DataFrame) -> StepReport:
    step = one.step
    rows = {
        step.outputs[name]: record.outputs[name].rows for name in step.writes if name != REJECTS
    }
    left_out = select_lost(rejects, step.verb.reasons)
    counts = left_out["reason"].value_counts().items()
    reasons = {str(reason): int(count) for reason, count in counts}
    action, why = ("reused", "") if record == one.record else ("ran", "purge")
    return StepReport(
        step.id,
        step.verb.name,
        action,
        why,
        rows,
        rejects=len(left_out),
        reject_reasons=reasons,
    )
