"""The steps by which corrections.jsonl is followed, put into a workflow before its merge.

They are in no workflow file: a project that has corrections has the steps, in each of its workflows
that merges extractions. So they need no edit of a workflow, and a project without corrections has
neither the steps nor their cost.
"""

from dataclasses import replace
from pathlib import Path

from pipeline.contract.registry import REGISTRY
from pipeline.corrections.file import FILE
from pipeline.engine.workflow import REJECTS, Step, Workflow, wired
from pipeline.runs.ontology_steps import LIST, LIST_RESOLVED
from pipeline.verbs.conform_extractions import ConformParams
from pipeline.verbs.read_corrections import CorrectionsParams

READ, CORRECT, MERGE = "read_corrections", "correct_extractions", "merge_graphs"
RESOLVE = "resolve_entities"
CORRECTIONS, MATCHES, RECORDS = "corrections", "correction_matches", "extractions"
ALIASES, WITH_ALIASES = "add_aliases", "corrections_with_aliases"


def with_corrections(workflow: Workflow, root: Path, has_aliases: bool = False) -> Workflow:
    """Return the workflow with the steps of corrections before each step that merges extractions.

    Steps that list properties of entities read the corrected records too. With ``has_aliases``,
    tables of the project are master data, whose aliases are followed as corrections are.
    A project with neither, and a workflow that names the verb correct_extractions itself, stay
    as they are. The steps stand behind those of the ontology, so that a person has the last word.
    """
    merges = [step for step in workflow.steps if step.verb.name == MERGE]
    names_them = any(step.verb.name == CORRECT for step in workflow.steps)
    is_followed = has_aliases or (root / FILE).exists()
    if not merges or names_them or not is_followed:
        return workflow
    rules = WITH_ALIASES if has_aliases else CORRECTIONS
    steps: list[Step] = []
    corrected: dict[str, str] = {}
    for step in workflow.steps:
        if step == merges[0]:
            params = params_to_read(workflow, root)
            steps.append(Step(READ, REGISTRY.verbs[READ], params, {}, {CORRECTIONS: CORRECTIONS}))
            steps += [_add_aliases()] if has_aliases else []
        if step.verb.name == MERGE:
            correct, merge = _precede(step, rules)
            corrected[step.inputs[RECORDS]] = merge.inputs[RECORDS]
            steps += (correct, merge)
        elif step.verb.name in (LIST, LIST_RESOLVED):
            records = step.inputs[RECORDS]
            inputs = {**step.inputs, RECORDS: corrected.get(records, records)}
            steps.append(replace(step, inputs=inputs))
        else:
            steps.append(step)
    return replace(workflow, steps=wired(f"workflow '{workflow.name}'", steps))


def params_to_read(workflow: Workflow, root: Path) -> CorrectionsParams:
    """Return the params of read_corrections: the project's folder, and the types of its ontology.

    The types are those that the workflow's step conform_extractions has.
    """
    params = CorrectionsParams(root=str(root))
    for step in workflow.steps:
        if isinstance(step.params, ConformParams):
            types = step.params.model_dump(include={"entity_types", "relationship_types"})
            return params.model_copy(update=types)
    return params


def _add_aliases() -> Step:
    verb = REGISTRY.verbs[ALIASES]
    inputs = {name: name for name in verb.inputs}
    return Step(ALIASES, verb, verb.params(), inputs, {name: name for name in verb.outputs})


def _precede(merge: Step, rules: str) -> tuple[Step, Step]:
    """Return the step that corrects what the merge reads, and the merge that reads its output.

    ``rules`` is the table of corrections to follow.
    """
    suffix = "" if merge.id == MERGE else f"_{merge.id}"
    records = merge.inputs[RECORDS]
    corrected = f"corrected_{records}"
    inputs = {
        RECORDS: records,
        "text_units": merge.inputs["text_units"],
        CORRECTIONS: rules,
    }
    outputs = {
        "corrected_extractions": corrected,
        MATCHES: f"{MATCHES}{suffix}",
        REJECTS: REJECTS,
    }
    verb = REGISTRY.verbs[CORRECT]
    correct = Step(f"{CORRECT}{suffix}", verb, verb.params(), inputs, outputs)
    return correct, replace(merge, inputs={**merge.inputs, RECORDS: corrected})
