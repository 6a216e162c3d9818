"""The plan: which steps would be reused, which must run, and why. Makes no model call."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pipeline.contract.fingerprint import code_fingerprint, fingerprint, library_versions
from pipeline.engine.documents.kept_documents import (
    find_last_documents,
    find_last_record,
    keeps_nothing,
)
from pipeline.engine.resources import Resources
from pipeline.engine.run_options import ALL, Selection
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.errors import UsageError
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord

Action = Literal["reuse", "run", "maybe"]
Reason = Literal[
    "new", "code", "params", "prompt", "model", "library", "input", "missing", "retry", "forced", ""
]
"""The reason why a step runs.

``retry``: rows failed with an error that may pass, or are to be tried again. It is also the reason
if documents are kept because their source could not be read, or its stamp could not be determined.
"""

STAMP = "source"
"""The key, among a step's inputs, of the stamp of what it reads from outside."""
COMPONENTS: Mapping[str, Reason] = {
    "verb": "code",
    "code": "code",
    "schemas": "code",
    "params": "params",
    "prompts": "prompt",
    "models": "model",
    "libraries": "library",
    "inputs": "input",
}
"""The components of a fingerprint -> the reason; the first component that differs is named."""


INCOMPLETE = "incomplete"
"""A component of a record whose tables lack what no model was asked for: the next run completes the
step."""


@dataclass(frozen=True)
class PlannedStep:
    """A step with what will happen to it.

    ``maybe``: an input of the step will be recomputed and may come out equal. ``components``: those
    of the step's fingerprint, as far as they are known.
    """

    step: Step
    action: Action
    reason: Reason
    components: Mapping[str, Any]
    record: StepRecord | None = None


def plan(
    workflow: Workflow,
    resources: Resources,
    snapshots: SnapshotStore,
    selection: Selection = ALL,
    again: Collection[str] = (),
) -> list[PlannedStep]:
    """Return the plan of all steps. ``again``: steps with rows that are to be tried once more."""
    previous = snapshots.manifest(workflow.name).steps
    return Planner(workflow, resources, snapshots, selection, again, previous).all()


@dataclass(frozen=True)
class Planner:
    """Plans the steps of a workflow, one after the other.

    ``sources``: those that were examined already. A run decides on what was there when it began,
    and walks through its folder once. ``codes``: fingerprints of verbs by name, which take time
    too.
    """

    workflow: Workflow
    resources: Resources
    snapshots: SnapshotStore
    selection: Selection
    again: Collection[str]
    previous: Mapping[str, StepRecord]
    sources: dict[str, tuple[Step, str | None]] = field(default_factory=dict)
    codes: dict[str, str] = field(default_factory=dict)

    def all(self) -> list[PlannedStep]:
        """Plan all steps as far as their inputs are known."""
        known: dict[str, Snapshot] = {}
        planned = []
        for step in self.workflow.steps:
            entry = self.plan(step, known)
            if entry.record and entry.action == "reuse":
                known |= tables_of(step, entry.record)
            planned.append(entry)
        return planned

    def plan(self, step: Step, known: Mapping[str, Snapshot]) -> PlannedStep:
        """Plan one step; ``known`` are the tables whose snapshot is certain. Raises UsageError when
        a step that is to be left as it is has never been completed."""
        if self.selection.leaves(step.id, self.workflow):
            record = self._left(step)
            return PlannedStep(step, "reuse", "", record.components, record)
        step, stamp = self._seen(step)
        verb = step.verb
        if verb.name not in self.codes:
            self.codes[verb.name] = code_fingerprint(verb.function)
        parts = components(step, self.resources, known, stamp, self.codes[verb.name])
        if step.id in self.selection.force:
            return PlannedStep(step, "run", "forced", parts)
        if step.id in self.again:
            return PlannedStep(step, "run", "retry", parts)
        # An input without a hash is not known yet, or its stamp could not be determined.
        is_known = all(parts["inputs"].values())
        record = self.snapshots.find_record(fingerprint(parts)) if is_known else None
        if record and not record.retry and self._holds(step, record):
            return PlannedStep(step, "reuse", "", parts, record)
        lacks_stamp = parts["inputs"].get(STAMP) == ""
        if record is not None or lacks_stamp:
            return PlannedStep(step, "run", "retry", parts)
        reason = _reason(parts, self.previous.get(step.id))
        may_come_out_equal = reason == "input" and not is_known
        action = "maybe" if may_come_out_equal else "run"
        return PlannedStep(step, action, reason, parts)

    def _seen(self, step: Step) -> tuple[Step, str | None]:
        """Return the step with the facts that its last run noted, and the stamp of what it reads
        from outside."""
        if step.id in self.sources:
            return self.sources[step.id]
        followed = examine_source(step, self.previous, self.snapshots)
        stamp = step.verb.stamp(followed.params) if step.verb.stamp else None
        if not step.verb.inputs:
            self.sources[step.id] = followed, stamp
        return followed, stamp

    def _holds(self, step: Step, record: StepRecord) -> bool:
        """Check that the step would write the same now: another workflow may have made the record,
        without documents to keep."""
        before = find_last_documents(step, self.previous, self.snapshots)
        return keeps_nothing(record.outputs, before, self.snapshots)

    def _left(self, step: Step) -> StepRecord:
        record = self.previous.get(step.id)
        if record is None:
            raise UsageError(
                f"step '{step.id}': never completed, so it cannot be left as it is; run it first"
            )
        if not all(map(self.snapshots.tables.exists, record.outputs.values())):
            raise UsageError(
                f"step '{step.id}': what it wrote is gone or damaged, so it cannot be left as it"
                " is; run it first"
            )
        return record


