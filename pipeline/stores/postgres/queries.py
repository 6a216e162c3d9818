"""What ``reads.py`` asks, as SQL. What is asked for each question is made once."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    CompoundSelect,
    Integer,
    Select,
    Table,
    Text,
    case,
    cast,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    union_all,
)

from pipeline.stores.postgres.conditions import Allowed
from pipeline.stores.postgres.database import WORKSPACE, as_given, given
from pipeline.stores.postgres.hnsw import indexed_type, of_model, usual_settings
from pipeline.stores.postgres.schema import (
    CHUNKS,
    DOCUMENTS,
    ENTITIES,
    ENTITY_IDS,
    SOURCE_LISTS,
    VECTOR_TABLES,
)
from pipeline.stores.postgres.sources import is_of, told_by

MOST_KEPT = 100
"""Queries that are kept of a kind."""
ID_BYTES = 56
"""More than an id takes in an array."""
OF_DOCUMENT = (DOCUMENTS.c.id == CHUNKS.c.full_doc_id) & (
    DOCUMENTS.c.workspace == CHUNKS.c.workspace
)


def searches(
    tables: Sequence[str],
    embedding_key: str,
    dimensions: int,
    by_index: bool,
    allowed: Allowed = Allowed(()),
) -> Select:
    """(place, distance, id) of the rows nearest to each of the given vectors, all in one statement,
    which ends the settings made for it; without the index all rows are compared."""
    near = []
    for place, table in enumerate(tables):
        rows = VECTOR_TABLES[table]
        vector = cast(rows.c.embedding, indexed_type(dimensions)) if by_index else rows.c.embedding
        conditions = [
            of_model(rows, embedding_key),
            *([told_by(rows, allowed)] if allowed.within else []),
        ]
        distance = vector.cosine_distance(given(f"vector_{place}", vector.type))
        rows_near = _nearest(rows, distance, f"limit_{place}").where(*conditions)
        near.append(rows_near.add_columns(literal(place).label("place")).subquery())
    found = union_all(
        *(select(each.c.place, each.c.distance, each.c.id) for each in near)
    ).subquery("found")
    usual = select(usual_settings().label("setting")).subquery("usual")
    return select(found).outerjoin_from(usual, found, true())


searches_of_all = lru_cache(MOST_KEPT)(searches)


@lru_cache(MOST_KEPT)
def nearest_of(table: str, dimensions: int) -> Select:
    rows, kind = VECTOR_TABLES[table], VECTOR(dimensions)
    distance = cast(rows.c.embedding, kind).cosine_distance(given("vector", kind))
    return _nearest(rows, distance, "limit").where(rows.c.id == func.any(given("ids")))


def _nearest(rows: Table, distance: ColumnElement[float], limit: str) -> Select:
    near = distance.label("distance")
    found = select(near, rows.c.id).where(rows.c.workspace == WORKSPACE)
    return found.order_by(near, rows.c.id.collate("C")).limit(given(limit))


@lru_cache(MOST_KEPT)
def passages(dimensions: int) -> Select:
    kind = VECTOR(dimensions)
    distance = cast(CHUNKS.c.embedding, kind).cosine_distance(given("question", kind))
    # A vector of zeros has no direction, and pgvector gives NaN. Such a passage is not similar to
    # anything.
    similarity = func.coalesce(func.nullif(1 - distance, literal_column("'NaN'::float8")), 0.0)
    return (
        select(
            CHUNKS.c.id,
            CHUNKS.c.full_doc_id.label("document_id"),
            DOCUMENTS.c.source,
            DOCUMENTS.c.title,
            CHUNKS.c.char_start.label("start"),
            CHUNKS.c.char_end.label("end"),
            CHUNKS.c.tokens,
            CHUNKS.c.content,
            DOCUMENTS.c.metadata,
            similarity.label("score"),
        )
        .join_from(CHUNKS, DOCUMENTS, OF_DOCUMENT)
        .where(CHUNKS.c.workspace == WORKSPACE, CHUNKS.c.id == func.any(given("ids")))
    )


@cache
def mentions() -> Select:
    return _mentions().order_by(ENTITIES.c.id.collate("C"))


def _mentions() -> Select:
    """A list that is too long is not even read: how much room it takes tells."""
    units = SOURCE_LISTS.c.chunk_ids
    few = case((func.cardinality(units) <= given("most", Integer), units))
    there = case((func.pg_column_size(units) <= given("most_bytes", Integer), few))
    return (
        select(
            ENTITIES.c.id,
            ENTITIES.c.entity_name,
            func.coalesce(there, cast([], ARRAY(Text))).label("passages"),
        )
        .join_from(SOURCE_LISTS, ENTITIES, is_of(ENTITIES))
        .where(
            SOURCE_LISTS.c.workspace == WORKSPACE,
            # Written out, not a parameter, so that PostgreSQL sees it is the index's.
            SOURCE_LISTS.c.id.bool_op("^@")(literal(ENTITY_IDS, literal_execute=True)),
            or_(
                units.bool_op("&&")(given("units", ARRAY(Text))),
                SOURCE_LISTS.c.id == func.any(given("entities")),
            ),
        )
    )


def mentioned_by(
    text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
) -> dict[str, Any]:
    """What is given to ``_mentions``."""
    return {
        "units": list(text_unit_ids),
        "entities": list(entity_ids),
        "most": most,
        "most_bytes": ID_BYTES * (most + 1),
    }


@cache
def opened_mentions() -> CompoundSelect:
    """Of its rows entities have passages and passages have none."""
    found = _mentions().cte("found").prefix_with("MATERIALIZED")
    units = select(func.unnest(found.c.passages).label("id")).distinct().subquery("units")
    first = (
        select(units).order_by(units.c.id.collate("C")).limit(given("passages")).subquery("first")
    )
    return union_all(
        select(found.c.id, found.c.entity_name, literal(""), as_given(found.c.passages)),
        _openings().join(first, first.c.id == CHUNKS.c.id).add_columns(null()),
    )


@cache
def openings() -> Select:
    return _openings().where(CHUNKS.c.id == func.any(given("ids")))


def _openings() -> Select:
    return (
        select(
            CHUNKS.c.id,
            DOCUMENTS.c.title,
            func.substr(CHUNKS.c.content, 1, given("length", Integer)),
        )
        .join_from(CHUNKS, DOCUMENTS, OF_DOCUMENT)
        .where(CHUNKS.c.workspace == WORKSPACE)
    )
