"""The HNSW index over one workspace's vectors of one model (pgvector)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pgvector.sqlalchemy import HALFVEC, VECTOR
from psycopg import sql
from sqlalchemy import (
    Boolean,
    ColumnElement,
    Connection,
    Select,
    Table,
    Text,
    case,
    column,
    exists,
    func,
    literal,
    select,
    text,
)

from pipeline.stores.base import Live
from pipeline.stores.postgres.database import cursor, given
from pipeline.stores.postgres.maintenance import execute_in_parallel
from pipeline.stores.postgres.schema import HALFVEC_LIMIT, VECTOR_LIMIT, VECTOR_TABLES, partition_of
from pipeline.stores.reads import VectorSearch
from pipeline.text.ids import digest

SEARCH_LIMIT = 1000
"""The largest ef_search that pgvector takes."""
FEW_TEXT_UNITS = 1000

INDEXES = (
    text("""
        SELECT entry.relname AS name, part.relname AS partition, indisvalid AS valid,
               pg_get_expr(indpred, indrelid) AS condition
        FROM pg_index
        JOIN pg_class AS entry ON entry.oid = indexrelid
        JOIN pg_class AS part ON part.oid = indrelid
        JOIN pg_am AS method ON method.oid = entry.relam
        WHERE method.amname = 'hnsw' AND pg_table_is_visible(indrelid)
        """)
    .columns(
        column("name", Text),
        column("partition", Text),
        column("valid", Boolean),
        column("condition", Text),
    )
    .subquery("hnsw")
)
"""Every HNSW index; its condition names the model whose vectors it has."""


@dataclass(frozen=True)
class Hnsw:
    """``m`` and ``ef_construction`` decide how it is built, ``ef_search`` the least breadth of a
    search. Below ``exact_below`` rows there is none, and every vector is compared. ``build_mb``:
    memory it may be built in."""

    m: int = 16
    ef_construction: int = 64
    ef_search: int = 100
    exact_below: int = 5000
    build_mb: int = 1024


def index_name(table: Table, workspace: str, embedding_key: str, hnsw: Hnsw) -> str:
    parameters = f"{embedding_key} {hnsw.m} {hnsw.ef_construction}"
    return f"{partition_of(table, workspace)}_hnsw_{digest(parameters)[:8]}"


def indexed_type(dimensions: int) -> VECTOR | HALFVEC:
    """What a vector is compared as; above the limit of half vectors no index is possible."""
    return (
        VECTOR(dimensions)
        if not VECTOR_LIMIT < dimensions <= HALFVEC_LIMIT
        else HALFVEC(dimensions)
    )


def of_model(table: Table, embedding_key: str) -> ColumnElement[bool]:
    """The condition of the index. Written out, not a parameter, so that PostgreSQL sees it is the
    index's."""
    return table.c.embedding_key == literal(embedding_key, literal_execute=True)


@cache
def search_settings() -> Select:
    """Sets this transaction up for vector searches, given ``search_parameters``. The planner thinks
    it cheap to compare and sort all rows, vectors stored out of line above all; where there is an
    index it is told otherwise. Of few text units it would rather read all, and parse each of them
    for each word of the question, than look the word up: of these it is told so to the end of the
    transaction. A plan that must read all then looks so dear to servers before 18 that they would
    compile it. Nothing is to be sorted to be joined: how long lists of text units are, it does not
    know."""
    of_any_parameters = exists().where(
        INDEXES.c.partition == func.any(given("partitions")),
        INDEXES.c.valid,
        func.strpos(INDEXES.c.condition, given("embedding_key", Text)) > 0,
    )
    return select(
        func.concat(
            func.set_config("hnsw.ef_search", given("breadth", Text), True),
            func.set_config("hnsw.iterative_scan", "strict_order", True),
            func.set_config("enable_sort", case((of_any_parameters, "off"), else_="on"), True),
            func.set_config("enable_seqscan", given("all_are_read", Text), True),
            func.set_config("enable_mergejoin", "off", True),
            func.set_config("jit", "off", True),
        )
    )


