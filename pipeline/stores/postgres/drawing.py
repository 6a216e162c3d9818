"""Reads of the graph in PostgreSQL that a drawing needs, see DrawingReads, and the table of counts
between communities that a load maintains for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select, text, union

from pipeline.stores.postgres.database import columns_of
from pipeline.stores.postgres.reads import PostgresReads
from pipeline.stores.postgres.schema import COMMUNITIES, EDGES, LINK_COUNTS, NODES
from pipeline.stores.reads import in_order
from pipeline.stores.records import Between, Community, Dot, Line

DOT = (NODES.c.id, NODES.c.display_name, NODES.c.entity_type, NODES.c.degree, NODES.c.x, NODES.c.y)
"""The columns of a Dot, in the order of its fields."""
BY_DEGREE = (NODES.c.degree.desc(), NODES.c.id.collate("C"))
BY_ID = EDGES.c.id.collate("C")
HASHING = {"work_mem": "64MB", "enable_nestloop": "off", "enable_mergejoin": "off"}
"""Planner settings that leave only hash joins.

The planner assumes that a community's list of entities has at most ten items. It would therefore
choose joins that sort all rows, or loop over them."""
# The weights are summed as numerics: a sum of floats depends on the order of the rows, which
# depends on the history of the table.
EXPECTED_LINK_COUNTS = """
    WITH numbered AS MATERIALIZED (
        SELECT id, entity_ids, row_number() OVER (ORDER BY id COLLATE "C")::int AS number,
               dense_rank() OVER (ORDER BY level, coalesce(parent, ''))::int AS parent
        FROM graphmill_communities WHERE workspace = :workspace
    ), members AS MATERIALIZED (
        SELECT number, parent, unnest(entity_ids) AS entity FROM numbered
    ), counted AS MATERIALIZED (
        SELECT least(one.number, other.number) AS one, greatest(one.number, other.number) AS other,
               count(*) AS relationships, coalesce(sum(edge.weight::numeric), 0)::float8 AS weight
        FROM graphmill_edges AS edge
        JOIN members AS one ON one.entity = edge.source_entity_id
        JOIN members AS other ON other.entity = edge.target_entity_id AND other.parent = one.parent
        WHERE edge.workspace = :workspace AND one.number <> other.number
        GROUP BY 1, 2
    ), expected AS MATERIALIZED (
        SELECT one.id AS one_id, other.id AS other_id, relationships, weight
        FROM counted
        JOIN numbered AS one ON one.number = counted.one
        JOIN numbered AS other ON other.number = counted.other
    ), stored AS MATERIALIZED (
        SELECT one_id, other_id, relationships, weight FROM graphmill_between
            WHERE workspace = :workspace
    )
    """
MISCOUNTED = text(
    EXPECTED_LINK_COUNTS  # noqa: S608
    + """
    SELECT count(*) FROM expected FULL JOIN stored USING (one_id, other_id)
    WHERE (expected.relationships, expected.weight) IS DISTINCT FROM (stored.relationships,
        stored.weight)
    """
)  # of constants alone
DELETE_LINK_COUNTS = text(
    EXPECTED_LINK_COUNTS  # noqa: S608
    + """
    DELETE FROM graphmill_between AS there WHERE there.workspace = :workspace AND NOT EXISTS (
        SELECT FROM expected WHERE expected.one_id = there.one_id
            AND expected.other_id = there.other_id
    )
    """
)  # of constants alone
WRITE_LINK_COUNTS = text(
    EXPECTED_LINK_COUNTS  # noqa: S608
    + """
    INSERT INTO graphmill_between (workspace, one_id, other_id, relationships, weight)
    SELECT :workspace, one_id, other_id, expected.relationships, expected.weight
    FROM expected LEFT JOIN stored USING (one_id, other_id)
    WHERE (expected.relationships, expected.weight) IS DISTINCT FROM (stored.relationships,
        stored.weight)
    ON CONFLICT (workspace, one_id, other_id)
    DO UPDATE SET relationships = excluded.relationships, weight = excluded.weight
    """
)  # of constants alone


@dataclass(frozen=True)
class PostgresDrawing:
    """The reads of DrawingReads, over the tables of a PostgresStore."""

    store: PostgresReads

    def named(self, text: str, limit: int) -> list[Dot]:
        words = text.split()
        name = func.lower(NODES.c.display_name)
        # PostgreSQL puts both sides into lower case, because Python does so by other rules.
        wanted = func.lower(" ".join(words))
        has_word = [func.strpos(name, func.lower(word)) > 0 for word in words]
        is_equal = name == wanted
        begins_so = func.starts_with(name, wanted)
        # In a descending order, names of which a condition is true come first.
        best_first = (is_equal.desc(), begins_so.desc(), *BY_DEGREE)
        query = self._select_dots().where(and_(*has_word)).order_by(*best_first).limit(limit)
        return self.store.records(Dot, query)

    def dots(self, ids: Sequence[str]) -> list[Dot]:
        query = self._select_dots().where(NODES.c.id == func.any(list(ids)))
        return in_order(self.store.records(Dot, query), ids)

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        query = self._select_dots().order_by(*BY_DEGREE).limit(limit)
        if community:
            members = select(func.unnest(COMMUNITIES.c.entity_ids)).where(
                COMMUNITIES.c.workspace == self.store.workspace, COMMUNITIES.c.id == community
            )
            query = query.where(NODES.c.id.in_(members))
        return self.store.records(Dot, query)

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        workspace = self.store.workspace
        ids = func.any(list(entity_ids))
        edge_ids = select(EDGES.c.id).where(EDGES.c.workspace == workspace)
        # A union removes duplicates: an edge between two of the entities is found twice.
        found = union(
            edge_ids.where(EDGES.c.source_entity_id == ids),
            edge_ids.where(EDGES.c.target_entity_id == ids),
        ).subquery("found")
        source = NODES.alias("source_node")
        target = NODES.alias("target_node")
        is_edge = (EDGES.c.workspace == workspace) & (EDGES.c.id == found.c.id)
        is_source = (source.c.workspace == workspace) & (source.c.id == EDGES.c.source_entity_id)
        is_target = (target.c.workspace == workspace) & (target.c.id == EDGES.c.target_entity_id)
        rank = func.coalesce(source.c.degree, 0) + func.coalesce(target.c.degree, 0)
        query = (
            select(*_line_columns())
            .join_from(found, EDGES, is_edge)
            .outerjoin(source, is_source)
            .outerjoin(target, is_target)
            .order_by(EDGES.c.weight.desc(), rank.desc(), BY_ID)
            .limit(limit)
        )
        return self.store.records(Line, query)

    def lines_among(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        ids = func.any(list(entity_ids))
        query = (
            select(*_line_columns())
            .where(EDGES.c.workspace == self.store.workspace, EDGES.c.source_entity_id == ids)
            .where(EDGES.c.target_entity_id == ids)
            .order_by(EDGES.c.weight.desc(), BY_ID)
            .limit(limit)
        )
        return self.store.records(Line, query)

    def communities(self, ids: Sequence[str]) -> list[Community]:
        query = self._select_communities().where(COMMUNITIES.c.id == func.any(list(ids)))
        return self.store.records(Community, query)

    def parts_of(self, community: str, limit: int) -> list[Community]:
        has_parent = func.coalesce(COMMUNITIES.c.parent, "") == community
        query = self._select_communities().where(has_parent).limit(limit)
        return self.store.records(Community, query)

    def between(self, community_ids: Sequence[str]) -> list[Between]:
        ids = func.any(list(community_ids))
        query = (
            select(*columns_of(Between, LINK_COUNTS))
            .where(
                LINK_COUNTS.c.workspace == self.store.workspace,
                LINK_COUNTS.c.one_id == ids,
                LINK_COUNTS.c.other_id == ids,
            )
            .order_by(
                LINK_COUNTS.c.relationships.desc(),
                LINK_COUNTS.c.one_id.collate("C"),
                LINK_COUNTS.c.other_id.collate("C"),
            )
        )
        return self.store.records(Between, query)

    def _select_dots(self) -> Select:
        """Return a query for the Dots of all entities."""
        return select(*DOT).where(NODES.c.workspace == self.store.workspace)

    def _select_communities(self) -> Select:
        """Return a query for all communities, the largest first, with the number of children."""
        part = COMMUNITIES.alias("part")
        parts = select(func.count()).where(
            part.c.workspace == COMMUNITIES.c.workspace, part.c.parent == COMMUNITIES.c.id
        )
        number_of_parts = parts.correlate(COMMUNITIES).scalar_subquery().label("parts")
        columns = columns_of(Community, COMMUNITIES, {"parts": number_of_parts})
        largest_first = (COMMUNITIES.c.size.desc(), COMMUNITIES.c.id.collate("C"))
        in_workspace = COMMUNITIES.c.workspace == self.store.workspace
        return select(*columns).where(in_workspace).order_by(*largest_first)


def _line_columns() -> list[ColumnElement]:
    """Return the columns of a Line, in the order of its fields."""
    # An array in PostgreSQL begins at 1.
    keyword = func.coalesce(EDGES.c.keywords[1], "")
    return [EDGES.c.id, EDGES.c.source_entity_id, EDGES.c.target_entity_id, keyword, EDGES.c.weight]


def miscounted(connection: Connection, workspace: str) -> int:
    """Return how many rows of ``graphmill_between`` are missing, wrong or superfluous.

    They are compared with the loaded edges and communities. Where the table does not exist, the
    result is the number of communities.
    """
    table_exists = connection.execute(select(func.to_regclass(LINK_COUNTS.name))).scalar()
    if not table_exists:
        communities = select(func.count()).where(COMMUNITIES.c.workspace == workspace)
        return connection.execute(communities).scalar_one()
    _plan_by_hashes(connection)
    return connection.execute(MISCOUNTED, {"workspace": workspace}).scalar_one()


def count_between(connection: Connection, workspace: str) -> None:
    """Update ``graphmill_between`` to the loaded edges; write only the rows that differ.

    Call it last in a transaction: it changes planner settings until the transaction ends.
    """
    _plan_by_hashes(connection)
    if connection.execute(MISCOUNTED, {"workspace": workspace}).scalar_one():
        connection.execute(DELETE_LINK_COUNTS, {"workspace": workspace})
        connection.execute(WRITE_LINK_COUNTS, {"workspace": workspace})


def _plan_by_hashes(connection: Connection) -> None:
    """Apply the planner settings HASHING until the transaction ends."""
    # The last argument limits a setting to the transaction.
    settings = [func.set_config(name, value, True) for name, value in HASHING.items()]
    connection.execute(select(*settings))
