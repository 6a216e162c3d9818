"""The query for the statements of relationships."""

from collections.abc import Sequence

from sqlalchemy import ARRAY, ColumnElement, Select, Text, cast, func, select, true

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.database import field_names
from pipeline.stores.postgres.schema import CHUNKS, DOCUMENTS, STATEMENTS
from pipeline.stores.records import Statement

PLACES = {
    "document_id": CHUNKS.c.full_doc_id,
    "order": CHUNKS.c.chunk_order_index,
    "title": DOCUMENTS.c.title,
}
"""The fields of a Statement that say where it is stated."""


def select_statements(
    workspace: str, relationship_ids: Sequence[str], limit: int, allowed: Allowed
) -> Select:
    """Return a query for Statements: the first ``limit`` of each relationship, in reading order.

    Only text units of allowed documents count. The limit is applied for each relationship by
    itself, so that one with thousands of statements leaves room for the others.
    """
    ids = cast(list(relationship_ids), ARRAY(Text))
    asked = func.unnest(ids).table_valued("id", name="asked").render_derived()
    is_text_unit = (CHUNKS.c.workspace == STATEMENTS.c.workspace) & (
        CHUNKS.c.id == STATEMENTS.c.text_unit_id
    )
    is_document = (DOCUMENTS.c.workspace == CHUNKS.c.workspace) & (
        DOCUMENTS.c.id == CHUNKS.c.full_doc_id
    )
    columns: list[ColumnElement] = []
    for name in field_names(Statement):
        column = PLACES[name] if name in PLACES else STATEMENTS.c[name]
        columns.append(column.label(name))
    first = (
        select(*columns)
        .select_from(STATEMENTS)
        .join(CHUNKS, is_text_unit)
        .join(DOCUMENTS, is_document)
        .where(
            STATEMENTS.c.workspace == workspace,
            STATEMENTS.c.relationship_id == asked.c.id,
            allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace),
        )
        .order_by(
            CHUNKS.c.full_doc_id.collate("C"),
            CHUNKS.c.chunk_order_index,
            STATEMENTS.c.id.collate("C"),
        )
        .limit(limit)
        .lateral("first")
    )
    return (
        select(*(first.c[name] for name in field_names(Statement)))
        .select_from(asked)
        .join(first, true())
        .order_by(
            first.c.relationship_id.collate("C"),
            first.c.document_id.collate("C"),
            first.c.order,
            first.c.id.collate("C"),
        )
    )
