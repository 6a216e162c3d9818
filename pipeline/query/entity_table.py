"""Rows of entities in a prompt, with the values of their properties and where these are from."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pipeline.query.marks import inert, on_one_line
from pipeline.stores.reads import AttributeLimit
from pipeline.stores.records import Attribute, Entity

ENTITY_HEADER = ["id", "entity", "type", "description", "rank"]
PROPERTIES = "properties"
"""A further column, where one of the entities has properties."""
SHOWN_ATTRIBUTES = AttributeLimit(properties=10, values=3, documents=2)
"""The values of an entity that a question shows."""
LONGEST_TEXT = 100
"""Most characters of a name, a value or a title beside others."""

Marks = Mapping[str, str]
"""The citations of the text units that are shown, by their ids."""


def entity_header(attributes: Sequence[Attribute]) -> list[str]:
    """Return the columns of entities that have these values."""
    return [*ENTITY_HEADER, PROPERTIES] if attributes else ENTITY_HEADER


def build_entity_rows(
    numbered: Iterable[tuple[int, Entity]], attributes: Sequence[Attribute], marks: Marks
) -> Iterator[tuple[Any, ...]]:
    """Yield the values of the columns of ``entity_header`` for each entity with its number."""
    attributes_of_entity = group_attributes(attributes)
    for number, entity in numbered:
        texts = map(inert, (entity.name, entity.type, entity.description))
        row = (number, *texts, entity.degree)
        if attributes:
            properties = describe_properties(attributes_of_entity.get(entity.id, ()), marks)
            row = (*row, properties)
        yield row


def group_attributes(attributes: Iterable[Attribute]) -> dict[str, list[Attribute]]:
    """Return the values by entity, in their order."""
    of_entity: dict[str, list[Attribute]] = {}
    for attribute in attributes:
        of_entity.setdefault(attribute.entity_id, []).append(attribute)
    return of_entity


def describe_properties(attributes: Sequence[Attribute], marks: Marks) -> str:
    """Return the values of an entity on one line, each with the documents that give it.

    Values of one property stand side by side, as "founded: 1851 [ref:2]; 1850 (History, 1990)". A
    document whose text unit is shown is cited, another one is named.
    """
    # Name of the property -> value -> the documents that give it. A dictionary keeps each document
    # once, in the order of the values.
    properties: dict[str, dict[str, dict[str, None]]] = {}
    for attribute in attributes:
        name = _to_cell_text(attribute.name)
        value = _to_cell_text(f"{attribute.value} {attribute.unit}")
        document = marks.get(attribute.text_unit_id) or _name_document(attribute)
        values = properties.setdefault(name, {})
        documents = values.setdefault(value, {})
        documents[document] = None
    described: list[str] = []
    for name, values in properties.items():
        stated = [" ".join([value, *documents]) for value, documents in values.items()]
        described.append(f"{name}: {'; '.join(stated)}")
    return " | ".join(described)


def _name_document(attribute: Attribute) -> str:
    title = _to_cell_text(attribute.title)
    return f"({title}, {attribute.date})" if attribute.date else f"({title})"


def _to_cell_text(text: str) -> str:
    """Return a text on one line that cannot look like another value or a citation."""
    flat = on_one_line(text)[:LONGEST_TEXT]
    return flat.replace("|", "/").replace(";", ",")
