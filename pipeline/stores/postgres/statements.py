"""The query for the statements of relationships."""

from collections.abc import Sequence

from sqlalchemy import ARRAY, Select, Text, cast, func, select, true

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.database import columns_of
from pipeline.stores.postgres.schema import CHUNKS, DOCUMENTS, STATEMENTS
from pipeline.stores.records import Statement

PLACES = {
    "document_id": CHUNKS.c.full_doc_id.label("document_id"),
    "order": CHUNKS.c.chunk_order_index.label("order"),
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
    in_workspace = CHUNKS.c.workspace == STATEMENTS.c.workspace
    is_text_unit = in_workspace & (CHUNKS.c.id == STATEMENTS.c.text_unit_id)
    in_workspace = DOCUMENTS.c.workspace == CHUNKS.c.workspace
    is_document = in_workspace & (DOCUMENTS.c.id == CHUNKS.c.full_doc_id)
    columns = columns_of(Statement, STATEMENTS, PLACES)
    joined = select(*columns).select_from(STATEMENTS)
    joined = joined.join(CHUNKS, is_text_unit)
    joined = joined.join(DOCUMENTS, is_document)
    of_relationship = STATEMENTS.c.relationship_id == asked.c.id
    is_visible = allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    of_one = joined.where(STATEMENTS.c.workspace == workspace, of_relationship, is_visible)
    document = CHUNKS.c.full_doc_id.collate("C")
    place = CHUNKS.c.chunk_order_index
    of_one = of_one.order_by(document, place, STATEMENTS.c.id.collate("C"))
    first = of_one.limit(limit).lateral("first")
    found = select(*columns_of(Statement, first)).select_from(asked)
    found = found.join(first, true())
    relationship = first.c.relationship_id.collate("C")
    document = first.c.document_id.collate("C")
    return found.order_by(relationship, document, first.c.order, first.c.id.collate("C"))
