"""The args that the steps of an ontology get: each only what its result depends on.

So a step runs again only if its own part of ontology.yaml changes. Their order in the file is left
out: it changes nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.ontology.faults import ends_of, inherited_properties, names_of, parents_of
from pipeline.ontology.property_values import Properties
from pipeline.ontology.schema import (
    ANY_TYPE,
    KEEP,
    Ontology,
    Otherwise,
    Pattern,
    Property,
    TypeSection,
)

OPEN = Ontology.model_construct(otherwise=Otherwise.model_validate(KEEP))
"""The ontology of a project that has master data and no ontology.yaml: everything is allowed."""


def conform_args(ontology: Ontology, ids: Sequence[str] = ()) -> dict[str, Any]:
    """Return the args of conform_extractions; ``ids`` are properties that every entity may have."""
    otherwise = ontology.otherwise
    args: dict[str, Any] = {}
    args["entity_types"] = _synonyms_by_name(ontology.entity_types)
    args["relationship_types"] = _synonyms_by_name(ontology.relationship_types)
    args["other_entities"] = otherwise.entity_types
    args["other_relationships"] = otherwise.relationship_types
    args["entity_properties"] = entity_properties(ontology, ids)
    args["relationship_properties"] = _properties_by_name(ontology.relationship_types)
    args["other_properties"] = otherwise.properties
    return args


def entity_properties(
    ontology: Ontology, ids: Sequence[str] = ()
) -> dict[str, list[dict[str, Any]]]:
    """Return what ``properties_by_type`` does, as args of a step."""
    found = properties_by_type(ontology, ids)
    return {type: _dump_properties(each) for type, each in found.items()}


def properties_by_type(
    ontology: Ontology, ids: Sequence[str] = ()
) -> dict[str, tuple[Property, ...]]:
    """Return the properties of each type of entities that has some, also by its parents.

    ``ids`` are properties of all types, and under ANY_TYPE those of a type that has no others.
    """
    found = {type: each for type, each in inherited_properties(ontology).items() if each}
    if ids:
        found[ANY_TYPE] = ()
    for type, each in found.items():
        own = Properties(each)
        added = (Property(name=name) for name in ids if own.find(name) is None)
        found[type] = (*each, *added)
    return found


def check_args(ontology: Ontology) -> dict[str, Any]:
    """Return the args of check_patterns."""
    otherwise = ontology.otherwise
    relationship_types = ontology.relationship_types
    symmetric = [one for one in relationship_types if one.symmetric]
    args: dict[str, Any] = {}
    args["parents"] = parents_of(ontology)
    args["relationship_types"] = _sorted_names(relationship_types)
    args["symmetric"] = _sorted_names(symmetric)
    args["patterns"] = _canonical_patterns(ontology)
    # The names of the types decide nothing here, so that another type does not run the step again.
    args["other_entities"] = otherwise.entity_types if ontology.entity_types else KEEP
    args["other_patterns"] = otherwise.patterns
    return args


def attribute_args(ontology: Ontology, ids: Sequence[str] = ()) -> dict[str, Any]:
    """Return the args of list_attributes; ``ids`` are properties that every entity may have."""
    policy = ontology.otherwise.properties
    return {"properties": entity_properties(ontology, ids), "other_properties": policy}


def _canonical_patterns(ontology: Ontology) -> list[Pattern]:
    """Return the patterns with the names of types in place of synonyms, sorted."""
    entities = ends_of(ontology)
    relationships = names_of(ontology.relationship_types)
    found: set[Pattern] = set()
    for source, type, target in ontology.patterns:
        names = entities.find(source), relationships.find(type), entities.find(target)
        first, second, third = names
        if first and second and third:
            found.add((first, second, third))
    return sorted(found)


def _properties_by_name(types: Sequence[TypeSection]) -> dict[str, list[dict[str, Any]]]:
    return {one.name: _dump_properties(one.properties) for one in types if one.properties}


def _dump_properties(properties: Iterable[Property]) -> list[dict[str, Any]]:
    """Return properties without their descriptions, which change no result, sorted by name."""
    dumped = [one.model_dump(mode="json", exclude={"description"}) for one in properties]
    return sorted(dumped, key=lambda one: one["name"])


def _sorted_names(types: Sequence[TypeSection]) -> list[str]:
    return sorted(one.name for one in types)


def _synonyms_by_name(types: Sequence[TypeSection]) -> dict[str, list[str]]:
    synonyms: dict[str, list[str]] = {}
    for one in types:
        synonyms[one.name] = sorted(one.synonyms)
    return synonyms
