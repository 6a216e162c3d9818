"""Views with the names of LightRAG's tables, in a schema of their own, for SQL that sorts by the
plain column of vectors.

The tables hold vectors of any dimensions. So an index covers an expression with a cast, and the
rows of one model only. SQL written for LightRAG names neither cast nor model. A view names both,
in one branch for each workspace. The planner reads only the branch of the workspace that is asked
for, and finds its index. The model's key is compared outside the union: a branch with a condition
of its own would be sorted as a whole.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from psycopg import errors, sql
from sqlalchemy import Connection, Table, func, select, text

from pipeline.contract.schema_version import SCHEMA_VERSION
from pipeline.stores.base import Live
from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.schema import (
    CHUNKS,
    EMBEDDING_KEY,
    ENTITIES,
    HALFVEC_LIMIT,
    RELATIONSHIPS,
    VECTOR_LIMIT,
    name_partition,
)
from pipeline.text.ids import digest

SCHEMA = "lightrag"
TABLES = (CHUNKS, ENTITIES, RELATIONSHIPS)
PATIENCE = "500ms"
"""The longest time that a change of a view waits for its readers. Meanwhile all later readers wait
for the change."""
CURRENT = "current_key"
REFUSED = (
    errors.LockNotAvailable,
    errors.InsufficientPrivilege,
    errors.UndefinedTable,
    errors.UndefinedColumn,
)
EARLIEST = 7
"""The schema version since which the columns of the views have been where they are now."""
MADE_OF = text("SELECT obj_description(to_regclass(:name), 'pg_class')")


def make_views(
    connection: Connection, shown_by: Callable[[Connection], Mapping[str, Live]]
) -> bool:
    """Create or replace the views that do not match what the workspaces show.

    Return False if not all can be made now: the next load makes them. ``shown_by``: returns what
    each workspace shows in this transaction. Call it near the end of a transaction: it waits for
    other loads that make views, and they wait until this transaction ends.
    """
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("graphmill/views"))))
    lives = shown_by(connection)
    shown = {
        name: live
        for name, live in lives.items()
        if EARLIEST <= live.schema_version <= SCHEMA_VERSION and live.dimensions
    }
    connection.execute(select(func.set_config("lock_timeout", PATIENCE, True)))
    with suppress(*REFUSED), connection.begin_nested():
        if not connection.execute(select(func.to_regnamespace(SCHEMA))).scalar():
            cursor(connection).execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        for table in TABLES:
            _make_view(connection, table, shown)
        return True
    return False


def _make_view(connection: Connection, table: Table, shown: Mapping[str, Live]) -> None:
    """Create or replace the view of a table, unless its comment has the digest of this query."""
    view = sql.Identifier(SCHEMA, table.name)
    run = cursor(connection).execute
    if not shown:
        run(sql.SQL("DROP VIEW IF EXISTS {}").format(view))
        return
    query = _compose_query(table, shown)
    made_of = digest(query.as_string())
    if connection.execute(MADE_OF, {"name": f"{SCHEMA}.{table.name}"}).scalar() == made_of:
        return
    create = sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(view, query)
    try:
        with connection.begin_nested():
            run(create)
    except errors.InvalidTableDefinition:
        # The vectors have another type than before, which REPLACE does not allow.
        run(sql.SQL("DROP VIEW {}").format(view))
        run(create)
    run(sql.SQL("COMMENT ON VIEW {} IS {}").format(view, sql.Literal(made_of)))


def _compose_query(table: Table, shown: Mapping[str, Live]) -> sql.Composed:
    """Return the query of a view: a union with a branch for each workspace."""
    columns = [column.name for column in table.c]
    types = {_indexed_type_name(live) for live in shown.values()}
    shared_type = "halfvec" if types == {"halfvec"} else "vector"
    branches = [
        _compose_branch(table, columns, name, live, shared_type) for name, live in shown.items()
    ]
    return sql.SQL("SELECT {} FROM ({}) AS rows WHERE {} = {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(" UNION ALL ").join(branches),
        sql.Identifier(EMBEDDING_KEY),
        sql.Identifier(CURRENT),
    )


def _compose_branch(
    table: Table, columns: list[str], workspace: str, live: Live, shared_type: str
) -> sql.Composed:
    """Return the query for the rows of one workspace.

    ``shared_type``: the type that the vectors of all workspaces have in the view.
    """
    type_name = _indexed_type_name(live)
    if type_name == shared_type:
        vector: sql.Composable = sql.SQL("embedding::{}({})::{}").format(
            sql.Identifier(type_name), sql.Literal(live.dimensions), sql.Identifier(shared_type)
        )
    else:
        # Beside whole vectors, half vectors are shown as they are stored, without their index.
        vector = sql.Identifier("embedding")
    expressions: dict[str, sql.Composable] = {name: sql.Identifier(name) for name in columns}
    expressions["workspace"] = sql.SQL("{}::text").format(sql.Literal(workspace))
    expressions["embedding"] = vector
    named = [
        sql.SQL("{} AS {}").format(expressions[name], sql.Identifier(name)) for name in columns
    ]
    return sql.SQL("SELECT {}, {}::text AS {} FROM {}").format(
        sql.SQL(", ").join(named),
        sql.Literal(live.embedding_key),
        sql.Identifier(CURRENT),
        sql.Identifier(name_partition(table, workspace)),
    )


def _indexed_type_name(live: Live) -> str:
    """Return the type as which the workspace's vectors are indexed."""
    return "halfvec" if VECTOR_LIMIT < live.dimensions <= HALFVEC_LIMIT else "vector"
