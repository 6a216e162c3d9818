"""Read ontology.yaml; a mistake names the file, the line and the key."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from pipeline.errors import SettingsError
from pipeline.ontology import neo4j_graphrag
from pipeline.ontology.faults import Place, find_faults
from pipeline.ontology.schema import (
    EntityType,
    EnumValue,
    Ontology,
    Otherwise,
    Property,
    RelationshipType,
)
from pipeline.settings.validation import RepeatedKeyError, did_you_mean, not_yaml, parse_yaml

FILE = "ontology.yaml"
_KEYS_OF: Mapping[str, Sequence[str]] = {
    "entity_types": list(EntityType.model_fields),
    "relationship_types": list(RelationshipType.model_fields),
    "properties": list(Property.model_fields),
    "values": list(EnumValue.model_fields),
    "otherwise": list(Otherwise.model_fields),
}
"""The keys below a section of the file."""


def read_ontology(root: Path) -> Ontology | None:
    """Return the ontology of the project in this folder, or None if it has none.

    Raises SettingsError, with file, line and key, if the file has a mistake.
    """
    path = root / FILE
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}; let this user read it") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not UTF-8; save it as UTF-8") from None
    return parse_ontology(text, str(path))


def parse_ontology(text: str, where: str) -> Ontology | None:
    """Return the ontology of a text: that of ontology.yaml, or a schema of neo4j-graphrag.

    Return None for a text of comments alone. ``where`` names the file in messages. Raises
    SettingsError for a mistake.
    """
    try:
        content = parse_yaml(text)
    except RepeatedKeyError as error:
        raise SettingsError(f"{where}:{error.line}: {error.place}: {error.problem}") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{where}: {not_yaml(error)}") from None
    if content is None:
        return None
    if not isinstance(content, dict):
        raise SettingsError(f"{where}: expected entity_types or relationship_types; write them")
    if neo4j_graphrag.is_schema(content):
        content = neo4j_graphrag.to_ontology(content)
    try:
        ontology = Ontology.model_validate(content)
    except ValidationError as error:
        place, message = _explain(_choose_fault(error))
        raise SettingsError(_at(where, text, place, message)) from None
    for fault in find_faults(ontology):
        raise SettingsError(_at(where, text, fault.place, fault.message))
    return ontology


def _choose_fault(error: ValidationError) -> Mapping[str, Any]:
    """Return the first fault; an unknown key beside a missing one goes before that.

    It is probably the missing one misspelt.
    """
    faults = error.errors(include_url=False, include_input=False)
    lacking = {fault["loc"][:-1] for fault in faults if fault["type"] == "missing"}
    for fault in faults:
        if fault["type"] == "extra_forbidden" and fault["loc"][:-1] in lacking:
            return fault
    return faults[0]


def _explain(fault: Mapping[str, Any]) -> tuple[Place, str]:
    """Return the place of a failed validation, and what is wrong there."""
    place: Place = tuple(fault["loc"])
    if fault["type"] == "tuple_type":
        return place, "no list; write each entry in a line of its own, after '- '"
    if place[:1] == ("patterns",) and fault["type"] in ("missing", "too_long"):
        return place[:2], "a pattern is [source type, relationship type, target type]; write three"
    if fault["type"] != "extra_forbidden":
        return place, str(fault["msg"]).removeprefix("Value error, ")
    sections = [key for key in place[:-1] if isinstance(key, str)]
    known = _KEYS_OF.get(sections[-1], ()) if sections else list(Ontology.model_fields)
    return place, f"unknown key; {did_you_mean(str(place[-1]), known, 'known keys')}"


def _at(where: str, text: str, place: Place, message: str) -> str:
    """Return a message with the file, the line and the key of a place."""
    key = ""
    for part in place:
        key += f"[{part}]" if isinstance(part, int) else f".{part}"
    line = _line_of(text, place)
    return ": ".join(filter(None, [f"{where}:{line}", key.removeprefix("."), message]))


def _line_of(text: str, place: Iterable[str | int]) -> int:
    """Return the line of the value at a place, or of the last part of the place that is there."""
    node: Any = yaml.compose(text, Loader=yaml.CSafeLoader)
    line = node.start_mark.line
    for part in place:
        found = _below(node, part)
        if found is None:
            break
        key, node = found
        line = key.start_mark.line
    return line + 1


def _below(node: Any, part: str | int) -> tuple[Any, Any] | None:
    """Return the key and the value of a part of a mapping or a list, or None.

    An entry of a list is its own key.
    """
    if isinstance(part, int):
        if not isinstance(node, yaml.SequenceNode) or part >= len(node.value):
            return None
        return node.value[part], node.value[part]
    if not isinstance(node, yaml.MappingNode):
        return None
    # A schema of neo4j-graphrag has other names for the same keys.
    spellings = (part, neo4j_graphrag.KEYS.get(part, part))
    for key, value in node.value:
        if key.value in spellings:
            return key, value
    return None
