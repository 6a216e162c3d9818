"""The steps that make the tables of a view: those of its workflow over the documents of the view,
without a chat model.

A view has what the workflow would make of a project that only has the documents of the view, as far
as that needs no chat model. Each step of the workflow after its documents is treated in one of
these ways:

- A step that asks no chat model runs again, over the tables of the view.
- A source beside the documents, such as ``read_corrections``, is shared with the workflow.
- Rows that a chat model extracted from each text unit are copied for the text units of the view.
- ``summarize_descriptions`` becomes ``join_descriptions``.
- A step whose chat model is optional, such as ``resolve_entities``, runs without it.
- Any other step is left out, such as reports, and so is every step that reads its tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ValidationError

from pipeline.contract.registry import REGISTRY, Params, Verb
from pipeline.contract.views import DOCUMENTS_STEP, conditions_digest, in_view
from pipeline.engine.workflow import (
    DOCUMENTS,
    FILE_TEXT_UNITS,
    OWN_TEXT_UNITS,
    READ_REPLIES,
    READ_TABLE,
    REJECTS,
    Step,
    Workflow,
    wired,
)
from pipeline.errors import SettingsError, UsageError, counted
from pipeline.load.projection import require_columns
from pipeline.models.base import ChatModel
from pipeline.runs.correction_steps import CORRECT
from pipeline.snapshots.manifests import Manifest, digest_of_view, view_of

TEXT_UNITS, ENTITIES = "text_units", "entities"
ADDING = ("add_tables", "add_imported_documents")
"""Verbs that unite documents of several sources; no document decides about one with another id."""
CHOOSE, TAKE_OVER, SUMMARIZE, JOIN = (
    "filter_documents", "restrict_to_text_units", "summarize_descriptions", "join_descriptions",
)  # fmt: skip
"""The verbs from which views are made."""
BESIDE = (READ_TABLE, *READ_REPLIES)
"""Sources of some documents, whose tables later steps read too."""
OF_ALL = "imported_reports"
"""The output of a source that may repeat what documents say that a view does not show."""
Conditions = Mapping[str, Any]


@dataclass(frozen=True)
class ViewSize:
    """The number of rows of a view's tables in the last run.

    They are None if the last run has not made the view as settings define it.
    """

    view: str
    documents: int | None = None
    text_units: int | None = None
    entities: int | None = None

    def line(self) -> str:
        if self.documents is None:
            return f"view {self.view}: not made yet with these conditions; the next run makes it"
        sizes = [counted(self.documents, "document")]
        if self.text_units is not None:
            sizes.append(counted(self.text_units, "text unit"))
        if self.entities is not None:
            sizes.append(counted(self.entities, "entity", "entities"))
        return f"view {self.view}: {', '.join(sizes)} in the last run"


def sizes_of_views(manifest: Manifest, views: Mapping[str, Conditions]) -> list[ViewSize]:
    """Return the size of each view; ``manifest`` is that of the workflow's last run."""
    sizes = []
    for view, where in views.items():
        made = view_of(manifest, view)
        if digest_of_view(made) != conditions_digest(where):
            sizes.append(ViewSize(view))
            continue
        rows = {name: table.rows for name, table in made.tables.items()}
        size = ViewSize(view, rows.get(DOCUMENTS), rows.get(TEXT_UNITS), rows.get(ENTITIES))
        sizes.append(size)
    return sizes


def with_views(workflow: Workflow, views: Mapping[str, Conditions]) -> Workflow:
    """Return the workflow with the steps of each view after its own.

    ``views`` maps names to conditions on documents. A view that the workflow cannot make is left
    out. Raises SettingsError for invalid conditions.
    """
    steps = list(workflow.steps)
    for view, where in views.items():
        if not why_no_view(workflow, view, where):
            steps += steps_of_view(workflow, view, where)
    return replace(workflow, steps=wired(f"workflow '{workflow.name}'", steps))


def why_no_view(workflow: Workflow, view: str, where: Conditions) -> str:
    """Return why the workflow cannot make the tables that a load of the view needs, and what to do.

    Return "" if it can make them.
    """
    place = f"serve.views.{view}: workflow '{workflow.name}'"
    instead = "remove the view, or run another workflow"
    deciding = _decided_by_all(workflow)
    if deciding:
        return (
            f"{place}: step '{deciding}' decides by all documents together which there are;"
            f" {instead}"
        )
    table_by_name_in_view: dict[str, str] = {}
    for step in workflow.steps:
        for table in step.outputs.values():
            table_by_name_in_view[in_view(table, view)] = table
    columns: dict[str, Any] = {}
    for step in steps_of_view(workflow, view, where):
        for name, table_of_view in step.outputs.items():
            table = table_by_name_in_view.get(table_of_view)
            if table is not None:
                columns[table] = step.writes[name].columns
    try:
        require_columns(columns)
    except UsageError as error:
        return (
            f"{place} has a table that cannot be made of some documents without a chat model:"
            f" {error}; {instead}"
        )
    return ""


def steps_of_view(workflow: Workflow, view: str, where: Conditions) -> tuple[Step, ...]:
    """Return the steps of a view. Raises SettingsError for invalid conditions."""
    if not any(DOCUMENTS in step.outputs.values() for step in workflow.steps):
        return ()
    making = _ViewSteps(view)
    making.choose_documents(where)
    before = _ancestors(workflow, DOCUMENTS)
    for step in workflow.steps:
        # A view sees of a table only the rows that are among its documents.
        if step.id not in before or step.verb.name in BESIDE:
            making.follow(step)
    every = wired(f"workflow '{workflow.name}', view '{view}'", [*workflow.steps, *making.steps])
    return every[len(workflow.steps) :]


