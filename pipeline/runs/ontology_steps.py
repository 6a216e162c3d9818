"""The steps by which ontology.yaml is enforced, put into a workflow around its merge.

They are in no workflow file: a project that has an ontology has the steps, in each of its
workflows that merges extractions. So they need no edit of a workflow, and a project without an
ontology has neither the steps nor their cost.
"""

from collections.abc import Sequence
from dataclasses import replace

from pipeline.contract.registry import REGISTRY
from pipeline.engine.workflow import REJECTS, Step, Workflow, wired
from pipeline.ontology.schema import Ontology
from pipeline.ontology.step_args import attribute_args, check_args, conform_args

CONFORM, MERGE, CHECK = "conform_extractions", "merge_graphs", "check_patterns"
LIST, LIST_RESOLVED = "list_attributes", "list_resolved_attributes"
GATHER = "gather_properties"
RESOLUTIONS = "resolutions"
RECORDS = "extractions"
ATTRIBUTES = "attributes"
ENTITIES = "entities"
"""The table of the entities that a load reads."""
UNCHECKED = {
    "unchecked_entities": "merged_entities",
    "unchecked_records": "relationship_records",
    "unchecked_mentions": "mentions",
}
"""Inputs of check_patterns -> the outputs of merge_graphs that they are."""


def with_ontology(workflow: Workflow, ontology: Ontology, ids: Sequence[str] = ()) -> Workflow:
    """Return the workflow with the steps of the ontology around each step that merges extractions.

    ``ids`` are the properties that hold the ids of master data, of entities of every type.
    A workflow that names the verb conform_extractions itself stays as it is.
    """
    if any(step.verb.name == CONFORM for step in workflow.steps):
        return workflow
    steps: list[Step] = []
    for step in workflow.steps:
        steps += _surround(step, ontology, ids) if step.verb.name == MERGE else (step,)
    if ids or any(one.properties for one in ontology.entity_types):
        steps = _with_attributes(steps, ontology, ids)
    return replace(workflow, steps=wired(f"workflow '{workflow.name}'", steps))


def _with_attributes(steps: list[Step], ontology: Ontology, ids: Sequence[str]) -> list[Step]:
    """Return the steps with those that list properties, behind that which writes the entities.

    Without a step that merges, or one that writes the entities, they stay as they are.
    """
    merge = next((step for step in steps if step.verb.name == MERGE), None)
    writers = [place for place, step in enumerate(steps) if ENTITIES in step.outputs.values()]
    if merge is None or not writers:
        return steps
    before, behind = steps[: writers[0] + 1], steps[writers[0] + 1 :]
    resolving = [step for step in before if RESOLUTIONS in step.outputs.values()]
    verb = REGISTRY.verbs[LIST_RESOLVED if resolving else LIST]
    inputs = {**merge.inputs, ENTITIES: ENTITIES}
    if resolving:
        inputs[RESOLUTIONS] = RESOLUTIONS
    params = verb.params.model_validate(attribute_args(ontology, ids))
    outputs = {ATTRIBUTES: ATTRIBUTES, REJECTS: REJECTS}
    listing = Step(verb.name, verb, params, inputs, outputs)
    gather_verb = REGISTRY.verbs[GATHER]
    gathering = Step(
        GATHER,
        gather_verb,
        gather_verb.params(),
        {ATTRIBUTES: ATTRIBUTES},
        {"entity_properties": "entity_properties"},
    )
    return [*before, listing, gathering, *behind]


def _surround(merge: Step, ontology: Ontology, ids: Sequence[str]) -> tuple[Step, Step, Step]:
    """Return the merge between the steps of the ontology.

    The tables of the merge get other names, and the last step writes tables of the names that they
    had, for the steps that follow.
    """
    suffix = "" if merge.id == MERGE else f"_{merge.id}"
    records = merge.inputs[RECORDS]
    conformed = f"conformed_{records}"
    conform_verb = REGISTRY.verbs[CONFORM]
    conform = Step(
        f"{CONFORM}{suffix}",
        conform_verb,
        conform_verb.params.model_validate(conform_args(ontology, ids)),
        {RECORDS: records},
        {"conformed_extractions": conformed, REJECTS: REJECTS},
    )

    renamed: dict[str, str] = {}
    for name, table in merge.outputs.items():
        renamed[name] = table if name == REJECTS else f"unchecked_{table}"
    merged = replace(merge, inputs={**merge.inputs, RECORDS: conformed}, outputs=renamed)

    check_verb = REGISTRY.verbs[CHECK]
    check = Step(
        f"{CHECK}{suffix}",
        check_verb,
        check_verb.params.model_validate(check_args(ontology)),
        {name: renamed[output] for name, output in UNCHECKED.items()},
        merge.outputs,
    )
    return conform, merged, check
