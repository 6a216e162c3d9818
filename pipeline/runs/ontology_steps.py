"""The steps by which ontology.yaml is enforced, put into a workflow around its merge.

They are in no workflow file: a project that has an ontology has the steps, in each of its
workflows that merges extractions. So they need no edit of a workflow, and a project without an
ontology has neither the steps nor their cost.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pipeline.contract.registry import REGISTRY
from pipeline.engine.workflow import REJECTS, Step, Workflow, wired
from pipeline.ontology.schema import Ontology
from pipeline.ontology.step_args import check_args, conform_args

CONFORM, MERGE, CHECK = "conform_extractions", "merge_graphs", "check_patterns"
RECORDS = "extractions"
UNCHECKED = {
    "unchecked_entities": "merged_entities",
    "unchecked_records": "relationship_records",
    "unchecked_mentions": "mentions",
}
"""Inputs of check_patterns -> the outputs of merge_graphs that they are."""


def with_ontology(workflow: Workflow, ontology: Ontology) -> Workflow:
    """Return the workflow with the steps of the ontology around each step that merges extractions.

    A workflow that names the verb conform_extractions itself stays as it is.
    """
    if any(step.verb.name == CONFORM for step in workflow.steps):
        return workflow
    steps: list[Step] = []
    for step in workflow.steps:
        steps += _surround(step, ontology) if step.verb.name == MERGE else (step,)
    return replace(workflow, steps=wired(f"workflow '{workflow.name}'", steps))


def _surround(merge: Step, ontology: Ontology) -> tuple[Step, Step, Step]:
    """Return the merge between the steps of the ontology.

    The tables of the merge get other names, and the last step writes tables of the names that they
    had, for the steps that follow.
    """
    suffix = "" if merge.id == MERGE else f"_{merge.id}"
    records = merge.inputs[RECORDS]
    conformed = f"conformed_{records}"
    conform = _make_step(CONFORM, suffix, conform_args(ontology))
    conform_outputs = {"conformed_extractions": conformed, REJECTS: REJECTS}
    conform = replace(conform, inputs={RECORDS: records}, outputs=conform_outputs)

    renamed: dict[str, str] = {}
    for name, table in merge.outputs.items():
        renamed[name] = table if name == REJECTS else f"unchecked_{table}"
    merged = replace(merge, inputs={**merge.inputs, RECORDS: conformed}, outputs=renamed)

    check = _make_step(CHECK, suffix, check_args(ontology))
    check_inputs = {name: renamed[output] for name, output in UNCHECKED.items()}
    return conform, merged, replace(check, inputs=check_inputs, outputs=merge.outputs)


def _make_step(verb: str, suffix: str, args: Mapping[str, Any]) -> Step:
    """Return a step of this verb that is connected to no table yet."""
    declared = REGISTRY.verbs[verb]
    params = declared.params.model_validate(dict(args))
    id = f"{verb}{suffix}"
    return Step(id, declared, params, inputs={}, outputs={}, prompts={}, models={})
