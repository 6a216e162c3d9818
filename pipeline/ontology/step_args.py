"""The args that the steps of an ontology get: each only what its result depends on.

So a step runs again only if its own part of ontology.yaml changes. Their order in the file is left
out: it changes nothing.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from pipeline.ontology.faults import ends_of, inherited_properties, names_of, parents_of
from pipeline.ontology.schema import Ontology, Pattern, Property, TypeSection


def conform_args(ontology: Ontology) -> dict[str, Any]:
    """Return the args of conform_extractions."""
    otherwise = ontology.otherwise
    args: dict[str, Any] = {}
    args["entity_types"] = _synonyms_by_name(ontology.entity_types)
    args["relationship_types"] = _synonyms_by_name(ontology.relationship_types)
    args["other_entities"] = otherwise.entity_types
    args["other_relationships"] = otherwise.relationship_types
    args["entity_properties"] = entity_properties(ontology)
    args["relationship_properties"] = _properties_by_name(ontology.relationship_types)
    args["other_properties"] = otherwise.properties
    return args


def entity_properties(ontology: Ontology) -> dict[str, list[dict[str, Any]]]:
    """Return the properties of each type of entities that has some, also by its parents."""
    found = inherited_properties(ontology)
    return {type: _dump_properties(each) for type, each in found.items() if each}


def check_args(ontology: Ontology) -> dict[str, Any]:
    """Return the args of check_patterns."""
    otherwise = ontology.otherwise
    relationship_types = ontology.relationship_types
    symmetric = [one for one in relationship_types if one.symmetric]
    args: dict[str, Any] = {}
    args["entity_types"] = _sorted_names(ontology.entity_types)
    args["parents"] = parents_of(ontology)
    args["relationship_types"] = _sorted_names(relationship_types)
    args["symmetric"] = _sorted_names(symmetric)
    args["patterns"] = _canonical_patterns(ontology)
    args["other_entities"] = otherwise.entity_types
    args["other_patterns"] = otherwise.patterns
    return args


def attribute_args(ontology: Ontology) -> dict[str, Any]:
    """Return the args of list_attributes."""
    policy = ontology.otherwise.properties
    return {"properties": entity_properties(ontology), "other_properties": policy}


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
