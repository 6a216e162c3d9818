"""JSON of an answer's evidence: the records and references that the model was shown."""

import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cache
from typing import Any

from pipeline.query.context import Context, Reference, find_page, remove_page_starts
from pipeline.query.entity_table import group_attributes
from pipeline.query.request import QueryRequest
from pipeline.stores.records import Attribute, Entity, Passage, Relationship, Statement

BESIDE_REFERENCE = ("title", "tokens", "header")
"""Fields of a text unit that its reference has already, or that are of no use beside it."""
OPTIONAL_OF_STATEMENT = ("valid_from", "valid_to", "attributes")
"""Fields of a statement that most statements do not have."""
SET_OF_ATTRIBUTE = ("unit", "date")
"""Fields of a value that it has if they are set."""


def shown_tables(request: QueryRequest) -> tuple[str, ...]:
    """Return the names of the tables of ``Context`` that a request has."""
    plain = ("entities", "relationships", "chunks")
    return ("reports", *plain, "claims") if request.with_reports else plain


def evidence_json(context: Context, request: QueryRequest) -> dict[str, Any]:
    """Return the shown records by table, and the references to them."""
    evidence: dict[str, Any] = {}
    for name in shown_tables(request):
        records: Sequence[Any] = getattr(context, name).records
        if name == "chunks":
            evidence[name] = [_chunk_json(chunk) for chunk in records]
            continue
        if name == "relationships" and context.facts:
            # A reader of the data also wants the facts that a passage says too.
            records = context.facts
        if name == "relationships":
            evidence[name] = [_relationship_json(link, context.statements) for link in records]
            continue
        if name == "entities":
            of_entity = group_attributes(context.attributes)
            entities = context.entities.records
            evidence[name] = [_entity_json(one, of_entity.get(one.id, ())) for one in entities]
            continue
        evidence[name] = [_record_json(record) for record in records]
    return {**evidence, **references_json(context, request)}


def references_json(context: Context, request: QueryRequest) -> dict[str, Any]:
    """Return the references; none if the request does not include them."""
    listed = context.references if request.include_references else ()
    return {
        "references": [reference_json(entry, request.include_chunk_content) for entry in listed]
    }


def statements_json(context: Context, most: int, longest: int) -> list[dict[str, Any]]:
    """Return at most ``most`` statements, with the names of their ends, by relationship.

    The best relationships come first. Of each description, the first ``longest`` characters stay.
    """
    links = context.facts or context.relationships.records
    shown: list[dict[str, Any]] = []
    for link in links:
        for statement in context.statements:
            if statement.relationship_id != link.id:
                continue
            fields = _statement_json(statement)
            fields["description"] = statement.description[:longest]
            shown.append({"source": link.source, "target": link.target, **fields})
    return shown[:most]


def dropped_json(context: Context, request: QueryRequest) -> dict[str, int]:
    """Return table -> number of records that the budget had no room for."""
    return {name: getattr(context, name).dropped for name in shown_tables(request)}


def reference_json(entry: Reference, with_content: bool) -> dict[str, Any]:
    """Return a reference as JSON; ``with_content`` adds the text of its text unit."""
    shown: dict[str, Any] = {
        "id": entry.id,
        "chunk_id": entry.chunk_id,
        "document_id": entry.document_id,
        "source": entry.source,
        "title": entry.title,
        "metadata": remove_page_starts(entry.metadata),
        "start": entry.start,
        "end": entry.end,
    }
    if entry.heading:
        shown["heading"] = entry.heading
    if entry.date:
        shown["date"] = entry.date
    if entry.page:
        shown["page"] = entry.page
    if entry.reports:
        shown["reports"] = list(entry.reports)
    if with_content:
        shown["content"] = entry.content
    return shown


def _chunk_json(chunk: Passage) -> dict[str, Any]:
    """Return a text unit with the page on which it begins, if its document has pages."""
    record = _record_json(chunk)
    shown = {name: value for name, value in record.items() if name not in BESIDE_REFERENCE}
    shown["metadata"] = remove_page_starts(chunk.metadata)
    page = find_page(chunk.metadata, chunk.start)
    if page:
        shown["page"] = page
    return shown


def _entity_json(entity: Entity, attributes: Sequence[Attribute]) -> dict[str, Any]:
    """Return an entity with the values of its properties, if it has any."""
    shown = _record_json(entity)
    if attributes:
        shown["properties"] = [attribute_json(one) for one in attributes]
    return shown


def attribute_json(attribute: Attribute) -> dict[str, Any]:
    """Return a value with the document that gives it; unit and date are there if they are set."""
    record = asdict(attribute)
    del record["id"], record["entity_id"], record["order"]
    for name in SET_OF_ATTRIBUTE:
        if not record[name]:
            del record[name]
    return record


def _relationship_json(link: Relationship, statements: Sequence[Statement]) -> dict[str, Any]:
    """Return a relationship with its statements, if it has any among ``statements``."""
    shown = _record_json(link)
    own = [_statement_json(one) for one in statements if one.relationship_id == link.id]
    if own:
        shown["statements"] = own
    return shown


def _statement_json(statement: Statement) -> dict[str, Any]:
    """Return a statement with its text unit, and those of OPTIONAL_OF_STATEMENT that are set."""
    shown = {name: getattr(statement, name) for name in ("type", "description", "text_unit_id")}
    for name in OPTIONAL_OF_STATEMENT:
        value = getattr(statement, name)
        if value:
            shown[name] = value
    return shown


def _record_json(record: Any) -> dict[str, Any]:
    """Return the fields of a record that differ from their defaults.

    Contexts of different kinds fill different fields, so a default means that there is no value.
    """
    shown: dict[str, Any] = {}
    for name, default in _field_defaults(type(record)):
        value = getattr(record, name)
        if value != default:
            shown[name] = _json_value(value)
    return shown


@cache
def _field_defaults(kind: type) -> list[tuple[str, Any]]:
    return [(field.name, field.default) for field in fields(kind)]


def _json_value(value: Any) -> Any:
    """Return a tuple as a list and NaN as None, which JSON has instead; else the value itself."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    return value
