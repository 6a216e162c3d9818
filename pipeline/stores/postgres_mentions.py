"""Which entities a text unit mentions, and which text units an entity is in, out of the tables with vectors."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from psycopg import sql
from sqlalchemy import ARRAY, Connection, Text, case, cast, func, or_, select

from pipeline.stores.base import MENTION_COLUMNS, OPENING_COLUMNS
from pipeline.stores.hnsw import cursor
from pipeline.stores.postgres_lexical import build_or_settle
from pipeline.stores.tables import CHUNKS, DOCUMENTS, ENTITIES, VECTOR_TABLES, partition_of

ID_BYTES = 56
"""More than an id takes in an array."""


EMBEDDINGS = sql.SQL("SELECT id, embedding FROM {} WHERE workspace = %s AND id = ANY(%s)")


def mention_index(workspace: str) -> str:
    return f"{partition_of(ENTITIES, workspace)}_chunk_ids"


def build_mention_index(connection: Connection, workspace: str, build_mb: int) -> None:
    partition, name = partition_of(ENTITIES, workspace), mention_index(workspace)
    statement = sql.SQL("CREATE INDEX {} ON {} USING gin (chunk_ids)")
    build_or_settle(connection, name, statement.format(sql.Identifier(name), sql.Identifier(partition)), build_mb)


def mentions(
    connection: Connection, workspace: str, text_unit_ids: Sequence[str], entity_ids: Sequence[str], most: int
) -> pd.DataFrame:
    """See VectorStore.mentions. A list that is too long is not even read: how much room it takes tells."""
    units = ENTITIES.c.chunk_ids
    few = case((func.pg_column_size(units) <= ID_BYTES * (most + 1), case((func.cardinality(units) <= most, units))))
    query = select(ENTITIES.c.id, ENTITIES.c.entity_name, few).where(
        ENTITIES.c.workspace == workspace,
        or_(units.bool_op("&&")(cast(list(text_unit_ids), ARRAY(Text))), ENTITIES.c.id == func.any(list(entity_ids))),
    )
    found = connection.execute(query.order_by(ENTITIES.c.id.collate("C"))).all()
    return pd.DataFrame([(id, name, units or []) for id, name, units in found], columns=MENTION_COLUMNS)


def openings(connection: Connection, workspace: str, ids: Sequence[str], length: int) -> pd.DataFrame:
    """See VectorStore.openings."""
    query = (
        select(CHUNKS.c.id, DOCUMENTS.c.title, func.substr(CHUNKS.c.content, 1, length))
        .join_from(
            CHUNKS,
            DOCUMENTS,
            (DOCUMENTS.c.id == CHUNKS.c.full_doc_id) & (DOCUMENTS.c.workspace == CHUNKS.c.workspace),
        )
        .where(CHUNKS.c.workspace == workspace, CHUNKS.c.id == func.any(list(ids)))
        .order_by(CHUNKS.c.id.collate("C"))
    )
    return pd.DataFrame(connection.execute(query).all(), columns=OPENING_COLUMNS)


def embeddings(connection: Connection, workspace: str, table: str, ids: Sequence[str]) -> dict[str, np.ndarray]:
    """See VectorStore.embeddings. In binary: as text a vector takes longer to read than to find."""
    statement = EMBEDDINGS.format(sql.Identifier(VECTOR_TABLES[table].name))
    found = cursor(connection, binary=True).execute(statement, [workspace, list(ids)])
    return {id: vector.to_numpy() for id, vector in found}
