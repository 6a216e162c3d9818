"""Rows of a step that need not be made again: those of a rowwise verb whose input row is as it was."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import pyarrow as pa

from pipeline.engine.plan import PlannedStep
from pipeline.engine.workflow import REJECTS
from pipeline.snapshots.store import Manifest, SnapshotStore, StepRecord


@dataclass(frozen=True)
class KeptRows:
    """``changed``: the rows of the rowwise input to be worked on; ``ids``: those of the rows that are as they were, of
    which ``record`` and the columns ``row_of`` tell what came."""

    changed: pd.DataFrame
    ids: frozenset[str]
    record: StepRecord
    row_of: Mapping[str, str]
    snapshots: SnapshotStore

    @property
    def rows(self) -> int:
        return len(self.ids)

    def table(self, output: str) -> pa.Table:
        """The rows of an output that are kept of the last run."""
        table = self.snapshots.table(self.record.outputs[output])
        return table.filter(pa.array(table[self.row_of[output]].to_pandas().isin(self.ids), pa.bool_()))


def kept_rows(
    planned: PlannedStep, inputs: Mapping[str, pd.DataFrame], previous: Manifest, snapshots: SnapshotStore
) -> KeptRows | None:
    """What of the step's last run can be kept: it differs in the rows of its rowwise input only, as far as the verb
    reads its inputs, and its verb says of which row each row of its outputs is. Rows with a reject are worked on again.
    None where nothing can be kept."""
    step, verb = planned.step, planned.step.verb
    record = previous.steps.get(step.id)
    before = previous.tables.get(step.inputs[verb.rowwise]) if verb.rowwise else None
    if record is None or before is None or not _differ_in_inputs_alone(planned, record, previous):
        return None
    if not all(map(snapshots.exists, [before, *record.outputs.values()])):
        return None
    assert verb.rowwise
    if not all(_as_before(planned, name, inputs, previous, snapshots) for name in inputs if name != verb.rowwise):
        return None
    now = inputs[verb.rowwise]
    same = _unchanged(now, snapshots.read(before))
    if same is None or not same.any():
        return None
    if REJECTS in record.outputs:
        same &= ~now["id"].isin(snapshots.read(record.outputs[REJECTS])["row_id"])
    ids = frozenset(now.loc[same, "id"])
    return KeptRows(now[~same].reset_index(drop=True), ids, record, verb.row_of, snapshots)


def _differ_in_inputs_alone(planned: PlannedStep, record: StepRecord, previous: Manifest) -> bool:
    """And what the step read then are the tables of the last run."""
    step, now, then = planned.step, dict(planned.components), dict(record.components)
    read, read_then = now.pop("inputs"), then.pop("inputs", {})
    tables = {name: previous.tables[table].sha256 for name, table in step.inputs.items() if table in previous.tables}
    outside = {name: stamp for name, stamp in read.items() if name not in step.inputs}
    return now == then and read_then == {**tables, **outside} and set(step.verb.row_of) == set(record.outputs)


def _as_before(
    planned: PlannedStep, name: str, inputs: Mapping[str, pd.DataFrame], previous: Manifest, snapshots: SnapshotStore
) -> bool:
    """Whether the columns that the verb reads of this input are those of the last run."""
    then = previous.tables[planned.step.inputs[name]]
    if then.sha256 == planned.components["inputs"][name]:
        return True
    return snapshots.exists(then) and snapshots.columns(then, list(inputs[name].columns)).equals(inputs[name])


def _unchanged(now: pd.DataFrame, before: pd.DataFrame) -> pd.Series | None:
    """Which rows are in both, equal in every column; None for tables whose ids are not unique."""
    if not now["id"].is_unique or not before["id"].is_unique:
        return None
    aligned = before.set_index("id").reindex(now["id"])
    same = pd.Series(True, index=now.index)
    for column in now.columns.drop("id"):
        same &= (aligned[column].to_numpy() == now[column].to_numpy()).astype(bool)
    return same
