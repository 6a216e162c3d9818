"""Apply corrections at once: a run with frozen sources that asks no model.

All steps before the corrections, and all sources, are taken as the last run left them, whatever
files have changed since. The steps behind them run, but for what an endpoint would be asked.
"""

from dataclasses import replace

from pipeline.corrections.own_documents import read_own_statements
from pipeline.engine.plan import PlannedStep, Planner
from pipeline.engine.run_options import RunOptions, Selection
from pipeline.engine.workflow import READ_TABLE, Workflow
from pipeline.errors import UsageError, counted
from pipeline.runs.correction_matches import corrections_file, find_step
from pipeline.runs.correction_steps import CORRECT, MERGE, READ, RESOLVE
from pipeline.runs.ontology_steps import CHECK
from pipeline.runs.services import Services
from pipeline.snapshots.store import Manifest

DECIDING = frozenset({READ, CORRECT, MERGE, RESOLVE})
"""The verbs that follow decisions, and the one that they stand before."""
CHANGES = ("params", "prompts", "models")
"""The components of a step by which an owner decides what is asked."""


def options_to_apply(project: Services, workflow: Workflow) -> RunOptions:
    """Return the options of a run that applies corrections and nothing else.

    Raises UsageError if the workflow has no step that follows corrections, if it has not run yet,
    or if something else was changed that such a run would have to follow.
    """
    previous = project.snapshots.manifest(workflow.name)
    if not previous.steps:
        raise UsageError(
            f"workflow '{workflow.name}': no run yet to apply corrections to; 'graphmill run"
            f" {workflow.name}' follows them"
        )
    _refuse_new_documents(project, workflow, previous)
    selection = Selection(skip=_frozen_steps(workflow))
    _refuse_other_changes(project, workflow, previous, selection)
    return replace(RunOptions(), selection=selection, without_calls=True)


def follows_corrections(workflow: Workflow) -> bool:
    """Return whether a step of the workflow follows decisions."""
    return any(step.verb.name in DECIDING for step in workflow.steps)


def _frozen_steps(workflow: Workflow) -> tuple[str, ...]:
    """Return the ids of the steps before the first one that follows decisions, and of all sources.

    Raises UsageError if no step follows decisions.
    """
    deciding = [place for place, step in enumerate(workflow.steps) if step.verb.name in DECIDING]
    if not deciding:
        raise UsageError(
            f"workflow '{workflow.name}': no step follows corrections; name another workflow"
        )
    return tuple(
        step.id
        for place, step in enumerate(workflow.steps)
        if place < deciding[0] or (not step.verb.inputs and step.verb.name != READ)
    )


def _refuse_new_documents(project: Services, workflow: Workflow, previous: Manifest) -> None:
    """Raise UsageError if the first statement without a document is added since the last run.

    It brings steps that read it, which cannot be left as a run without them left them.
    """
    reading = find_step(workflow, READ_TABLE)
    statements = read_own_statements(corrections_file(project, workflow))
    if reading is not None and reading.id not in previous.steps and statements:
        raise UsageError(
            f"{counted(len(statements), 'added statement')} without a document: 'graphmill run"
            f" {workflow.name}' makes a document of each, and follows all corrections"
        )


def _refuse_other_changes(
    project: Services, workflow: Workflow, previous: Manifest, selection: Selection
) -> None:
    """Raise UsageError if a step has changed that this run cannot follow without a model.

    The ontology is refused too: a part of it is followed by steps that stay as they are.
    """
    planner = Planner(workflow, project.resources, project.snapshots, selection, (), previous.steps)
    for planned in planner.all():
        step = planned.step
        follows_ontology = step.verb.name == CHECK
        if step.id in selection.skip:
            continue
        if not follows_ontology and not project.resources.asks_elsewhere(step):
            continue
        changed = _name_change(planned, previous)
        if changed:
            raise UsageError(
                f"step '{step.id}': {changed} since the last run, and applying corrections follows"
                f" these alone; 'graphmill run {workflow.name}' follows both"
            )


def _name_change(planned: PlannedStep, previous: Manifest) -> str:
    """Return which of the owner's choices about the step has changed since the last run, or ""."""
    before = previous.steps.get(planned.step.id)
    if before is None:
        return "it was added"
    for name in CHANGES:
        if planned.components[name] != before.components.get(name):
            return f"its {name} have changed"
    return ""