def components(
    step: Step, resources: Resources, known: Mapping[str, Snapshot], stamp: str | None, code: str
) -> dict[str, Any]:
    """Return the components of a step's fingerprint: everything that can change its result.

    An input that is not yet known is None. ``stamp``: of what the step reads from outside.
    ``code``: the verb's fingerprint.
    """
    verb = step.verb
    inputs: dict[str, str | None] = {}
    for name, table in step.inputs.items():
        inputs[name] = known[table].sha256 if table in known else None
    inputs |= _outside(step, stamp)
    tables = {**step.reads, **step.writes}
    schemas = {name: schema.describe() for name, schema in tables.items()}
    prompts = {role: prompt.fingerprint() for role, prompt in resources.prompts_of(step).items()}
    models = {role: dict(model.identity) for role, model in resources.models_of(step).items()}
    for role, tokenizer in resources.tokenizers_of(step).items():
        models[role] = {"tokenizer": tokenizer.name}
    return {
        "verb": verb.name,
        "code": code,
        "schemas": schemas,
        "params": step.params.model_dump(mode="json"),
        "prompts": prompts,
        "models": models,
        "libraries": library_versions(verb.libraries),
        "inputs": inputs,
    }


def examine_source(
    step: Step, previous: Mapping[str, StepRecord], snapshots: SnapshotStore
) -> Step:
    """Return the step with what it reads from outside examined now, given the facts that its last
    run noted."""
    last = find_last_record(step, previous, snapshots)
    inputs = last.components.get("inputs", {}) if last else {}
    return replace(step, params=step.params.following(inputs))


def version_of(step: Step) -> str:
    """Return a version that changes as soon as something that the step reads from outside is
    written.

    For a step that has examined its source, it is the version of that moment.
    """
    look = step.verb.version or step.verb.stamp
    return look(step.params) if look else ""


def update_stamp(planned: PlannedStep, *, reusable: bool = True) -> PlannedStep:
    """Return the plan of a step with the stamp of what it read.

    ``reusable``: False leaves the stamp empty, so that no later run reuses the record.
    """
    step = planned.step
    if not step.verb.stamp:
        return planned
    stamp = step.verb.stamp(step.params) if reusable else ""
    planned_inputs = planned.components["inputs"]
    tables = {name: planned_inputs[name] for name in step.inputs}
    inputs = tables | _outside(step, stamp)
    return replace(planned, components={**planned.components, "inputs": inputs})


def _outside(step: Step, stamp: str | None) -> dict[str, str]:
    """Return the inputs of a step that are outside of its tables: its stamp, its place and noted
    facts."""
    stamps = {} if stamp is None else {STAMP: stamp}
    return {**stamps, **step.place, **step.params.noted()}


def tables_of(step: Step, record: StepRecord) -> dict[str, Snapshot]:
    """Return the record's snapshots by the workflow's table names."""
    return {step.outputs[name]: record.outputs[name] for name in step.writes if name != REJECTS}


def _reason(parts: Mapping[str, Any], previous: StepRecord | None) -> Reason:
    """Return why a step with these components cannot be reused, given the record of its last
    run."""
    if previous is None:
        return "new"
    if previous.components.get(INCOMPLETE):
        return "missing"
    for part, reason in COMPONENTS.items():
        if parts[part] != previous.components.get(part):
            return reason
    # All is equal to the last run, so its record or its tables are gone.
    return "missing"


def differs_in_inputs_alone(planned: PlannedStep, record: StepRecord, previous: Manifest) -> bool:
    """Check that only inputs differ from the step's last run, and that it read the tables of the
    last run.

    A source in sub-steps lists by its first one what existed outside, so its stamps must both be
    known.
    """
    step = planned.step
    now, then = dict(planned.components), dict(record.components)
    inputs, inputs_then = now.pop("inputs"), then.pop("inputs", {})
    if now != then:
        return False
    if step.verb.parts and not step.inputs:
        return inputs.get(STAMP) != "" and inputs_then.get(STAMP) != ""
    last_tables: dict[str, str] = {}
    for name, table in step.inputs.items():
        if table in previous.tables:
            last_tables[name] = previous.tables[table].sha256
    outside = {name: stamp for name, stamp in inputs.items() if name not in step.inputs}
    return inputs_then == {**last_tables, **outside}
