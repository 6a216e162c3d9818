"""Check a correction of a property against ontology.yaml and the types of the last run."""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipeline.contract.schemas import STRING
from pipeline.corrections.conflicts import final_keys
from pipeline.corrections.decisions import Decision, DeleteProperty, SetProperty, SetType
from pipeline.documents.own_tables.columns import FOLDER, list_id_properties
from pipeline.engine.workflow import Workflow
from pipeline.errors import UsageError
from pipeline.ontology.property_values import Fault, Properties
from pipeline.ontology.read import read_ontology
from pipeline.ontology.schema import ANY_TYPE, KEEP, Property
from pipeline.ontology.step_args import OPEN, properties_by_type
from pipeline.ontology.type_names import TypeNames
from pipeline.runs.services import Services
from pipeline.text.ids import entity_id, match_key
from pipeline.verbs.decided_attributes import read_decided_value

PropertyDecision = SetProperty | DeleteProperty


def check_property(
    project: Services,
    workflow: Workflow,
    decision: PropertyDecision,
    others: Sequence[Decision],
) -> Decision:
    """Return the decision with the name that the ontology gives the property.

    The type of the entity is that of an earlier correction among ``others``, else that of the last
    run. A type that the ontology does not have, such as OTHER, has no properties but those of all
    types. An entity that the last run did not have may have the properties of each type. Raises
    UsageError where no such type has the property, and for a value that is none of the property.
    """
    ids = list_id_properties(project.root / FOLDER)
    ontology = read_ontology(project.root) or OPEN
    by_type = properties_by_type(ontology, ids)
    if not by_type:
        raise UsageError(
            "corrections: ontology.yaml declares no property of entities; declare it there first,"
            " as docs/knowledge.md shows"
        )
    given_type = _find_type(project, workflow, decision.entity, others)
    type_names = TypeNames.of((each.name, each.synonyms) for each in ontology.entity_types)
    type = type_names.find(given_type) or given_type
    of_any_type = by_type.get(ANY_TYPE, ())
    candidates = {type: by_type.get(type, of_any_type)} if type else by_type
    found = _find_property(decision.property, candidates)
    if not found:
        if ontology.otherwise.properties == KEEP:
            return decision
        raise UsageError(_explain_unknown(decision, type, candidates, by_type))
    if isinstance(decision, SetProperty):
        _check_value(decision, found)
    names = {property.name for property in found.values()}
    if len(names) != 1:
        # Two types may give one word to properties of other names; then the word stays.
        return decision
    return decision.model_copy(update={"property": names.pop()})


def _find_property(
    name: str, candidates: Mapping[str, Sequence[Property]]
) -> Mapping[str, Property]:
    """Return the property that a word names, by the types that have it."""
    found: dict[str, Property] = {}
    for type, properties in candidates.items():
        property = Properties(properties).find(name)
        if property is not None:
            found[type] = property
    return found


def _explain_unknown(
    decision: PropertyDecision,
    type: str,
    candidates: Mapping[str, Sequence[Property]],
    by_type: Mapping[str, Sequence[Property]],
) -> str:
    """Return the message that the type lacks the property. ``type`` is "" if not known.

    ``candidates``: the properties that the entity may have. ``by_type``: those of each type.
    """
    name = decision.property
    known: set[str] = set()
    for properties in candidates.values():
        known.update(property.name for property in properties)
    names = sorted(known)
    others = sorted(_find_property(name, by_type))
    advice: list[str] = []
    if names:
        advice.append(f"use one of {', '.join(names)}")
    if others:
        # It stands in the file, so the type of the entity may be what is wrong.
        having = " or ".join(others)
        advice.append(
            f"give '{decision.entity}' the type {having} first, which has it ('graphmill"
            " corrections add set_type'), or run first if ontology.yaml has changed"
        )
    fact = f"type {type} has no property '{name}'" if type else f"no type has a property '{name}'"
    to_do = ", or ".join(advice) or "declare it there first"
    return f"corrections: {fact} in ontology.yaml; {to_do}"


def _check_value(decision: SetProperty, found: Mapping[str, Property]) -> None:
    """Check that one of the types can read the value. Raises UsageError with the first fault."""
    faults: dict[str, Fault] = {}
    for type, property in found.items():
        values = read_decided_value(property, decision.value)
        if not isinstance(values, Fault):
            return
        faults[type] = values
    type, fault = next(iter(faults.items()))
    raise UsageError(
        f"corrections: '{decision.value}' is no value of '{found[type].name}' of type {type}:"
        f" {fault.fact}; give another value"
    )


def _find_type(
    project: Services, workflow: Workflow, entity: str, others: Sequence[Decision]
) -> str:
    """Return the type that the entity has after the corrections, or "" if it is not known."""
    final = final_keys(others)
    key = match_key(entity)
    key = final.get(key, key)
    for decision in others:
        if isinstance(decision, SetType):
            named = match_key(decision.entity)
            if final.get(named, named) == key:
                return decision.to
    table = project.snapshots.manifest(workflow.name).tables.get("entities")
    if table is None:
        return ""
    # The last run may have followed the renaming of the entity, or not yet.
    ids = pa.array([entity_id(key), entity_id(entity)], STRING)
    rows = project.snapshots.tables.select(table, ("id",), ids, ["id", "type"])
    types = dict(zip(rows["id"].to_pylist(), rows["type"].to_pylist(), strict=True))
    for id in ids.to_pylist():
        if id in types:
            return types[id]
    return ""
