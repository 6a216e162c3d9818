"""The steps that make the tables of a view: those of its workflow over the documents of the view,
and no chat model.

A view has what the workflow would make of a project with the documents of the view alone, as far as
no chat model is needed for it. Each step of the workflow behind its documents is one of these:

- A step that asks no chat model runs again, over the tables of the view.
- What a chat model said of each text unit is taken over for the text units of the view.
- ``summarize_descriptions`` becomes ``join_descriptions``.
- A step that can do without its chat model, as ``resolve_entities`` can, runs without it.
- Any other step is left out, as reports are, and so is what is made of its tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from pipeline.contract.registry import REGISTRY, Params, Verb
from pipeline.contract.views import DOCUMENTS_STEP, conditions_digest, in_view
from pipeline.engine.workflow import DOCUMENTS, REJECTS, Step, Workflow, wired
from pipeline.errors import SettingsError, UsageError, counted
from pipeline.load.projection import require_columns
from pipeline.models.base import ChatModel
from pipeline.snapshots.manifests import Manifest, digest_of_view, view_of

TEXT_UNITS, ENTITIES = "text_units", "entities"
CHOOSE, TAKE_OVER, SUMMARIZE, JOIN = (
    "filter_documents", "restrict_to_text_units", "summarize_descriptions", "join_descriptions",
)  # fmt: skip
"""Verbs."""
Conditions = Mapping[str, Any]


@dataclass(frozen=True)
class ViewSize:
    """How many rows the last run made of a view; None where it has not made the view as settings
    have it."""

    view: str
    documents: int | None = None
    text_units: int | None = None
    entities: int | None = None

    def line(self) -> str:
        if self.documents is None:
            return f"view {self.view}: not made yet with these conditions; the next run makes it"
        sizes = [counted(self.documents, "document")]
        sizes += [counted(self.text_units, "text unit")] if self.text_units is not None else []
        sizes += [counted(self.entities, "entity", "entities")] if self.entities is not None else []
        return f"view {self.view}: {', '.join(sizes)} in the last run"


def sizes_of_views(manifest: Manifest, views: Mapping[str, Conditions]) -> list[ViewSize]:
    """Return the size of each view. ``manifest``: of the workflow's last run."""
    sizes = []
    for view, where in views.items():
        made = view_of(manifest, view)
        if digest_of_view(made) == conditions_digest(where):
            rows = {name: table.rows for name, table in made.tables.items()}
            sizes.append(
                ViewSize(view, rows.get(DOCUMENTS), rows.get(TEXT_UNITS), rows.get(ENTITIES))
            )
        else:
            sizes.append(ViewSize(view))
    return sizes


def with_views(workflow: Workflow, views: Mapping[str, Conditions]) -> Workflow:
    """Return the workflow with the steps of each view behind its own; of a view that it cannot make
    it has none.

    ``views``: name -> conditions on documents. Raises SettingsError for conditions that make no
    sense.
    """
    steps = list(workflow.steps)
    for view, where in views.items():
        if not why_no_view(workflow, view, where):
            steps += steps_of_view(workflow, view, where)
    return replace(workflow, steps=wired(f"workflow '{workflow.name}'", steps))


def why_no_view(workflow: Workflow, view: str, where: Conditions) -> str:
    """Return why the workflow cannot make what a load of the view needs, and what to do; "" if it
    can."""
    told = f"serve.views.{view}: workflow '{workflow.name}'"
    instead = "remove the view, or run another workflow"
    if unsplit := _decided_by_all(workflow):
        return (
            f"{told}: step '{unsplit}' decides by all documents together which there are; {instead}"
        )
    steps = steps_of_view(workflow, view, where)
    written = {
        table: step.writes[name].columns for step in steps for name, table in step.outputs.items()
    }
    own = {
        in_view(table, view): table for step in workflow.steps for table in step.outputs.values()
    }
    try:
        require_columns({own[table]: columns for table, columns in written.items() if table in own})
    except UsageError as error:
        return (
            f"{told} has a table that cannot be made of some documents without a chat model:"
            f" {error}; {instead}"
        )
    return ""


def steps_of_view(workflow: Workflow, view: str, where: Conditions) -> tuple[Step, ...]:
    """Return the steps of a view. Raises SettingsError for conditions that make no sense."""
    if not any(DOCUMENTS in step.outputs.values() for step in workflow.steps):
        return ()
    making = _ViewSteps(view)
    making.choose_documents(where)
    before = _ancestors(workflow, DOCUMENTS)
    for step in workflow.steps:
        if step.id not in before:
            making.follow(step)
    every = wired(f"workflow '{workflow.name}', view '{view}'", [*workflow.steps, *making.steps])
    return every[len(workflow.steps) :]


