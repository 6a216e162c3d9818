"""The plan: which steps would be reused, which must run, and why. Makes no model call."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from pipeline.contract.fingerprint import code_fingerprint, fingerprint, library_versions
from pipeline.engine.kept_documents import keeps_nothing, last_documents, record_before
from pipeline.engine.resources import Resources
from pipeline.engine.workflow import REJECTS, Step, Workflow
from pipeline.errors import UsageError
from pipeline.models.base import RowsToAskAgain
from pipeline.snapshots.store import Manifest, Snapshot, SnapshotStore, StepRecord


@dataclass(frozen=True)
class Selection:
    """``start``: the first step to look at; ``only``: the only ones; ``skip``: those to leave;
    ``force``: those that run though nothing has changed."""

    start: str | None = None
    only: tuple[str, ...] = ()
    skip: tuple[str, ...] = ()
    force: tuple[str, ...] = ()

    def check(self, workflow: Workflow) -> None:
        """Raises UsageError for a step that the workflow does not have."""
        steps = [step.id for step in workflow.steps]
        named = [*filter(None, [self.start]), *self.only, *self.skip, *self.force]
        for name in named:
            if name not in steps:
                raise UsageError(
                    f"workflow '{workflow.name}': no step '{name}'; have: {', '.join(steps)}"
                )

    def leaves(self, step: str, workflow: Workflow) -> bool:
        """Whether the step is taken as it is."""
        steps = [one.id for one in workflow.steps]
        before = self.start is not None and steps.index(step) < steps.index(self.start)
        return before or step in self.skip or bool(self.only and step not in self.only)


ALL = Selection()


Action = Literal["reuse", "run", "maybe"]
Reason = Literal[
    "new", "code", "params", "prompt", "model", "library", "input", "missing", "retry", "forced", ""
]
"""Why a step runs. ``retry``: it has rows that failed for a passing reason, or that are to be tried
again, or documents that are kept because their source could not be read, or its stamp could not be
taken."""

STAMP = "source"
"""Of a step's inputs, the stamp of what it reads from outside."""
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
"""The parts of a fingerprint, in the order in which the first difference is named."""


INCOMPLETE = "incomplete"
"""A part of a record whose tables lack what no model was asked for: the step is made whole by the
next run."""


@dataclass(frozen=True)
class PlannedStep:
    """``maybe``: an input of the step will be made anew and may come out equal. ``components`` are
    those of the step's fingerprint, as far as they are known."""

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
    """Plan all steps. ``again``: those with rows that are to be tried once more."""
    previous = snapshots.manifest(workflow.name).steps
    return Planner(workflow, resources, snapshots, selection, again, previous).all()


@dataclass(frozen=True)
class Planner:
    """Plans the steps of a workflow, one after the other. ``sources``: those that were looked at: a
    run decides on what was there when it began, and goes through its folder once for it. ``codes``:
    fingerprints of verbs by name, which take time too."""

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
        if step.verb.name not in self.codes:
            self.codes[step.verb.name] = code_fingerprint(step.verb.function)
        parts = components(step, self.resources, known, stamp, self.codes[step.verb.name])
        if step.id in self.selection.force or step.id in self.again:
            return PlannedStep(
                step, "run", "forced" if step.id in self.selection.force else "retry", parts
            )
        record = (
            self.snapshots.find_record(fingerprint(parts))
            if all(parts["inputs"].values())
            else None
        )
        if record and not record.retry and self._holds(step, record):
            return PlannedStep(step, "reuse", "", parts, record)
        retry = record is not None or parts["inputs"].get(STAMP) == ""
        reason = "retry" if retry else _reason(parts, self.previous.get(step.id))
        action = "maybe" if reason == "input" and not all(parts["inputs"].values()) else "run"
        return PlannedStep(step, action, reason, parts)

    def _seen(self, step: Step) -> tuple[Step, str | None]:
        """The step, knowing what its last run has noted, and the stamp of what it reads from
        outside."""
        if step.id in self.sources:
            return self.sources[step.id]
        followed = following(step, self.previous, self.snapshots)
        seen = followed, step.verb.stamp(followed.params) if step.verb.stamp else None
        if not step.verb.inputs:
            self.sources[step.id] = seen
        return seen

    def _holds(self, step: Step, record: StepRecord) -> bool:
        """Whether the step would write the same now: another workflow may have made the record, and
        have had no documents to keep."""
        before = last_documents(step, self.previous, self.snapshots)
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
    """Everything that can change the step's result. An input that is not yet known is None.
    ``stamp``: of what the step reads from outside; ``code``: the verb's fingerprint."""
    verb = step.verb
    inputs: dict[str, str | None] = {
        name: known[table].sha256 if table in known else None for name, table in step.inputs.items()
    }
    inputs |= _outside(step, stamp)
    return {
        "verb": verb.name,
        "code": code,
        "schemas": {
            name: schema.describe() for name, schema in {**step.reads, **step.writes}.items()
        },
        "params": step.params.model_dump(mode="json"),
        "prompts": {
            role: prompt.fingerprint() for role, prompt in resources.prompts_of(step).items()
        },
        "models": (
            {role: dict(model.identity) for role, model in resources.models_of(step).items()}
            | {
                role: {"tokenizer": tokenizer.name}
                for role, tokenizer in resources.tokenizers_of(step).items()
            }
        ),
        "libraries": library_versions(verb.libraries),
        "inputs": inputs,
    }


