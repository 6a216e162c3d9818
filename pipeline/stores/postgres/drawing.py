"""The graph in PostgreSQL as a drawing needs it: see DrawingReads."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, and_, func, select, text, union

from pipeline.stores.postgres.database import field_names
from pipeline.stores.postgres.reads import PostgresReads
from pipeline.stores.postgres.schema import BETWEEN, COMMUNITIES, EDGES, NODES
from pipeline.stores.reads import in_order
from pipeline.stores.records import Between, Community, Dot, Line

DOT = (NODES.c.id, NODES.c.display_name, NODES.c.entity_type, NODES.c.degree, NODES.c.x, NODES.c.y)
BY_DEGREE = (NODES.c.degree.desc(), NODES.c.id.collate("C"))
BY_ID = EDGES.c.id.collate("C")
HASHING = {"work_mem": "64MB", "enable_nestloop": "off", "enable_mergejoin": "off"}
"""The planner takes no list of a community's entities for longer than ten, and would sort all that
they make."""
# Sums of floats depend on the order of the rows, which depends on the history of the table. Sums of
# numerics do not.
EXPECTED_BETWEEN = """
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
    EXPECTED_BETWEEN  # noqa: S608
    + """
    SELECT count(*) FROM expected FULL JOIN stored USING (one_id, other_id)
    WHERE (expected.relationships, expected.weight) IS DISTINCT FROM (stored.relationships,
        stored.weight)
    """
)  # of constants alone
DELETE_BETWEEN = text(
    EXPECTED_BETWEEN  # noqa: S608
    + """
    DELETE FROM graphmill_between AS there WHERE there.workspace = :workspace AND NOT EXISTS (
        SELECT FROM expected WHERE expected.one_id = there.one_id
            AND expected.other_id = there.other_id
    )
    """
)  # of constants alone
WRITE_BETWEEN = text(
    EXPECTED_BETWEEN  # noqa: S608
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
    store: PostgresReads

    def named(self, text: str, limit: int) -> list[Dot]:
        name, wanted = func.lower(NODES.c.display_name), func.lower(" ".join(text.split()))
        has_all = and_(*(func.strpos(name, func.lower(word)) > 0 for word in text.split()))
        query = self._dots().where(has_all)
        order = ((name == wanted).desc(), func.starts_with(name, wanted).desc(), *BY_DEGREE)
        return self.store.records(Dot, query.order_by(*order).limit(limit))

    def dots(self, ids: Sequence[str]) -> list[Dot]:
        return in_order(
            self.store.records(Dot, self._dots().where(NODES.c.id == func.any(list(ids)))), ids
        )

    def most_linked(self, limit: int, community: str = "") -> list[Dot]:
        query = self._dots()
        if community:
            members = select(func.unnest(COMMUNITIES.c.entity_ids)).where(
                COMMUNITIES.c.workspace == self.store.workspace, COMMUNITIES.c.id == community
            )
            query = query.where(NODES.c.id.in_(members))
        return self.store.records(Dot, query.order_by(*BY_DEGREE).limit(limit))

    def lines_of(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        workspace, ids = self.store.workspace, func.any(list(entity_ids))
        source, target = NODES.alias("source_node"), NODES.alias("target_node")
        touching = (
            select(EDGES.c.id).where(EDGES.c.workspace == workspace, end == ids)
            for end in (EDGES.c.source_entity_id, EDGES.c.target_entity_id)
        )
        found = union(*touching).subquery("found")
        rank = func.coalesce(source.c.degree, 0) + func.coalesce(target.c.degree, 0)
        query = (
            select(*_line())
            .join_from(found, EDGES, (EDGES.c.workspace == workspace) & (EDGES.c.id == found.c.id))
            .outerjoin(
                source,
                (source.c.workspace == workspace) & (source.c.id == EDGES.c.source_entity_id),
            )
            .outerjoin(
                target,
                (target.c.workspace == workspace) & (target.c.id == EDGES.c.target_entity_id),
            )
            .order_by(EDGES.c.weight.desc(), rank.desc(), BY_ID)
            .limit(limit)
        )
        return self.store.records(Line, query)

    def lines_among(self, entity_ids: Sequence[str], limit: int) -> list[Line]:
        ids = func.any(list(entity_ids))
        query = (
            select(*_line())
            .where(EDGES.c.workspace == self.store.workspace, EDGES.c.source_entity_id == ids)
            .where(EDGES.c.target_entity_id == ids)
            .order_by(EDGES.c.weight.desc(), BY_ID)
            .limit(limit)
        )
        return self.store.records(Line, query)

    def communities(self, ids: Sequence[str]) -> list[Community]:
        return self.store.records(
            Community, self._communities().where(COMMUNITIES.c.id == func.any(list(ids)))
        )

    def parts_of(self, community: str, limit: int) -> list[Community]:
        query = self._communities().where(func.coalesce(COMMUNITIES.c.parent, "") == community)
        return self.store.records(Community, query.limit(limit))

    def between(self, community_ids: Sequence[str]) -> list[Between]:
        ids = func.any(list(community_ids))
        query = (
            select(*(BETWEEN.c[name] for name in field_names(Between)))
            .where(
                BETWEEN.c.workspace == self.store.workspace,
                BETWEEN.c.one_id == ids,
                BETWEEN.c.other_id == ids,
            )
            .order_by(
                BETWEEN.c.relationships.desc(),
                BETWEEN.c.one_id.collate("C"),
                BETWEEN.c.other_id.collate("C"),
            )
        )
        return self.store.records(Between, query)

    def _dots(self) -> Select:
        return select(*DOT).where(NODES.c.workspace == self.store.workspace)

    def _communities(self) -> Select:
        part = COMMUNITIES.alias("part")
        parts = select(func.count()).where(
            part.c.workspace == COMMUNITIES.c.workspace, part.c.parent == COMMUNITIES.c.id
        )
        counted = {"parts": parts.correlate(COMMUNITIES).scalar_subquery().label("parts")}
        columns = (
            counted[name] if name in counted else COMMUNITIES.c[name]
            for name in field_names(Community)
        )
        order = (COMMUNITIES.c.size.desc(), COMMUNITIES.c.id.collate("C"))
        return (
            select(*columns).where(COMMUNITIES.c.workspace == self.store.workspace).order_by(*order)
        )


def _line() -> list[ColumnElement]:
    keyword = func.coalesce(EDGES.c.keywords[1], "")
    return [EDGES.c.id, EDGES.c.source_entity_id, EDGES.c.target_entity_id, keyword, EDGES.c.weight]


def miscounted(connection: Connection, workspace: str) -> int:
    """Return how many rows of ``graphmill_between`` are missing, wrong, or too many for what is
    loaded."""
    if not connection.execute(select(func.to_regclass(BETWEEN.name))).scalar():
        return connection.execute(
            select(func.count()).where(COMMUNITIES.c.workspace == workspace)
        ).scalar_one()
    _plan_by_hashes(connection)
    return connection.execute(MISCOUNTED, {"workspace": workspace}).scalar_one()


def count_between(connection: Connection, workspace: str) -> None:
    """Bring ``graphmill_between`` to what is loaded; write only what differs.

    It has to be the last thing in a transaction, whose planning it changes.
    """
    _plan_by_hashes(connection)
    if connection.execute(MISCOUNTED, {"workspace": workspace}).scalar_one():
        connection.execute(DELETE_BETWEEN, {"workspace": workspace})
        connection.execute(WRITE_BETWEEN, {"workspace": workspace})


def _plan_by_hashes(connection: Connection) -> None:
    connection.execute(
        select(*(func.set_config(name, value, True) for name, value in HASHING.items()))
    )
