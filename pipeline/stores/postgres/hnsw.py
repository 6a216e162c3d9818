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
from pipeline.stores.postgres.schema import (
    HALFVEC_LIMIT,
    VECTOR_LIMIT,
    VECTOR_TABLES,
    name_partition,
)
from pipeline.stores.reads import VectorSearch
from pipeline.text.ids import digest

SEARCH_LIMIT = 1000
"""The largest ef_search that pgvector accepts."""
FEW_TEXT_UNITS = 1000
"""The number of text units below which the planner would rather read all than use an index."""

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
"""Every HNSW index of the database. The condition of an index names the model of its vectors."""


@dataclass(frozen=True)
class Hnsw:
    """The settings of HNSW indexes.

    ``m`` and ``ef_construction``: the parameters an index is built with. ``ef_search``: the least
    number of candidates of a search. ``exact_below``: tables of fewer rows have no index, and
    searches compare every vector. ``build_mb``: memory in MB for building an index.
    """

    m: int = 16
    ef_construction: int = 64
    ef_search: int = 400
    exact_below: int = 5000
    build_mb: int = 1024


def index_name(table: Table, workspace: str, embedding_key: str, hnsw: Hnsw) -> str:
    """Return the name of an index, which depends on the model and the parameters."""
    parameters = f"{embedding_key} {hnsw.m} {hnsw.ef_construction}"
    return f"{name_partition(table, workspace)}_hnsw_{digest(parameters)[:8]}"


def indexed_type(dimensions: int) -> VECTOR | HALFVEC:
    """Return the type as which vectors are indexed: ``halfvec`` where ``vector`` is too large.

    Above the limit of half vectors no index is possible, and vectors are compared as they are.
    """
    if VECTOR_LIMIT < dimensions <= HALFVEC_LIMIT:
        return HALFVEC(dimensions)
    return VECTOR(dimensions)


def of_model(table: Table, embedding_key: str) -> ColumnElement[bool]:
    """Return the condition of the index: the vector is one of this model.

    The key is written out, not a parameter, so that PostgreSQL sees that the index applies.
    """
    return table.c.embedding_key == literal(embedding_key, literal_execute=True)


@cache
def search_settings() -> Select:
    """Return a query that adapts this transaction's planner settings to vector searches.

    Its parameters are those of ``search_parameters``.
    """
    # An index with any parameters serves, also one of earlier settings.
    has_index = exists().where(
        INDEXES.c.partition == func.any(given("partitions")),
        INDEXES.c.valid,
        func.strpos(INDEXES.c.condition, given("embedding_key", Text)) > 0,
    )
    return select(
        func.concat(
            func.set_config("hnsw.ef_search", given("breadth", Text), True),
            func.set_config("hnsw.iterative_scan", "strict_order", True),
            # The planner underestimates the cost of comparing and sorting all vectors, above all
            # of those stored out of line. Without sorting it uses the index.
            func.set_config("enable_sort", case((has_index, "off"), else_="on"), True),
            # Of few text units the planner would read all, and parse each for each word of the
            # question, instead of looking the words up. The setting holds to the transaction's end.
            func.set_config("enable_seqscan", given("all_are_read", Text), True),
            # A merge join would sort lists of text units, whose lengths the planner does not know.
            func.set_config("enable_mergejoin", "off", True),
            # Without "enable_seqscan" a plan that must read all rows has a huge estimated cost.
            # Servers before 18 would compile such a plan.
            func.set_config("jit", "off", True),
        )
    )


def search_parameters(
    searches: Sequence[VectorSearch], workspace: str, live: Live, hnsw: Hnsw
) -> dict[str, Any]:
    """Return the parameters of ``search_settings``."""
    most = max((search.limit for search in searches), default=0)
    # Twice as many candidates as hits, since the index finds nearly the nearest.
    breadth = min(max(2 * most, hnsw.ef_search), SEARCH_LIMIT)
    has_few = "chunks" in live.tables and live.tables["chunks"].rows < FEW_TEXT_UNITS
    tables = [VECTOR_TABLES[search.table] for search in searches]
    return {
        "partitions": [name_partition(table, workspace) for table in tables],
        "embedding_key": live.embedding_key,
        "breadth": str(breadth),
        "all_are_read": "off" if has_few else "on",
    }


def usual_settings() -> ColumnElement[str]:
    """Return the expression that allows sorting again, for other reads of the transaction."""
    return func.set_config("enable_sort", "on", True)


def build_index(
    connection: Connection, table: Table, rows: int, workspace: str, live: Live, hnsw: Hnsw
) -> None:
    """Build the index of a table with ``rows`` rows, unless it exists or the rows are too few."""
    name = index_name(table, workspace, live.embedding_key, hnsw)
    if not _needs_index(live, rows, hnsw):
        return
    if connection.execute(select(func.to_regclass(name))).scalar():
        return
    statement = _create_index(name, name_partition(table, workspace), live, hnsw)
    execute_in_parallel(connection, statement, hnsw.build_mb)


def indexes(connection: Connection, workspace: str) -> dict[str, bool]:
    """Return the names of all HNSW indexes of the workspace, and whether each is valid."""
    partitions = [name_partition(table, workspace) for table in VECTOR_TABLES.values()]
    is_of_workspace = INDEXES.c.partition.in_(partitions)
    query = select(INDEXES.c.name, INDEXES.c.valid).where(is_of_workspace)
    return dict(connection.execute(query).all())


def unindexed(there: Mapping[str, bool], workspace: str, live: Live, hnsw: Hnsw) -> list[str]:
    """Return the tables that need an index with these parameters and do not have it.

    ``there``: as ``indexes`` returns it.
    """
    found: list[str] = []
    for name, table in VECTOR_TABLES.items():
        if name not in live.tables:
            continue
        is_needed = _needs_index(live, live.tables[name].rows, hnsw)
        wanted = index_name(table, workspace, live.embedding_key, hnsw)
        is_valid = there.get(wanted, False)
        if is_needed and not is_valid:
            found.append(name)
    return found


def outdated_indexes(
    there: Mapping[str, bool], workspace: str, live: Live, hnsw: Hnsw
) -> list[str]:
    """Return the sorted names of the indexes of earlier models and parameters."""
    current = {
        index_name(table, workspace, live.embedding_key, hnsw) for table in VECTOR_TABLES.values()
    }
    return sorted(there.keys() - current)


def broken_indexes(there: Mapping[str, bool]) -> list[str]:
    """Return the sorted names of invalid indexes, which no search uses.

    An index is invalid if its drop was cut off.
    """
    return sorted(name for name, valid in there.items() if not valid)


def drop_index(connection: Connection, name: str) -> None:
    """Drop an index while reads go on; wait for the reads that are under way.

    The connection must not be in a transaction.
    """
    statement = sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name))
    cursor(connection).execute(statement)


def _needs_index(live: Live, rows: int, hnsw: Hnsw) -> bool:
    """Return whether an index is possible for the vectors, and the table has enough rows."""
    is_possible = 0 < live.dimensions <= HALFVEC_LIMIT
    return is_possible and rows >= hnsw.exact_below


def _create_index(name: str, partition: str, live: Live, hnsw: Hnsw) -> sql.Composed:
    """Return the statement that creates the index over a partition."""
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
