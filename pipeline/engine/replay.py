"""Which replies and vectors a step was made of: it is asked again of the cache alone."""

from collections.abc import Mapping

import pandas as pd

from pipeline.engine.rehearsal import RememberingChat, Tally, rehearsed
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.snapshots import Manifest, SnapshotStore


def needed_keys(workflow: Workflow, resources: Resources, snapshots: SnapshotStore) -> set[str]:
    """Keys of the replies and vectors that the workflow's live tables are made of."""
    manifest, tally = snapshots.manifest(workflow.name), Tally(resources.tokenizer)
    for step in workflow.steps:
        if step.models and set(step.inputs.values()) <= set(manifest.tables):
            _replay(step, _inputs(step, manifest, snapshots), resources, tally)
    return tally.keys


def forget_replies(step: Step, inputs: Mapping[str, pd.DataFrame], resources: Resources) -> None:
    """Take from the cache what the step was answered about these inputs, so that it is asked for again."""
    tally = Tally(resources.tokenizer)
    _replay(step, inputs, resources, tally)
    for model in resources.models_of(step).values():
        if isinstance(model, RememberingChat):
            model.memory().forget(tally.keys)


def _inputs(step: Step, manifest: Manifest, snapshots: SnapshotStore) -> dict[str, pd.DataFrame]:
    tables = {name: snapshots.read(manifest.tables[table]) for name, table in step.inputs.items()}
    return {name: frame[step.reads[name].columns] for name, frame in tables.items()}


def _replay(step: Step, inputs: Mapping[str, pd.DataFrame], resources: Resources, tally: Tally) -> None:
    roles = {
        **resources.prompts_of(step),
        **resources.tokenizers_of(step),
        **{role: rehearsed(model, tally) for role, model in resources.models_of(step).items()},
    }
    step.verb.call(inputs, {**roles, **({"params": step.params} if step.verb.takes_params else {})})
