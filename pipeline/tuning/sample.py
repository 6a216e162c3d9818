"""A sample of the text units, spread over the documents, which their content fixes."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pipeline.engine.local import LocalEngine
from pipeline.engine.plan import Planner, tables_of
from pipeline.engine.resources import Resources
from pipeline.engine.selection import ALL
from pipeline.engine.unread import with_kept
from pipeline.engine.workflow import Workflow
from pipeline.errors import UsageError
from pipeline.snapshots import Snapshot, SnapshotStore
from pipeline.text import digest

TEXT_UNITS = "text_units"


def text_units_of(workflow: Workflow, resources: Resources, snapshots: SnapshotStore) -> pd.DataFrame:
    """The table of text units as the workflow would make it now: no model is asked and nothing is written.

    Raises UsageError for a workflow that makes none, or only by way of a model.
    """
    previous = snapshots.manifest(workflow.name)
    planner = Planner(workflow, resources, snapshots, ALL, (), previous.steps)
    known: dict[str, Snapshot] = {}
    frames: dict[str, pd.DataFrame] = {}

    def table(name: str) -> pd.DataFrame:
        return frames[name] if name in frames else snapshots.read(known[name])

    for step in workflow.steps:
        planned = planner.plan(step, known)
        if planned.record and planned.action == "reuse":
            known |= tables_of(step, planned.record)
        elif step.models:
            break
        else:
            inputs = {name: table(of)[step.verb.inputs[name].columns] for name, of in step.inputs.items()}
            roles: Mapping[str, Any] = {**resources.prompts_of(step), **resources.tokenizers_of(step)}
            params = {"params": planned.step.params} if step.verb.takes_params else {}
            made = LocalEngine().run(step.verb, inputs, {**roles, **params})
            made = with_kept(step, made, previous, snapshots)
            frames |= {step.outputs[name]: made[name] for name in step.verb.outputs if name in made}
        if TEXT_UNITS in step.outputs.values():
            return table(TEXT_UNITS)
    raise UsageError(f"workflow '{workflow.name}': no step makes text units without a model; tune another workflow")


def sample(text_units: pd.DataFrame, size: int) -> list[str]:
    """Texts of up to ``size`` text units: one of each document in turn, documents and their units by digest."""
    rows = pd.DataFrame(
        {
            "text": text_units["text"],
            "document": [digest(id) for id in text_units["document_id"]],
            "unit": [digest(id) for id in text_units["id"]],
        }
    )
    rows = rows[rows["text"].str.strip() != ""].sort_values(["document", "unit"]).drop_duplicates("text")
    rows = rows.assign(turn=rows.groupby("document").cumcount())
    return rows.sort_values(["turn", "document"], kind="stable")["text"].head(size).tolist()
