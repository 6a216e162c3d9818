"""The query for the values of entities' properties."""

from collections.abc import Sequence

from sqlalchemy import ARRAY, Select, Subquery, Text, cast, func, select

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.database import columns_of
from pipeline.stores.postgres.schema import ATTRIBUTES, CHUNKS, DOCUMENTS
from pipeline.stores.reads import AttributeLimit
from pipeline.stores.records import Attribute

PLACES = {
    "title": func.coalesce(DOCUMENTS.c.title, ATTRIBUTES.c.correction, "").label("title"),
    "order": func.coalesce(CHUNKS.c.chunk_order_index, 0).label("order"),
    "date": func.coalesce(DOCUMENTS.c.date, "").label("date"),
}
"""The fields of an Attribute that say where it is given."""
VALUE = ("entity_id", "name", "type", "unit", "value")
"""The fields that are equal in all records of a value."""


def select_attributes(
    workspace: str, entity_ids: Sequence[str], limit: AttributeLimit, allowed: Allowed
) -> Select:
    """Return a query for Attributes of the entities, within the limits; see VectorReads.

    Only text units of allowed documents count. Each limit is applied to an entity, a property or a
    value by itself, so that one with thousands of rows leaves room for the others.
    """
    given = _select_given(workspace, entity_ids, allowed)
    value = [given.c[name] for name in VALUE]
    in_document = [*value, given.c.document_id]
    first_place = [given.c.order, given.c.id.collate("C")]
    unit_number = func.row_number().over(partition_by=in_document, order_by=first_place)
    # A document without a date has "", which sorts below every date.
    date = given.c.date.collate("C")
    newest = func.max(date).over(partition_by=value)
    placed = select(given, unit_number.label("unit_number"), newest.label("newest"))
    placed = placed.subquery("placed")

    numbered = _number_rows(placed)
    found = select(*columns_of(Attribute, numbered))
    found = found.where(numbered.c.property_number <= limit.properties)
    found = found.where(numbered.c.value_number <= limit.values)
    found = found.where(numbered.c.document_number <= limit.documents)
    entity, name = numbered.c.entity_id.collate("C"), numbered.c.name.collate("C")
    return found.order_by(entity, name, numbered.c.value_number, numbered.c.document_number)


def _number_rows(placed: Subquery) -> Subquery:
    """Number properties within their entity, values in their property, documents of their value.

    One text unit stands for a document. The newest value and the newest document are number 1.
    """
    columns = placed.c
    by_name = columns.name.collate("C")
    properties = func.dense_rank().over(partition_by=columns.entity_id, order_by=by_name)
    texts = [columns[name].collate("C") for name in ("value", "type", "unit")]
    newest_value = [columns.newest.desc(), *texts]
    property = [columns.entity_id, columns.name]
    values = func.dense_rank().over(partition_by=property, order_by=newest_value)
    date = columns.date.collate("C")
    newest_document = [date.desc(), columns.document_id.collate("C")]
    value = [columns[name] for name in VALUE]
    documents = func.row_number().over(partition_by=value, order_by=newest_document)
    numbers = {
        "property_number": properties,
        "value_number": values,
        "document_number": documents,
    }
    labelled = [number.label(name) for name, number in numbers.items()]
    one_per_document = select(placed, *labelled).where(columns.unit_number == 1)
    return one_per_document.subquery("numbered")


def _select_given(workspace: str, entity_ids: Sequence[str], allowed: Allowed) -> Subquery:
    """Return a subquery of all Attributes of the entities that allowed documents give.

    A value that a person has set without a document has no text unit. It satisfies no condition on
    documents, so it is there only where none is asked.
    """
    in_workspace = CHUNKS.c.workspace == ATTRIBUTES.c.workspace
    is_text_unit = in_workspace & (CHUNKS.c.id == ATTRIBUTES.c.text_unit_id)
    in_workspace = DOCUMENTS.c.workspace == CHUNKS.c.workspace
    is_document = in_workspace & (DOCUMENTS.c.id == CHUNKS.c.full_doc_id)
    columns = columns_of(Attribute, ATTRIBUTES, PLACES)
    joined = select(*columns).select_from(ATTRIBUTES)
    joined = joined.outerjoin(CHUNKS, is_text_unit)
    joined = joined.outerjoin(DOCUMENTS, is_document)
    ids = cast(list(entity_ids), ARRAY(Text))
    is_asked = ATTRIBUTES.c.entity_id == func.any(ids)
    is_visible = allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    in_workspace = ATTRIBUTES.c.workspace == workspace
    has_document = DOCUMENTS.c.id.is_not(None)
    is_by_person = ATTRIBUTES.c.text_unit_id == ""
    is_stated = has_document | is_by_person
    visible = joined.where(in_workspace, is_asked, is_visible, is_stated)
    return visible.subquery("given")