def search_parameters(
    searches: Sequence[VectorSearch], workspace: str, live: Live, hnsw: Hnsw
) -> dict[str, Any]:
    most = max((search.limit for search in searches), default=0)
    few = "chunks" in live.tables and live.tables["chunks"].rows < FEW_TEXT_UNITS
    return {
        "partitions": [partition_of(VECTOR_TABLES[search.table], workspace) for search in searches],
        "embedding_key": live.embedding_key,
        "breadth": str(min(max(2 * most, hnsw.ef_search), SEARCH_LIMIT)),
        "all_are_read": "off" if few else "on",
    }


def usual_settings() -> ColumnElement[str]:
    """For what else is read in the transaction."""
    return func.set_config("enable_sort", "on", True)


def build_index(
    connection: Connection, table: Table, rows: int, workspace: str, live: Live, hnsw: Hnsw
) -> None:
    """Where the rows are many enough and it is not there."""
    name = index_name(table, workspace, live.embedding_key, hnsw)
    if not _is_indexed(live, rows, hnsw):
        return
    if connection.execute(select(func.to_regclass(name))).scalar():
        return
    statement = _create_index(name, partition_of(table, workspace), live, hnsw)
    execute_in_parallel(connection, statement, hnsw.build_mb)


def indexes(connection: Connection, workspace: str) -> dict[str, bool]:
    """Name -> whether it is valid, of all tables of the workspace."""
    partitions = [partition_of(table, workspace) for table in VECTOR_TABLES.values()]
    query = select(INDEXES.c.name, INDEXES.c.valid).where(INDEXES.c.partition.in_(partitions))
    return dict(connection.execute(query).all())


def unindexed(there: Mapping[str, bool], workspace: str, live: Live, hnsw: Hnsw) -> list[str]:
    """The tables whose vectors have no index, or none with these parameters, and should. ``there``:
    see ``indexes``."""
    return [
        name
        for name, table in VECTOR_TABLES.items()
        if name in live.tables
        and _is_indexed(live, live.tables[name].rows, hnsw)
        and not there.get(index_name(table, workspace, live.embedding_key, hnsw))
    ]


def outdated_indexes(
    there: Mapping[str, bool], workspace: str, live: Live, hnsw: Hnsw
) -> list[str]:
    """The indexes of earlier models and parameters."""
    current = {
        index_name(table, workspace, live.embedding_key, hnsw) for table in VECTOR_TABLES.values()
    }
    return sorted(there.keys() - current)


def broken_indexes(there: Mapping[str, bool]) -> list[str]:
    """Those that were being dropped when that was cut off: nobody searches them."""
    return sorted(name for name, valid in there.items() if not valid)


def drop_index(connection: Connection, name: str) -> None:
    """Without holding up those who read, once those who do now have ended. The connection must not
    be in a transaction."""
    cursor(connection).execute(
        sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name))
    )


def _is_indexed(live: Live, rows: int, hnsw: Hnsw) -> bool:
    return 0 < live.dimensions <= HALFVEC_LIMIT and rows >= hnsw.exact_below


def _create_index(name: str, partition: str, live: Live, hnsw: Hnsw) -> sql.Composed:
    type_name = "vector" if live.dimensions <= VECTOR_LIMIT else "halfvec"
    return sql.SQL(
        "CREATE INDEX {} ON {} USING hnsw ((embedding::{}({})) {}) WITH (m = {}, ef_construction ="
        " {}) WHERE embedding_key = {}"
    ).format(
        sql.Identifier(name),
        sql.Identifier(partition),
        sql.Identifier(type_name),
        sql.Literal(live.dimensions),
        sql.Identifier(f"{type_name}_cosine_ops"),
        sql.Literal(hnsw.m),
        sql.Literal(hnsw.ef_construction),
        sql.Literal(live.embedding_key),
    )