def _ancestors(workflow: Workflow, table: str) -> set[str]:
    """Return the ids of the steps that write the table, and of those whose tables it depends on."""
    needed_tables = {table}
    found: set[str] = set()
    # Backwards, so that what a step reads is known before the steps that write it.
    for step in reversed(workflow.steps):
        if not needed_tables.isdisjoint(step.outputs.values()):
            found.add(step.id)
            needed_tables |= set(step.inputs.values())
    return found


def _decided_by_all(workflow: Workflow) -> str:
    """Return the id of a step before the documents whose decision on a document depends on others,
    or ""."""
    before = _ancestors(workflow, DOCUMENTS)
    for step in workflow.steps:
        adds_documents = step.verb.name in ADDING
        is_rowwise = step.verb.rowwise is not None or adds_documents
        if step.id in before and step.verb.inputs and not is_rowwise:
            return step.id
    return ""


@dataclass
class _ViewSteps:
    """Collects the steps of a view.

    ``tables`` maps each table of the workflow to the view's table in its place.
    """

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
        made = self._table_of_view(DOCUMENTS)
        self._add(DOCUMENTS_STEP, verb, params, {DOCUMENTS: DOCUMENTS}, {DOCUMENTS: made})

    def follow(self, step: Step) -> None:
        """Add the steps of the view that take the place of a step of the workflow, if any."""
        if not step.inputs:
            # A source beside the documents, such as corrections, says the same to every view.
            outputs = step.outputs.items()
            self.tables |= {table: table for name, table in outputs if name != OF_ALL}
            return
        is_asking = any(step.verb.roles[role] is ChatModel for role in step.models)
        if not is_asking:
            self._run_again(step)
        elif _tells_of_text_units(step):
            self._take_over(step)
        elif step.verb.name == SUMMARIZE:
            self._join_descriptions(step)
        elif _can_do_without(step):
            kinds, models = step.verb.roles, step.models.items()
            others = {role: name for role, name in models if kinds[role] is not ChatModel}
            self._run_again(replace(step, prompts={}, models=others))

    def _join_descriptions(self, step: Step) -> None:
        """Add the verb that joins descriptions in place of the one that summarizes them."""
        verb = REGISTRY.verbs[JOIN]
        max_tokens = step.params.model_dump()["max_tokens"]
        params = verb.params.model_validate({"max_tokens": max_tokens})
        outputs = {name: table for name, table in step.outputs.items() if name in verb.outputs}
        joining = replace(step, verb=verb, params=params, outputs=outputs, prompts={}, models={})
        self._run_again(joining)

    def _run_again(self, step: Step) -> None:
        """Add the step over the tables of the view, if it has all that the step reads."""
        if not set(step.inputs.values()) <= set(self.tables):
            return
        inputs = {name: self.tables[table] for name, table in step.inputs.items()}
        outputs: dict[str, str] = {}
        for name, table in step.outputs.items():
            outputs[name] = table if name == REJECTS else self._table_of_view(table)
        params = step.params
        if step.verb.name == CORRECT:
            # A value without a document is no value of a document that the view shows.
            params = params.model_copy(update={"uncited": False})
        id = in_view(step.id, self.view)
        self.steps.append(replace(step, id=id, params=params, inputs=inputs, outputs=outputs))

    def _take_over(self, step: Step) -> None:
        """Add a step for each table of the step that takes the rows of the view's text units."""
        if TEXT_UNITS not in self.tables:
            return
        tables = {name: table for name, table in step.outputs.items() if name != REJECTS}
        for name, table in tables.items():
            id = step.id if len(tables) == 1 else f"{step.id}-{name}"
            inputs = {"rows": table, TEXT_UNITS: self.tables[TEXT_UNITS]}
            outputs = {"result": self._table_of_view(table)}
            self._add(id, REGISTRY.verbs[TAKE_OVER], Params(), inputs, outputs)

    def _add(
        self,
        id: str,
        verb: Verb,
        params: Params,
        inputs: Mapping[str, str],
        outputs: Mapping[str, str],
    ) -> None:
        """Add a step whose id says of which view it is."""
        self.steps.append(Step(in_view(id, self.view), verb, params, inputs, outputs))

    def _table_of_view(self, table: str) -> str:
        """Return the view's table in place of one of the workflow."""
        return self.tables.setdefault(table, in_view(table, self.view))


def _tells_of_text_units(step: Step) -> bool:
    """Check that the step decides about each text unit by itself, and that its rows name the text
    unit."""
    law = step.verb.law
    rowwise = step.verb.rowwise
    if law is None or rowwise is None:
        return False
    reads_text_units = step.inputs[rowwise] in (TEXT_UNITS, FILE_TEXT_UNITS, OWN_TEXT_UNITS)
    tables = [name for name in step.outputs if name != REJECTS]
    rows_name_units = all(law.row_of.get(name) == "text_unit_id" for name in tables)
    return reads_text_units and rows_name_units


def _can_do_without(step: Step) -> bool:
    """Check that the step's chat models and prompts are optional for its verb."""
    chat_roles = {role for role in step.models if step.verb.roles[role] is ChatModel}
    prompt_roles = set(step.prompts)
    return chat_roles | prompt_roles <= step.verb.optional
