"""Which documents the rows of a workspace come from."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, Table, exists, func, select

from pipeline.stores.tables import CHUNKS, REPORTS


def told_by(table: Table, documents: Sequence[str]) -> ColumnElement[bool]:
    """The condition that the row is there for who may see these documents only: a report tells of all its sources at
    once, so that all must be theirs."""
    if table is REPORTS:
        return has_source_in(table, documents) & ~_has_source_outside(table, documents)
    return has_source_in(table, documents)


def has_source_in(table: Table, documents: Sequence[str]) -> ColumnElement[bool]:
    """The condition that at least one text unit of these documents is a source of the row."""
    if table is CHUNKS:
        return CHUNKS.c.full_doc_id == func.any(list(documents))
    chunk = CHUNKS.alias("source")
    return exists().where(
        chunk.c.workspace == table.c.workspace,
        chunk.c.id == func.any(table.c.chunk_ids),
        chunk.c.full_doc_id == func.any(list(documents)),
    )


def _has_source_outside(table: Table, documents: Sequence[str]) -> ColumnElement[bool]:
    unit = func.unnest(table.c.chunk_ids).table_valued("id", name="unit").render_derived()
    chunk = CHUNKS.alias("source")
    known = (
        exists()
        .where(
            chunk.c.workspace == table.c.workspace,
            chunk.c.id == unit.c.id,
            chunk.c.full_doc_id == func.any(list(documents)),
        )
        .correlate(unit, table)
    )
    return select(unit.c.id).where(~known).correlate(table).exists()


def origins(table: Table, workspace: str, ids: Sequence[str], documents: Sequence[str]) -> Select:
    """(id, some, all): whether some, or all, of the text units that are a row's sources belong to the documents."""
    rows = _sources(table).where(table.c.workspace == workspace, table.c.id == func.any(list(ids))).subquery()
    chunk = CHUNKS.alias("source")
    belongs = func.coalesce(chunk.c.full_doc_id == func.any(list(documents)), False)
    return (
        select(rows.c.id, func.bool_or(belongs), func.bool_and(belongs))
        .outerjoin_from(rows, chunk, (chunk.c.workspace == workspace) & (chunk.c.id == rows.c.source))
        .group_by(rows.c.id)
    )


def _sources(table: Table) -> Select:
    """(id, source): a row for each text unit that is a row's source."""
    return select(table.c.id, (table.c.id if table is CHUNKS else func.unnest(table.c.chunk_ids)).label("source"))
