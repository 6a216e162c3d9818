"""Check of verbs against their laws on a project's own tables.

Some documents are removed, added and edited. For each step, the result of recomputing the changed
groups is compared with that of recomputing all rows. Models answer from their cache and are not
asked. Nothing is written except to a temporary folder.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import pandas as pd

from pipeline.contract.laws import Part
from pipeline.engine.bill.counting_models import Tally
from pipeline.engine.changed_groups import Groups, LastRun, list_parts, outputs_of
from pipeline.engine.documents.deletions import DOCUMENTS
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.errors import UnstampedReadError, UsageError
from pipeline.files import temporary_folder
from pipeline.snapshots.store import Snapshot, SnapshotStore

Verdict = Literal["holds", "breaks", "whole", "source"]
"""The result for a step. ``whole``: the verb has no law; ``source``: it is not called, its tables
are those of the last run."""
CHANGED = (0.1, 0.5)
"""Shares of the documents that are removed, added and edited, one for each draw in turn.

A verb that uses other rows, such as one that keeps the ten largest, may return the same after a
small change. After a change of half of all documents it does not.
"""
NAMED = 3
"""The number of groups that a message names."""
NOTHING_BEFORE = LastRun(None, {})


@dataclass(frozen=True)
class HeldStep:
    """The result for one step. ``message``: which rows differ, and what to do."""

    step: str
    verb: str
    verdict: Verdict
    message: str = ""


def check_laws(
    workflow: Workflow,
    resources: Resources,
    snapshots: SnapshotStore,
    documents: int = 200,
    seed: int = 1,
    draws: int = 4,
) -> list[HeldStep]:
    """Check each step of the workflow against its law, with several drawn changes; return the steps
    in their order.

    ``documents``: the most that a draw has. ``seed``: of the first draw; each further draw has the
    next seed. A step breaks its law if it does so in one draw, whose seed the message has. Raises
    UsageError before the workflow's first run.
    """
    tables = snapshots.manifest(workflow.name).tables
    if not tables:
        raise UsageError(
            f"workflow '{workflow.name}': no run yet; run 'graphmill index {workflow.name}' first"
        )
    found: dict[str, HeldStep] = {}
    for draw in range(draws):
        share = CHANGED[draw % len(CHANGED)]
        with temporary_folder("graphmill-laws-") as folder:
            tried = SnapshotStore(folder, beneath=snapshots)
            check = LawCheck(resources, tried, tables, documents, seed + draw, share)
            for held in check.steps(workflow):
                if held.step not in found or found[held.step].verdict != "breaks":
                    found[held.step] = held
    return list(found.values())


@dataclass
class LawCheck:
    """Checks verbs with one drawn change.

    ``kept``: the tables of the last run. ``documents``: the most that are drawn, by ``seed``;
    ``share`` of them are removed, as many are added, and as many edited. ``before`` and ``now``:
    the tables on both sides of the change.
    """

    resources: Resources
    snapshots: SnapshotStore
    kept: Mapping[str, Snapshot]
    documents: int
    seed: int
    share: float
    before: dict[str, Snapshot] = field(default_factory=dict)
    now: dict[str, Snapshot] = field(default_factory=dict)

    def steps(self, workflow: Workflow) -> Iterator[HeldStep]:
        for step in workflow.steps:
            if not step.verb.inputs:
                yield self._source(step)
                continue
            try:
                yield self._held(step)
            except UnstampedReadError as error:
                self._keep_tables(step)
                yield HeldStep(step.id, step.verb.name, "breaks", str(error))

    def _source(self, step: Step) -> HeldStep:
        """Draw and change the documents of a source.

        A source that writes other tables too is left as it is: they would not fit the changed
        documents.
        """
        tables = self._keep_tables(step)
        if list(tables) == [step.outputs.get(DOCUMENTS)]:
            self._make_up(step)
        return HeldStep(step.id, step.verb.name, "source")

    def _keep_tables(self, step: Step) -> dict[str, Snapshot]:
        """Take the tables that the step wrote in the last run for both sides of the change.

        Raises UsageError if the workflow was changed since then and no run has them.
        """
        names = [table for name, table in step.outputs.items() if name != REJECTS]
        if any(table not in self.kept for table in names):
            raise UsageError(
                f"step '{step.id}': the last run has no table {' or '.join(names)}, for the"
                " workflow was changed since then; run it first"
            )
        tables = {table: self.kept[table] for table in names}
        self.before, self.now = {**self.before, **tables}, {**self.now, **tables}
        return tables

    def _make_up(self, step: Step) -> None:
        """Draw documents of the last run, and make up which of them there were before the change.

        The documents of now lack those that were removed. Those of before lack the ones that were
        added, and have the first half of the ones that were edited.
        """
        table = step.outputs[DOCUMENTS]
        documents = self.snapshots.tables.read(self.kept[table])
        choice = np.random.default_rng(self.seed)
        documents = documents[_drawn(choice, len(documents), self.documents)]
        changed = max(1, round(self.share * len(documents)))
        is_removed = _drawn(choice, len(documents), changed)
        is_added = _drawn(choice, len(documents), changed)
        is_edited = _drawn(choice, len(documents), changed)
        halves = [text[: len(text) // 2] for text in documents["text"]]
        texts_before = np.where(is_edited, halves, documents["text"])
        before = documents.assign(text=texts_before)[~is_added]
        now = documents[~is_removed]
        self.before[table] = self._write_documents(step, before)
        self.now[table] = self._write_documents(step, now)

    def _write_documents(self, step: Step, documents: pd.DataFrame) -> Snapshot:
        """Write documents of the source to the temporary folder, as the step would store them."""
        table = step.outputs[DOCUMENTS]
        schema = step.writes[DOCUMENTS]
        rows = schema.encode(documents, table)
        return self.snapshots.tables.write(table, rows, schema.order)

    def _held(self, step: Step) -> HeldStep:
        """Compute a step on both sides of the change, and check it against its law if it has
        one."""
        before = self._outputs(step, self.before, NOTHING_BEFORE)
        whole = self._outputs(step, self.now, NOTHING_BEFORE)
        held = HeldStep(step.id, step.verb.name, "whole")
        has_law = any(part.law for part in list_parts(step))
        if has_law:
            inputs_before = {name: self.before[table] for name, table in step.inputs.items()}
            last = LastRun(inputs_before, before)
            held = self._compare(step, whole, last)
        self.before |= _by_table(step, before)
        self.now |= _by_table(step, whole)
        return held

    def _outputs(
        self, step: Step, tables: Mapping[str, Snapshot], last: LastRun
    ) -> dict[str, Snapshot]:
        """Return the outputs of the step on these tables, given its last run; no model is
        asked."""
        tally = Tally(self.resources.tokenizer)

        def make(
            part: Part, inputs: Mapping[str, pd.DataFrame], groups: Groups | None
        ) -> Mapping[str, pd.DataFrame]:
            return self.resources.call(step, inputs, tally.rehearsed, part=part)

        return outputs_of(step, tables, last, self.snapshots, make)

    def _compare(self, step: Step, whole: Mapping[str, Snapshot], last: LastRun) -> HeldStep:
        """Recompute the changed groups alone, and compare the outputs with those of all rows."""
        try:
            incremental = self._outputs(step, self.now, last)
        except Exception as error:  # noqa: BLE001  whatever a verb raises that has taken all rows
            fault = f"of the groups that changed it raises {type(error).__name__}: {error}"
            return self._breaks(step, f"{fault}; it is to take some groups without the others")
        for part in list_parts(step):
            for name in part.outputs:
                if whole[name].sha256 != incremental[name].sha256:
                    message = self._difference(part, name, whole[name], incremental[name])
                    return self._breaks(step, message)
        return HeldStep(step.id, step.verb.name, "holds")

    def _difference(self, part: Part, name: str, whole: Snapshot, incremental: Snapshot) -> str:
        """Describe how an output of the changed groups differs from the one of all rows."""
        tables = self.snapshots.tables
        # Without a law the first column names the rows: it is the id in most tables.
        column = part.law.row_of[name] if part.law else tables.columns(whole)[0]
        rows_of_whole, rows_of_incremental = tables.difference(whole, incremental, [column])
        lacking = rows_of_whole[column].to_pylist()
        more = rows_of_incremental[column].to_pylist()
        groups = sorted({str(group) for group in lacking + more})
        named = ", ".join(repr(group) for group in groups[:NAMED])
        return (
            f"table '{name}', by '{part.function.__name__}': made of the groups that changed it"
            f" lacks {len(lacking):,} rows of those made of all, and has {len(more):,} others, of"
            f" '{column}' {named}; its law says too little, or the verb looks at more than the rows"
            " of a group (docs/verbs.md)"
        )

    def _breaks(self, step: Step, message: str) -> HeldStep:
        where = f"step '{step.id}', verb '{step.verb.name}', seed {self.seed}"
        return HeldStep(step.id, step.verb.name, "breaks", f"{where}: {message}")


def _drawn(choice: np.random.Generator, rows: int, most: int) -> np.ndarray:
    """Return which rows are drawn, as booleans; ``most``: how many at most."""
    drawn = np.zeros(rows, bool)
    drawn[choice.permutation(rows)[:most]] = True
    return drawn


def _by_table(step: Step, outputs: Mapping[str, Snapshot]) -> dict[str, Snapshot]:
    return {step.outputs[name]: outputs[name] for name in step.writes if name != REJECTS}