def _ancestors(workflow: Workflow, table: str) -> set[str]:
    """Return the ids of the steps that write the table, or what it is made of."""
    tables, found = {table}, set[str]()
    for step in reversed(workflow.steps):
        if tables & set(step.outputs.values()):
            found.add(step.id)
            tables |= set(step.inputs.values())
    return found


def _decided_by_all(workflow: Workflow) -> str:
    """Return the id of a step before the documents that does not decide about each document by
    itself, or ""."""
    before = _ancestors(workflow, DOCUMENTS)
    chain = (step for step in workflow.steps if step.id in before and step.verb.inputs)
    return next((step.id for step in chain if step.verb.rowwise is None), "")


@dataclass
class _ViewSteps:
    """``tables``: table of the workflow -> what the view has of it."""

    view: str
    steps: list[Step] = field(default_factory=list)
    tables: dict[str, str] = field(default_factory=dict)

    def choose_documents(self, where: Conditions) -> None:
        verb = REGISTRY.verbs[CHOOSE]
        try:
            params = verb.params.model_validate({"where": where})
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise SettingsError(f"serve.views.{self.view}.where: {reason}") from None
        made = self._named(DOCUMENTS)
        self._add(DOCUMENTS_STEP, verb, params, {DOCUMENTS: DOCUMENTS}, {DOCUMENTS: made})

    def follow(self, step: Step) -> None:
        """Add what the view has in the place of a step, if anything."""
        is_asking = any(step.verb.roles[role] is ChatModel for role in step.models)
        if not is_asking:
            self._run_again(step)
        elif _tells_of_text_units(step):
            self._take_over(step)
        elif step.verb.name == SUMMARIZE:
            joining = REGISTRY.verbs[JOIN]
            params = joining.params.model_validate(
                {"max_tokens": step.params.model_dump()["max_tokens"]}
            )
            outputs = {
                name: table for name, table in step.outputs.items() if name in joining.outputs
            }
            self._run_again(
                replace(step, verb=joining, params=params, outputs=outputs, prompts={}, models={})
            )
        elif _can_do_without(step):
            others = {
                role: name
                for role, name in step.models.items()
                if step.verb.roles[role] is not ChatModel
            }
            self._run_again(replace(step, prompts={}, models=others))

    def _run_again(self, step: Step) -> None:
        if not step.inputs or not set(step.inputs.values()) <= set(self.tables):
            return
        inputs = {name: self.tables[table] for name, table in step.inputs.items()}
        outputs = {
            name: table if name == REJECTS else self._named(table)
            for name, table in step.outputs.items()
        }
        self.steps.append(
            replace(step, id=in_view(step.id, self.view), inputs=inputs, outputs=outputs)
        )

    def _take_over(self, step: Step) -> None:
        if TEXT_UNITS not in self.tables:
            return
        tables = {name: table for name, table in step.outputs.items() if name != REJECTS}
        for name, table in tables.items():
            id = step.id if len(tables) == 1 else f"{step.id}-{name}"
            inputs = {"rows": table, TEXT_UNITS: self.tables[TEXT_UNITS]}
            self._add(
                id, REGISTRY.verbs[TAKE_OVER], Params(), inputs, {"result": self._named(table)}
            )

    def _add(
        self,
        id: str,
        verb: Verb,
        params: Params,
        inputs: Mapping[str, str],
        outputs: Mapping[str, str],
    ) -> None:
        self.steps.append(Step(in_view(id, self.view), verb, params, inputs, outputs, {}, {}))

    def _named(self, table: str) -> str:
        return self.tables.setdefault(table, in_view(table, self.view))


def _tells_of_text_units(step: Step) -> bool:
    """Check that the step decides about each text unit by itself, and that its rows name the text
    unit."""
    law = step.verb.law
    reads = step.verb.rowwise and step.inputs[step.verb.rowwise] == TEXT_UNITS
    tables = [name for name in step.outputs if name != REJECTS]
    return bool(reads and law and all(law.row_of.get(name) == "text_unit_id" for name in tables))


def _can_do_without(step: Step) -> bool:
    """Check that the verb takes neither its chat models nor its prompts for granted."""
    asked = {role for role in step.models if step.verb.roles[role] is ChatModel}
    return asked | set(step.prompts) <= step.verb.optional
