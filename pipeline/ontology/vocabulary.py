"""The vocabulary of the prompt: a copy of the ontology's types, in prompts/vocabulary.yaml.

A prompt with other words asks for every text again, so a change of ontology.yaml does not reach it:
only ``graphmill ontology adopt`` writes the copy.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from pipeline.ontology.faults import inherited_properties
from pipeline.ontology.read import parse_ontology
from pipeline.ontology.schema import Ontology, Property, TypeSection, Value

FILE = "prompts/vocabulary.yaml"
HEADER = """\
# The types that the prompt of extract_graph names: a copy of those of ontology.yaml. Written by
# 'graphmill ontology adopt', which tells first what it costs to ask for all texts again.
"""


class PropertyWord(BaseModel):
    """A property that the prompt names; ``values`` are those of an enum."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: Value = "string"
    description: str = ""
    unit: str = ""
    values: tuple[str, ...] = ()

    def instruction(self) -> str:
        """Return the name with what a value of it is, and the description."""
        kinds = {
            "string": "text",
            "number": f"number in {self.unit}" if self.unit else "number",
            "date": "date",
            "enum": "one of " + ", ".join(self.values),
            "list": "list, separated by semicolons",
        }
        described = f"; {self.description}" if self.description else ""
        return f"{self.name} ({kinds[self.type]}{described})"


class Word(BaseModel):
    """A type that the prompt names, with its properties, also those of its parents."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    properties: tuple[PropertyWord, ...] = ()

    @model_serializer(mode="wrap")
    def leave_out_no_properties(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the fields; without properties they are those of earlier versions."""
        fields: dict[str, Any] = serialize(self)
        if not self.properties:
            fields.pop("properties", None)
        return fields


class Vocabulary(BaseModel):
    """The types that the prompt names, and between which types of entities relationships may be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    entity_types: tuple[Word, ...] = ()
    relationship_types: tuple[Word, ...] = ()
    patterns: tuple[tuple[str, str, str], ...] = ()

    @property
    def entity_names(self) -> tuple[str, ...]:
        return tuple(word.name for word in self.entity_types)

    @property
    def relationship_names(self) -> tuple[str, ...]:
        return tuple(word.name for word in self.relationship_types)

    @property
    def entity_properties(self) -> tuple[str, ...]:
        """The names of the properties of entities, each once."""
        return _list_properties(self.entity_types)

    @property
    def relationship_properties(self) -> tuple[str, ...]:
        """The names of the properties of relationships, each once."""
        return _list_properties(self.relationship_types)

    @property
    def has_properties(self) -> bool:
        """True if replies are asked for properties."""
        return bool(self.entity_properties or self.relationship_properties)

    def instructions(self) -> str:
        """Return the part of the prompt that names the types."""
        lines: list[str] = []
        if self.entity_types:
            lines.append("The type of an entity is one of these, and no other:")
            lines += _list_words(self.entity_types)
        if self.relationship_types:
            lines.append(
                "The keyword of a relationship is one of these, written as here, and no other."
                " Leave out relationships that none of them describes:"
            )
            lines += _list_words(self.relationship_types)
        if self.patterns:
            lines.append("Relationships may only be, from source to target:")
            lines += [f"- {' '.join(pattern)}" for pattern in self.patterns]
        if self.has_properties:
            lines.append("Give these properties, and no others, where the text states them:")
            for word in (*self.entity_types, *self.relationship_types):
                if word.properties:
                    listed = ", ".join(one.instruction() for one in word.properties)
                    lines.append(f"- of {word.name}: {listed}")
        return "\n".join(lines)


def _list_properties(words: Iterable[Word]) -> tuple[str, ...]:
    names = {one.name: None for word in words for one in word.properties}
    return tuple(names)


def _list_words(words: Sequence[Word]) -> list[str]:
    return [f"- {word.name}{word.description and ': '}{word.description}" for word in words]


def read_vocabulary(root: Path) -> Vocabulary | None:
    """Return the vocabulary of the project in this folder, or None if it has none.

    Raises SettingsError for a mistake in the file.
    """
    text = vocabulary_text(root)
    return None if text is None else parse_vocabulary(text, str(root / FILE))


def vocabulary_text(root: Path) -> str | None:
    """Return the content of the project's file, or None if there is none."""
    path = root / FILE
    return path.read_text(encoding="utf-8") if path.is_file() else None


def parse_vocabulary(text: str, where: str) -> Vocabulary | None:
    """Return the vocabulary of a text, or None if it has no types. Raises SettingsError."""
    ontology = parse_ontology(text, where)
    if ontology is None:
        return None
    return Vocabulary(
        entity_types=_name_words(ontology.entity_types),
        relationship_types=_name_words(ontology.relationship_types),
        patterns=ontology.patterns,
    )


def _name_words(types: Iterable[TypeSection]) -> tuple[Word, ...]:
    words: list[Word] = []
    for one in types:
        named = tuple(_name_property(each) for each in one.properties)
        words.append(Word(name=one.name, description=one.description, properties=named))
    return tuple(words)


def _name_property(one: Property) -> PropertyWord:
    values = tuple(value.name for value in one.values)
    return PropertyWord(
        name=one.name, type=one.type, description=one.description, unit=one.unit, values=values
    )


def write_vocabulary(ontology: Ontology) -> str:
    """Return the content of the file for an ontology."""
    content: dict[str, Any] = {}
    inherited = inherited_properties(ontology)
    entity_types = ontology.entity_types
    relationship_types = ontology.relationship_types
    content["entity_types"] = [_entry(one, inherited[one.name]) for one in entity_types]
    content["relationship_types"] = [_entry(one, one.properties) for one in relationship_types]
    content["patterns"] = [list(pattern) for pattern in ontology.patterns]
    # Patterns may name OTHER only where the ontology gives it to entities.
    content["otherwise"] = {"entity_types": ontology.otherwise.entity_types}
    used = {key: value for key, value in content.items() if value}
    return HEADER + yaml.safe_dump(
        used, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )


def _entry(one: TypeSection, properties: Sequence[Property]) -> dict[str, Any]:
    """Return the entry of a type; ``properties`` are also those of its parents."""
    entry: dict[str, Any] = {"name": one.name}
    if one.description:
        entry["description"] = one.description
    if properties:
        entry["properties"] = [_property_entry(each) for each in properties]
    return entry


def _property_entry(one: Property) -> dict[str, Any]:
    """Return what the prompt says of a property."""
    entry: dict[str, Any] = {"name": one.name, "type": one.type}
    if one.description:
        entry["description"] = one.description
    if one.unit:
        entry["unit"] = one.unit
    if one.values:
        entry["values"] = [value.name for value in one.values]
    return entry
