"""Views under the names of LightRAG's tables, in a schema of their own, for SQL that orders by the
plain column.

The tables hold vectors of any dimensions: an index over them is one of a cast, and of one model's
rows, which such SQL names neither of. A view has both written out for each workspace. The planner
takes it apart: of a workspace that is not asked for it reads nothing, in the other it finds the
index. The model's key is compared outside the union, since a branch with a condition of its own
would be sorted whole.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress

from psycopg import errors, sql
from sqlalchemy import Connection, Table, func, select, text

from pipeline.contract.schema_version import SCHEMA_VERSION
from pipeline.stores.base import LAYOUT, Live
from pipeline.stores.postgres.database import cursor
from pipeline.stores.postgres.schema import (
    CHUNKS,
    ENTITIES,
    HALFVEC_LIMIT,
    MODEL,
    RELATIONSHIPS,
    VECTOR_LIMIT,
    partition_of,
)
from pipeline.text.ids import digest

SCHEMA = "lightrag"
TABLES = (CHUNKS, ENTITIES, RELATIONSHIPS)
PATIENCE = "500ms"
"""How long a view may wait for those who read it, since all who come after it wait as well."""
CURRENT = "current_key"
REFUSED = (
    errors.LockNotAvailable,
    errors.InsufficientPrivilege,
    errors.UndefinedTable,
    errors.UndefinedColumn,
)
MADE_OF = text("SELECT obj_description(to_regclass(:name), 'pg_class')")


def make_views(
    connection: Connection, shown_by: Callable[[Connection], Mapping[str, Live]]
) -> bool:
    """Of what the workspaces show in this transaction, where the views are of something else. False
    where not all can be made now: the next load makes them. ``shown_by``: tells what each shows. To
    be called last: it waits for other loads that do the same, and they for this one's end."""
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("graphmill/views"))))
    lives = shown_by(connection)
    shown = {
        name: live
        for name, live in lives.items()
        if LAYOUT <= live.schema_version <= SCHEMA_VERSION and live.dimensions
    }
    connection.execute(select(func.set_config("lock_timeout", PATIENCE, True)))
    with suppress(*REFUSED), connection.begin_nested():
        if not connection.execute(select(func.to_regnamespace(SCHEMA))).scalar():
            cursor(connection).execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(SCHEMA)))
        for table in TABLES:
            _make(connection, table, shown)
        return True
    return False


def _make(connection: Connection, table: Table, shown: Mapping[str, Live]) -> None:
    view = sql.Identifier(SCHEMA, table.name)
    run = cursor(connection).execute
    if not shown:
        run(sql.SQL("DROP VIEW IF EXISTS {}").format(view))
        return
    query = _query(table, shown)
    made_of = digest(query.as_string())
    if connection.execute(MADE_OF, {"name": f"{SCHEMA}.{table.name}"}).scalar() == made_of:
        return
    create = sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(view, query)
    try:
        with connection.begin_nested():
            run(create)
    except errors.InvalidTableDefinition:  # another type of vectors
        run(sql.SQL("DROP VIEW {}").format(view))
        run(create)
    run(sql.SQL("COMMENT ON VIEW {} IS {}").format(view, sql.Literal(made_of)))


def _query(table: Table, shown: Mapping[str, Live]) -> sql.Composed:
    columns = [column.name for column in table.c]
    halves = all(VECTOR_LIMIT < live.dimensions <= HALFVEC_LIMIT for live in shown.values())
    return sql.SQL("SELECT {} FROM ({}) AS rows WHERE {} = {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(" UNION ALL ").join(
            _branch(table, columns, name, live, "halfvec" if halves else "vector")
            for name, live in shown.items()
        ),
        sql.Identifier(MODEL),
        sql.Identifier(CURRENT),
    )


def _branch(
    table: Table, columns: list[str], workspace: str, live: Live, shared: str
) -> sql.Composed:
    """``shared``: the type that the vectors of all workspaces are shown as."""
    type_name = "halfvec" if VECTOR_LIMIT < live.dimensions <= HALFVEC_LIMIT else "vector"
    vector = sql.SQL("embedding::{}({})::{}").format(
        sql.Identifier(type_name), sql.Literal(live.dimensions), sql.Identifier(shared)
    )
    made = {
        "workspace": sql.SQL("{}::text").format(sql.Literal(workspace)),
        # Half vectors beside whole ones are shown as what they were made of, which no index has.
        "embedding": vector if type_name == shared else sql.Identifier("embedding"),
    }
    return sql.SQL("SELECT {}, {}::text AS {} FROM {}").format(
        sql.SQL(", ").join(
            sql.SQL("{} AS {}").format(made.get(name, sql.Identifier(name)), sql.Identifier(name))
            for name in columns
        ),
        sql.Literal(live.embedding_key),
        sql.Identifier(CURRENT),
        sql.Identifier(partition_of(table, workspace)),
    )