def following(step: Step, previous: Mapping[str, StepRecord], snapshots: SnapshotStore) -> Step:
    """The step, with what it reads from outside looked at now, knowing what its last run has
    noted."""
    last = record_before(step, previous, snapshots)
    inputs = last.components.get("inputs", {}) if last else {}
    return replace(step, params=step.params.following(inputs))


def version_of(step: Step) -> str:
    """Another one as soon as what the step reads from outside was written; of a step that has
    looked at it, as it was then."""
    look = step.verb.version or step.verb.stamp
    return look(step.params) if look else ""


def stamped_anew(planned: PlannedStep, known: bool = True) -> PlannedStep:
    """The plan of a step with the stamp of what is there now, or was when the step looked at it;
    without one where that is not ``known``."""
    step, read = planned.step, planned.components["inputs"]
    if not step.verb.stamp:
        return planned
    inputs = {name: read[name] for name in step.inputs} | _outside(
        step, step.verb.stamp(step.params) if known else ""
    )
    return replace(planned, components={**planned.components, "inputs": inputs})


def _outside(step: Step, stamp: str | None) -> dict[str, str]:
    """Of a step's inputs what it reads from outside, and where."""
    return {**({} if stamp is None else {STAMP: stamp}), **step.place, **step.params.noted()}


def tables_of(step: Step, record: StepRecord) -> dict[str, Snapshot]:
    """The record's snapshots by the workflow's table names."""
    return {step.outputs[name]: record.outputs[name] for name in step.writes if name != REJECTS}


def _reason(parts: Mapping[str, Any], previous: StepRecord | None) -> Reason:
    if previous is None:
        return "new"
    if previous.components.get(INCOMPLETE):
        return "missing"
    for part, reason in COMPONENTS.items():
        if parts[part] != previous.components.get(part):
            return reason
    return "missing"


def differs_in_inputs_alone(planned: PlannedStep, record: StepRecord, previous: Manifest) -> bool:
    """And what the step read then are the tables of the last run. A source in parts knows by its
    first one what there was outside, where that could be told."""
    step, now, then = planned.step, dict(planned.components), dict(record.components)
    read, read_then = now.pop("inputs"), then.pop("inputs", {})
    if step.verb.parts and not step.inputs:
        return now == then and "" not in (read.get(STAMP), read_then.get(STAMP))
    tables = {
        name: previous.tables[table].sha256
        for name, table in step.inputs.items()
        if table in previous.tables
    }
    outside = {name: stamp for name, stamp in read.items() if name not in step.inputs}
    return now == then and read_then == {**tables, **outside}


Rows = Mapping[str, frozenset[str]]
"""Step -> ids of its rows."""
NO_ROWS: Rows = {}


def rows_to_ask_again(step: str, again: Rows, unended: Rows) -> RowsToAskAgain | None:
    """Return the rows of a step whose bad replies are asked for again, or None."""
    rows = again.get(step)
    return RowsToAskAgain(rows, unended.get(step, frozenset())) if rows else None


@dataclass(frozen=True)
class RunOptions:
    """``max_cost`` (in the price table's currency) and ``max_tokens`` stop a run with exit code 5;
    ``allow_deletes`` lifts ``max_delete_ratio``; ``memory_profile`` notes each step's peak;
    ``again``: rows to be asked for once more; ``unended``: those of them of which good replies
    without an end mark are asked for again too; ``manifest``: the run whose tables are loaded, by
    default the newest; ``reconvert``: files are converted again that have a conversion; ``full``,
    ``replace``, ``re_embed`` and ``take_over``: see load/loader.py's LoadOptions."""

    selection: Selection = ALL
    max_cost: float | None = None
    max_tokens: int | None = None
    allow_deletes: bool = False
    memory_profile: bool = False
    again: Rows = field(default_factory=dict)
    unended: Rows = field(default_factory=dict)
    manifest: str | None = None
    full: bool = False
    reconvert: bool = False
    replace: bool = False
    re_embed: bool = False
    take_over: tuple[str, ...] = ()
