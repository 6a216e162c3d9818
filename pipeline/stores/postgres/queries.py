"""The SQL of ``reads.py``. Queries that every question needs are built once and cached."""

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
    ENTITY_ID_PREFIX,
    SOURCE_LISTS,
    VECTOR_TABLES,
)
from pipeline.stores.postgres.sources import is_of, limit_to_visible

MOST_KEPT = 100
"""The number of queries of one function that are cached."""
ID_BYTES = 56
"""An upper limit of the bytes that an id takes in an array."""
OF_DOCUMENT = (DOCUMENTS.c.id == CHUNKS.c.full_doc_id) & (
    DOCUMENTS.c.workspace == CHUNKS.c.workspace
)
"""The condition that joins a text unit with its document."""


def searches(
    tables: Sequence[str],
    embedding_key: str,
    dimensions: int,
    by_index: bool,
    allowed: Allowed = Allowed(()),
) -> Select:
    """Return a query for the rows nearest to each of several vectors, in one statement.

    It gives (place, distance, id); ``place`` is the position of the search in ``tables``. The
    vector and the limit of each search are the parameters ``vector_PLACE`` and ``limit_PLACE``.
    Without ``by_index`` all rows are compared. The statement also restores the planner settings
    that ``search_settings`` changed; where nothing is found it gives one row of nulls.
    """
    hits_of_searches: list[Select] = []
    for place, table in enumerate(tables):
        rows = VECTOR_TABLES[table]
        vector: ColumnElement[Any] = rows.c.embedding
        if by_index:
            # The expression must be the one of the index, or PostgreSQL does not use it.
            vector = cast(vector, indexed_type(dimensions))
        wanted = given(f"vector_{place}", vector.type)
        distance = vector.cosine_distance(wanted)
        nearest = _select_nearest(rows, distance, f"limit_{place}")
        nearest = nearest.where(of_model(rows, embedding_key))
        if allowed.within:
            nearest = nearest.where(limit_to_visible(rows, allowed))
        # Each search has an order and a limit of its own, so it is a subquery of the union.
        hits = nearest.add_columns(literal(place).label("place")).subquery()
        hits_of_searches.append(select(hits.c.place, hits.c.distance, hits.c.id))
    found = union_all(*hits_of_searches).subquery("found")
    usual = select(usual_settings().label("setting")).subquery("usual")
    return select(found).outerjoin_from(usual, found, true())


searches_of_all = lru_cache(MOST_KEPT)(searches)
"""The cached form of ``searches``, for callers that may see all documents."""


@lru_cache(MOST_KEPT)
def nearest_of(table: str, dimensions: int) -> Select:
    """Return a query for (distance, id) of the rows ``ids``, the nearest to ``vector`` first."""
    rows = VECTOR_TABLES[table]
    kind = VECTOR(dimensions)
    distance = cast(rows.c.embedding, kind).cosine_distance(given("vector", kind))
    return _select_nearest(rows, distance, "limit").where(rows.c.id == func.any(given("ids")))


def _select_nearest(rows: Table, distance: ColumnElement[float], limit: str) -> Select:
    """Return a query for (distance, id), nearest first; ``limit`` is the name of a parameter."""
    labelled = distance.label("distance")
    found = select(labelled, rows.c.id).where(rows.c.workspace == WORKSPACE)
    nearest_first = (labelled, rows.c.id.collate("C"))
    return found.order_by(*nearest_first).limit(given(limit))


@lru_cache(MOST_KEPT)
def passages(dimensions: int) -> Select:
    """Return a query for the Passages ``ids`` and their similarity to the vector ``question``."""
    kind = VECTOR(dimensions)
    distance = cast(CHUNKS.c.embedding, kind).cosine_distance(given("question", kind))
    # A vector of zeros has no direction, and pgvector gives NaN. Such a passage is not similar to
    # anything.
    not_a_number = literal_column("'NaN'::float8")
    similarity_or_null = func.nullif(1 - distance, not_a_number)
    similarity = func.coalesce(similarity_or_null, 0.0)
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
            func.coalesce(CHUNKS.c.heading, "").label("heading"),
            similarity.label("score"),
            # A database that no load has written since may have none.
            func.coalesce(DOCUMENTS.c.date, "").label("date"),
            func.coalesce(CHUNKS.c.header, "").label("header"),
        )
        .join_from(CHUNKS, DOCUMENTS, OF_DOCUMENT)
        .where(CHUNKS.c.workspace == WORKSPACE, CHUNKS.c.id == func.any(given("ids")))
    )


