"""Conditions on the text units that rows were made of: whether a caller who may see some documents
only may see a row."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, Table, exists, func, select

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.schema import CHUNKS, REPORTS, SOURCE_LISTS


def limit_to_visible(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    """Return the condition that a caller who may see the allowed documents only may see the row.

    One source in these documents is enough. A report reveals all of its sources, so all of them
    must be in these documents.
    """
    if table is REPORTS:
        return _has_source_in(table, allowed) & ~_has_source_outside(table, allowed)
    return _has_source_in(table, allowed)


def _has_source_in(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    """Return the condition that at least one text unit of the allowed documents is a source."""
    if table is CHUNKS:
        return allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    chunk = CHUNKS.alias("source")
    lists = _lists_of(table)
    has_own_lists = lists is table
    is_allowed = (
        chunk.c.workspace == table.c.workspace,
        allowed.has(chunk.c.full_doc_id, chunk.c.workspace),
    )
    if allowed.few is None:
        is_source = chunk.c.id == func.any(lists.c.chunk_ids)
        found = exists().where(is_source, *is_allowed)
        return found if has_own_lists else found.where(is_of(table))
    # Few documents have few text units: their ids become one array, which an index can compare.
    allowed_units = select(chunk.c.id).where(*is_allowed).scalar_subquery()
    overlaps = lists.c.chunk_ids.bool_op("&&")(func.array(allowed_units))
    return overlaps if has_own_lists else exists().where(is_of(table), overlaps)


def _has_source_outside(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    """Return the condition that a source belongs to a document that is not allowed, or is gone."""
    unit = func.unnest(table.c.chunk_ids).table_valued("id", name="unit").render_derived()
    chunk = CHUNKS.alias("source")
    is_known = exists().where(
        chunk.c.workspace == table.c.workspace,
        chunk.c.id == unit.c.id,
        allowed.has(chunk.c.full_doc_id, chunk.c.workspace),
    )
    outside = select(unit.c.id).where(~is_known.correlate(unit, table))
    return outside.correlate(table).exists()


def sources_of(workspace: str, table: Table, ids: Sequence[str]) -> Select:
    """Return a query for (id, source): a row for each source text unit of the rows ``ids``."""
    if table is CHUNKS:
        # A text unit is its own source.
        rows = CHUNKS
        source: ColumnElement[str] = CHUNKS.c.id
    else:
        rows = _lists_of(table)
        source = func.unnest(rows.c.chunk_ids)
    query = select(rows.c.id, source.label("source"))
    return query.where(rows.c.workspace == workspace, rows.c.id == func.any(list(ids)))


def _lists_of(table: Table) -> Table:
    """Return the table that holds the lists of sources of the rows of ``table``."""
    return table if table is REPORTS else SOURCE_LISTS


def is_of(table: Table) -> ColumnElement[bool]:
    """Return the condition that a row of SOURCE_LISTS is the list of a row of ``table``."""
    return (SOURCE_LISTS.c.workspace == table.c.workspace) & (SOURCE_LISTS.c.id == table.c.id)
