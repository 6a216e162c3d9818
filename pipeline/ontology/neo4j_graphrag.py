"""Read the schema that neo4j-graphrag saves as JSON or YAML."""

from collections.abc import Mapping
from typing import Any

from pipeline.ontology.schema import KEEP, REJECT, Policy

KEYS: Mapping[str, str] = {"entity_types": "node_types", "name": "label"}
"""Keys of ontology.yaml -> the keys that have the same place in a schema."""
_VALUES = {
    "INTEGER": "number",
    "FLOAT": "number",
    "DATE": "date",
    "LOCAL_DATETIME": "date",
    "ZONED_DATETIME": "date",
    "LIST": "list",
}
"""Types of properties; those that are not here are texts."""
_EXISTENCE = "EXISTENCE"


def is_schema(content: Mapping[str, Any]) -> bool:
    """Return whether the content of a file is a schema of neo4j-graphrag."""
    return "node_types" in content


def to_ontology(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of ontology.yaml that means what the schema means.

    As there, what a schema does not list is left out, unless it lists nothing of that kind or says
    that more is allowed. A constraint that a property exists makes it required.
    """
    required = _find_required(schema)
    nodes = [_convert_type(one, required) for one in _list_of(schema, "node_types")]
    links = [_convert_type(one, required) for one in _list_of(schema, "relationship_types")]
    patterns = [_convert_pattern(one) for one in _list_of(schema, "patterns")]
    otherwise: dict[str, Policy] = {}
    otherwise["entity_types"] = _policy(schema, "additional_node_types", nodes)
    otherwise["relationship_types"] = _policy(schema, "additional_relationship_types", links)
    otherwise["patterns"] = _policy(schema, "additional_patterns", patterns)
    otherwise["properties"] = _policy_of_properties(schema)
    return {
        "entity_types": nodes,
        "relationship_types": links,
        "patterns": patterns,
        "otherwise": otherwise,
    }


def _list_of(schema: Mapping[str, Any], key: str) -> list[Any]:
    found = schema.get(key)
    return list(found) if isinstance(found, list) else []


def _find_required(schema: Mapping[str, Any]) -> set[tuple[Any, Any]]:
    """Return the properties that must exist, as pairs of the type's and the property's name."""
    found: set[tuple[Any, Any]] = set()
    for one in _list_of(schema, "constraints"):
        if not isinstance(one, dict) or one.get("type") != _EXISTENCE:
            continue
        type = one.get("node_type") or one.get("relationship_type")
        # Names that are no texts are refused later, where the type or the property has them.
        found.add((str(type), str(one.get("property_name"))))
    return found


def _policy_of_properties(schema: Mapping[str, Any]) -> Policy:
    """Return the treatment of properties that the types do not list."""
    types = [*_list_of(schema, "node_types"), *_list_of(schema, "relationship_types")]
    for one in types:
        if not isinstance(one, dict):
            continue
        lists_all = bool(one.get("properties"))
        allows_more = one.get("additional_properties", not lists_all)
        if not allows_more:
            return REJECT
    return KEEP


def _policy(schema: Mapping[str, Any], key: str, listed: list[Any]) -> Policy:
    """Return what happens to things of a kind that the schema does not list."""
    return KEEP if schema.get(key, not listed) else REJECT


def _convert_type(given: Any, required: set[Any]) -> Any:
    if not isinstance(given, dict):
        return given
    label = given.get("label")
    # Anything unknown stays, so that the check of ontology.yaml names it.
    passed = {
        key: value for key, value in given.items() if key not in ("label", "additional_properties")
    }
    listed = given.get("properties") or []
    if not isinstance(listed, list):
        return {**passed, "name": label}
    properties = [
        _convert_property(one, (str(label), str(_name_of(one))) in required)
        for one in listed
        # The name of an entity is a column of its own.
        if _name_of(one) not in ("name", "id")
    ]
    converted = {**passed, "properties": properties}
    return converted if label is None else {**converted, "name": label}


def _name_of(property: Any) -> Any:
    return property.get("name") if isinstance(property, dict) else property


def _convert_property(given: Any, required: bool) -> Any:
    if not isinstance(given, dict):
        return given
    kind = _VALUES.get(str(given.get("type", "STRING")), "string")
    is_required = bool(given.get("required")) or required
    return {**given, "type": kind, "required": is_required}


def _convert_pattern(given: Any) -> Any:
    """Return a pattern as a list; schemas write it as a list or with keys."""
    if isinstance(given, dict):
        return [given.get(key) for key in ("source", "relationship", "target")]
    return given
