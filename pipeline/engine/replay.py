"""What of the cache a workflow's present tables need: every step with a model, asked again of the cache alone."""

from pipeline.engine.rehearsal import Tally, rehearsed
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import Step, Workflow
from pipeline.snapshots import Manifest, SnapshotStore


def needed_keys(workflow: Workflow, resources: Resources, snapshots: SnapshotStore) -> set[str]:
    """Keys of the replies and vectors that the workflow's live tables are made of."""
    manifest, tally = snapshots.manifest(workflow.name), Tally(resources.tokenizer)
    for step in workflow.steps:
        if step.models and set(step.inputs.values()) <= set(manifest.tables):
            _replay(step, manifest, resources, snapshots, tally)
    return tally.keys


def _replay(step: Step, manifest: Manifest, resources: Resources, snapshots: SnapshotStore, tally: Tally) -> None:
    tables = {name: snapshots.read(manifest.tables[table]) for name, table in step.inputs.items()}
    inputs = {name: frame[step.verb.inputs[name].columns] for name, frame in tables.items()}
    roles = {
        **resources.prompts_of(step),
        **resources.tokenizers_of(step),
        **{role: rehearsed(model, tally) for role, model in resources.models_of(step).items()},
    }
    step.verb.function(**inputs, **roles, **({"params": step.params} if step.verb.takes_params else {}))
