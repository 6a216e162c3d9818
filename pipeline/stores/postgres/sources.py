"""The text units that rows were made of, and whether those who may see some documents only may see
a row."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, Table, exists, func, select

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.schema import CHUNKS, REPORTS, SOURCE_LISTS


def told_by(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    """The condition that the row is there for who may see these documents only: a report tells of
    all its sources at once, so that all must be theirs."""
    if table is REPORTS:
        return _has_source_in(table, allowed) & ~_has_source_outside(table, allowed)
    return _has_source_in(table, allowed)


def _has_source_in(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    """The condition that at least one text unit of these documents is a source of the row."""
    if table is CHUNKS:
        return allowed.has(CHUNKS.c.full_doc_id, CHUNKS.c.workspace)
    chunk, lists = CHUNKS.alias("source"), _lists_of(table)
    there = (
        chunk.c.workspace == table.c.workspace,
        allowed.has(chunk.c.full_doc_id, chunk.c.workspace),
    )
    if allowed.few is None:
        found = exists().where(chunk.c.id == func.any(lists.c.chunk_ids), *there)
        return found if lists is table else found.where(is_of(table))
    units = func.array(select(chunk.c.id).where(*there).scalar_subquery())
    some = lists.c.chunk_ids.bool_op("&&")(units)
    return some if lists is table else exists().where(is_of(table), some)


def _has_source_outside(table: Table, allowed: Allowed) -> ColumnElement[bool]:
    unit = func.unnest(table.c.chunk_ids).table_valued("id", name="unit").render_derived()
    chunk = CHUNKS.alias("source")
    known = (
        exists()
        .where(
            chunk.c.workspace == table.c.workspace,
            chunk.c.id == unit.c.id,
            allowed.has(chunk.c.full_doc_id, chunk.c.workspace),
        )
        .correlate(unit, table)
    )
    return select(unit.c.id).where(~known).correlate(table).exists()


def sources_of(workspace: str, table: Table, ids: Sequence[str]) -> Select:
    """(id, source): a row for each text unit that is a source of these rows of the table."""
    rows = CHUNKS if table is CHUNKS else _lists_of(table)
    source = rows.c.id if rows is CHUNKS else func.unnest(rows.c.chunk_ids)
    return select(rows.c.id, source.label("source")).where(
        rows.c.workspace == workspace, rows.c.id == func.any(list(ids))
    )


def _lists_of(table: Table) -> Table:
    """The table that has the text units that the rows of this one were made of."""
    return table if table is REPORTS else SOURCE_LISTS


def is_of(table: Table) -> ColumnElement[bool]:
    """The condition that a list of sources is that of the row."""
    return (SOURCE_LISTS.c.workspace == table.c.workspace) & (SOURCE_LISTS.c.id == table.c.id)