@cache
def mentions() -> Select:
    """Return a query for EntityMentions in order of their ids; ``mentioned_by`` gives its
    parameters."""
    return _select_mentions().order_by(ENTITIES.c.id.collate("C"))


def _select_mentions() -> Select:
    """Return a query for (id, entity_name, passages) of entities, in no order.

    It finds the entities ``entities`` and those with a text unit in ``units``. Of a list that is
    longer than ``most``, the passages are empty. Its size in bytes is compared first, so that
    PostgreSQL does not read a long list that is stored out of line.
    """
    units = SOURCE_LISTS.c.chunk_ids
    units_if_few = case((func.cardinality(units) <= given("most", Integer), units))
    units_if_small = case(
        (func.pg_column_size(units) <= given("most_bytes", Integer), units_if_few)
    )
    # Written out, not a parameter, so that PostgreSQL sees it is the condition of the index.
    is_entity = SOURCE_LISTS.c.id.bool_op("^@")(literal(ENTITY_ID_PREFIX, literal_execute=True))
    has_unit = units.bool_op("&&")(given("units", ARRAY(Text)))
    is_asked = SOURCE_LISTS.c.id == func.any(given("entities"))
    return (
        select(
            ENTITIES.c.id,
            ENTITIES.c.entity_name,
            func.coalesce(units_if_small, cast([], ARRAY(Text))).label("passages"),
        )
        .join_from(SOURCE_LISTS, ENTITIES, is_of(ENTITIES))
        .where(SOURCE_LISTS.c.workspace == WORKSPACE, is_entity, or_(has_unit, is_asked))
    )


def mentioned_by(
    text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
) -> dict[str, Any]:
    """Return the parameters of ``mentions`` and ``opened_mentions``, without the workspace."""
    return {
        "units": list(text_unit_ids),
        "entities": list(entity_ids),
        "most": most,
        "most_bytes": ID_BYTES * (most + 1),
    }


@cache
def opened_mentions() -> CompoundSelect:
    """Return a query for mentions together with the openings of the first ``passages`` of them.

    An entity is a row (id, entity_name, "", passages). A passage is a row (id, title of its
    document, first ``length`` characters, null).
    """
    # Both parts of the union read the mentions, which are found once.
    found = _select_mentions().cte("found").prefix_with("MATERIALIZED")
    entities = select(found.c.id, found.c.entity_name, literal(""), as_given(found.c.passages))
    unit = func.unnest(found.c.passages).label("id")
    units = select(unit).distinct().subquery("units")
    by_id = units.c.id.collate("C")
    first = select(units).order_by(by_id).limit(given("passages")).subquery("first")
    passages_of_them = _select_openings().join(first, first.c.id == CHUNKS.c.id)
    return union_all(entities, passages_of_them.add_columns(null()))


@cache
def openings() -> Select:
    """Return a query for (id, title of its document, first ``length`` characters) of the text units
    ``ids``."""
    return _select_openings().where(CHUNKS.c.id == func.any(given("ids")))


def _select_openings() -> Select:
    """Return a query for (id, title of its document, first ``length`` characters) of all text
    units."""
    opening = func.substr(CHUNKS.c.content, 1, given("length", Integer))
    return (
        select(CHUNKS.c.id, DOCUMENTS.c.title, opening)
        .join_from(CHUNKS, DOCUMENTS, OF_DOCUMENT)
        .where(CHUNKS.c.workspace == WORKSPACE)
    )
