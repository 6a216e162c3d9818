"""The vocabulary of the prompt: a copy of the ontology's types, in prompts/vocabulary.yaml.

A prompt with other words asks for every text again, so a change of ontology.yaml does not reach it:
only ``graphmill ontology adopt`` writes the copy.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from pipeline.ontology.read import parse_ontology
from pipeline.ontology.schema import Ontology, TypeSection

FILE = "prompts/vocabulary.yaml"
HEADER = """\
# The types that the prompt of extract_graph names: a copy of those of ontology.yaml. Written by
# 'graphmill ontology adopt', which tells first what it costs to ask for all texts again.
"""


class Word(BaseModel):
    """A type that the prompt names."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""


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
        return "\n".join(lines)


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
    return tuple(Word(name=one.name, description=one.description) for one in types)


def write_vocabulary(ontology: Ontology) -> str:
    """Return the content of the file for an ontology."""
    content: dict[str, Any] = {}
    content["entity_types"] = [_entry(one) for one in ontology.entity_types]
    content["relationship_types"] = [_entry(one) for one in ontology.relationship_types]
    content["patterns"] = [list(pattern) for pattern in ontology.patterns]
    # Patterns may name OTHER only where the ontology gives it to entities.
    content["otherwise"] = {"entity_types": ontology.otherwise.entity_types}
    used = {key: value for key, value in content.items() if value}
    return HEADER + yaml.safe_dump(
        used, sort_keys=False, allow_unicode=True, default_flow_style=None, width=100
    )


def _entry(one: TypeSection) -> dict[str, str]:
    described = {"description": one.description} if one.description else {}
    return {"name": one.name, **described}
