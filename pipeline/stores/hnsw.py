"""The HNSW index over one workspace's vectors of one model (pgvector)."""

from dataclasses import dataclass
from typing import Any

from pgvector.sqlalchemy import HALFVEC, VECTOR
from psycopg import errors, sql
from sqlalchemy import ColumnElement, Connection, Table, case, func, literal, select, text

from pipeline.stores.base import Live
from pipeline.stores.tables import HALFVEC_LIMIT, VECTOR_LIMIT, partition_of
from pipeline.text import digest

SEARCH_LIMIT = 1000
"""The largest ef_search that pgvector takes."""


@dataclass(frozen=True)
class Hnsw:
    """``m`` and ``ef_construction`` decide how it is built, ``ef_search`` the least breadth of a search. Below
    ``exact_below`` rows there is none, and every vector is compared. ``build_mb``: memory it may be built in."""

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
    return VECTOR(dimensions) if not VECTOR_LIMIT < dimensions <= HALFVEC_LIMIT else HALFVEC(dimensions)


def of_model(table: Table, embedding_key: str) -> ColumnElement[bool]:
    """The condition of the index. Written out, not a parameter, so that PostgreSQL sees it is the index's."""
    return table.c.embedding_key == literal(embedding_key, literal_execute=True)


def search_settings(table: Table, workspace: str, live: Live, hnsw: Hnsw, limit: int) -> ColumnElement[str]:
    """An expression that sets this transaction up for a search of so many rows. The planner thinks it cheap to compare
    and sort all rows, vectors stored out of line above all; where there is an index it is told otherwise."""
    breadth = min(max(2 * limit, hnsw.ef_search), SEARCH_LIMIT)
    without = func.to_regclass(index_name(table, workspace, live.embedding_key, hnsw)).is_(None)
    return func.concat(
        func.set_config("hnsw.ef_search", str(breadth), True),
        func.set_config("hnsw.iterative_scan", "strict_order", True),
        func.set_config("enable_sort", case((without, "on"), else_="off"), True),
    )


def usual_settings() -> ColumnElement[str]:
    """For what else is read in the transaction."""
    return func.set_config("enable_sort", "on", True)


def build_index(connection: Connection, table: Table, workspace: str, live: Live, hnsw: Hnsw) -> bool:
    """Build the index where the rows are many enough and it is not there; whether it was built."""
    name = index_name(table, workspace, live.embedding_key, hnsw)
    if not 0 < live.dimensions <= HALFVEC_LIMIT or connection.execute(select(func.to_regclass(name))).scalar():
        return False
    rows = select(func.count()).select_from(table).where(table.c.workspace == workspace)
    if connection.execute(rows).scalar_one() < hnsw.exact_below:
        return False
    statement = _create_index(name, partition_of(table, workspace), live, hnsw)
    execute_in_parallel(connection, statement, hnsw.build_mb)
    return True


def outdated_indexes(connection: Connection, workspace: str, live: Live, hnsw: Hnsw, tables: list[Table]) -> list[str]:
    """The indexes of earlier models and parameters."""
    current = [index_name(table, workspace, live.embedding_key, hnsw) for table in tables]
    query = text(
        "SELECT indexname FROM pg_indexes WHERE tablename = ANY(:partitions) AND indexdef LIKE '% USING hnsw %'"
    )
    found = connection.execute(query, {"partitions": [partition_of(table, workspace) for table in tables]})
    return sorted(set(found.scalars()) - set(current))


def drop_index(connection: Connection, name: str) -> None:
    """Without waiting for, or holding up, those who read. The connection must not be in a transaction."""
    cursor(connection).execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name)))


def cursor(connection: Connection) -> Any:
    """psycopg's own cursor inside this transaction: for COPY and for quoted identifiers."""
    return connection.connection.cursor()


def _create_index(name: str, partition: str, live: Live, hnsw: Hnsw) -> sql.Composed:
    type_name = "vector" if live.dimensions <= VECTOR_LIMIT else "halfvec"
    return sql.SQL(
        "CREATE INDEX {} ON {} USING hnsw ((embedding::{}({})) {}) WITH (m = {}, ef_construction = {}) "
        "WHERE embedding_key = {}"
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


def execute_in_parallel(connection: Connection, statement: sql.Composed, build_mb: int) -> None:
    """Build an index in so much memory. Parallel workers share memory of the system, of which containers have little:
    then by one process."""
    connection.execute(select(func.set_config("maintenance_work_mem", f"{build_mb}MB", True)))
    try:
        with connection.begin_nested():
            cursor(connection).execute(statement)
    except (errors.DiskFull, errors.OutOfMemory, errors.InsufficientResources):
        connection.execute(text("SET LOCAL max_parallel_maintenance_workers = 0"))
        cursor(connection).execute(statement)
