"""The query for the values of entities' properties."""

from collections.abc import Sequence

from sqlalchemy import ARRAY, ColumnElement, Select, Subquery, Text, cast, func, select

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.database import field_names
from pipeline.stores.postgres.schema import ATTRIBUTES, CHUNKS, DOCUMENTS
from pipeline.stores.reads import AttributeLimit
from pipeline.stores.records import Attribute

PLACES = {
    "title": DOCUMENTS.c.title,
    "order": CHUNKS.c.chunk_order_index,
    "date": func.coalesce(DOCUMENTS.c.date, ""),
}
"""The fields of an Attribute that say where it is given."""


def select_attributes(
    workspace: str, entity_ids: Sequence[str], limit: AttributeLimit, allowed: Allowed
) -> Select:
    """Return a query for Attributes of the entities, within the limits; see VectorReads.

    Only text units of allowed documents count. Each limit is applied to an entity, a property or a
    value by itself, so that one with thousands of rows leaves room for the others.
    """
    given = _select_given(workspace, entity_ids, allowed)
    of_property = [given.c.entity_id, given.c.name]
    of_value = [*of_property, given.c.type, given.c.unit, given.c.value]
    by_place = [given.c.order, given.c.id.collate("C")]
    in_document = func.row_number().over(
        partition_by=[*of_value, given.c.document_id], order_by=by_place
    )
    # A document without a date has "", which sorts below every date.
    newest = func.max(given.c.date.collate("C")).over(partition_by=of_value)
    placed = select(given, in_document.label("in_document"), newest.label("newest"))
    first = placed.subquery("placed")

    of_property = [first.c.entity_id, first.c.name]
    of_value = [*of_property, first.c.type, first.c.unit, first.c.value]
    properties = func.dense_rank().over(
        partition_by=first.c.entity_id, order_by=first.c.name.collate("C")
    )
    value_order = [first.c.newest.desc()]
    value_order += [column.collate("C") for column in (first.c.value, first.c.type, first.c.unit)]
    values = func.dense_rank().over(partition_by=of_property, order_by=value_order)
    newest_first = [first.c.date.collate("C").desc(), first.c.document_id.collate("C")]
    documents = func.row_number().over(partition_by=of_value, order_by=newest_first)
    numbered = select(
        first,
        properties.label("property_number"),
        values.label("value_number"),
        documents.label("document_number"),
    )
    # One text unit stands for a document.
    numbered = numbered.where(first.c.in_document == 1).subquery("numbered")

    found = select(*(numbered.c[name] for name in field_names(Attribute)))
    found = found.where(
        numbered.c.property_number <= limit.properties,
        numbered.c.value_number <= limit.values,
        numbered.c.document_number <= limit.documents,
    )
    return found.order_by(
        numbered.c.entity_id.collate("C"),
        numbered.c.name.collate("C"),
        numbered.c.value_number,
        numbered.c.document_number,
    )


def _select_given(workspace: str, entity_ids: Sequence[str], allowed: Allowed) -> Subquery:
    """Return a subquery of all Attributes of the entities that allowed documents give."""
    in_workspace = CHUNKS.c.workspace == ATTRIBUTES.c.workspace
    is_text_unit = in_workspace & (CHUNKS.c.id == ATTRIBUTES.c.text_unit_id)
    in_workspace = DOCUMENTS.c.workspace == CHUNKS.c.workspace
    is_document = in_workspace & (DOCUMENTS.c.id == CHUNKS.c.full_doc_id)
    columns: list[ColumnElement] = []
    for name in field_names(Attribute):
        column = PLACES[name] if name in PLACES else ATTRIBUTES.c[name]
        columns.append(column.label(name))
    joined = select(*columns).select_from(ATTRIBUTES)
    joined = joined.join(CHUNKS, is_text_unit).join(DOCUMENTS, is_document)
    ids = func.any(cast(list(entity_ids), ARRAY(Text)))
    is_visible = allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    of_entities = joined.where(ATTRIBUTES.c.workspace == workspace, ATTRIBUTES.c.entity_id == ids)
    return of_entities.where(is_visible).subquery("given")
