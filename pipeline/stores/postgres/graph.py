"""The graph in plain PostgreSQL tables: set-based reads, no extension needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    FromClause,
    Select,
    Subquery,
    Text,
    cast,
    func,
    select,
    true,
    union,
    union_all,
)
from sqlalchemy.dialects.postgresql import array

from pipeline.stores.postgres.database import (
    WORKSPACE,
    as_given,
    columns_of,
    field_names,
    given,
)
from pipeline.stores.postgres.drawing import PostgresDrawing
from pipeline.stores.postgres.reads import PostgresReads
from pipeline.stores.postgres.schema import COMMUNITIES, EDGES, NODES, SOURCE_LISTS
from pipeline.stores.postgres.sources import is_of
from pipeline.stores.reads import HUB, SOURCES, GraphState, VectorStore, in_order
from pipeline.stores.records import Entity, Link, Membership, Relationship, SharedUnit

FIRST_UNITS = func.coalesce(SOURCE_LISTS.c.chunk_ids[1:SOURCES], cast([], ARRAY(Text)))
"""The ids of the first SOURCES text units of an entity or relationship; empty where it has none."""
OUTGOING = (EDGES.c.source_entity_id, EDGES.c.target_entity_id)
"""The columns of an edge as seen from its source: (this end, the other end)."""
INCOMING = (EDGES.c.target_entity_id, EDGES.c.source_entity_id)
"""The columns of an edge as seen from its target: (this end, the other end)."""


@dataclass(frozen=True)
class PostgresGraph(PostgresDrawing):
    """The graph that a PostgresStore (``with_graph``) has loaded, for reading."""

    def beside(self, vectors: VectorStore) -> "PostgresGraph":
        return PostgresGraph(vectors) if isinstance(vectors, PostgresReads) else self

    def shown(self) -> GraphState:
        """Return the version and owner of the graph; both empty if it was loaded elsewhere."""
        live = self.store.live()
        if live is None or "nodes" not in live.tables:
            return GraphState("")
        return GraphState(live.version, owner=live.owner)

    def close(self) -> None:
        self.store.close()

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        found = self.store.records(Entity, _select_entities(), ids=list(ids))
        return in_order(found, ids)

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        found = self.store.records(Relationship, _select_relationships(), ids=list(ids))
        return in_order(found, ids)

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        query = _select_relationships_of()
        return self.store.records(Relationship, query, ids=list(entity_ids), limit=limit)

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        query = _select_shared_units()
        return self.store.records(SharedUnit, query, ids=list(entity_ids), most=HUB)

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        query = _select_links()
        return self.store.records(Link, query, ids=list(entity_ids), most=most, limit=limit)

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        ids = sorted(set(entity_ids))
        return self.store.records(Membership, _select_communities_of(), ids=ids, level=level)


@cache
def _select_entities() -> Select:
    """Build the query for the Entities ``ids``."""
    return (
        select(
            NODES.c.id,
            NODES.c.display_name.label("name"),
            NODES.c.entity_type.label("type"),
            NODES.c.description,
            NODES.c.degree,
            as_given(FIRST_UNITS).label("text_unit_ids"),
        )
        .outerjoin_from(NODES, SOURCE_LISTS, is_of(NODES))
        .where(NODES.c.workspace == WORKSPACE, NODES.c.id == func.any(given("ids")))
    )


@cache
def _select_relationships() -> Select:
    """Build the query for the Relationships ``ids``."""
    source = NODES.alias("source_node")
    target = NODES.alias("target_node")
    # An end that is no loaded entity counts as one without links.
    rank = func.coalesce(source.c.degree, 0) + func.coalesce(target.c.degree, 0)
    in_workspace = source.c.workspace == EDGES.c.workspace
    is_source = in_workspace & (source.c.id == EDGES.c.source_entity_id)
    in_workspace = target.c.workspace == EDGES.c.workspace
    is_target = in_workspace & (target.c.id == EDGES.c.target_entity_id)
    return (
        select(*_relationship_columns(EDGES, rank))
        .outerjoin_from(EDGES, source, is_source)
        .outerjoin(target, is_target)
        .outerjoin(SOURCE_LISTS, is_of(EDGES))
        .where(EDGES.c.workspace == WORKSPACE, EDGES.c.id == func.any(given("ids")))
    )


@cache
def _select_relationships_of() -> Select:
    """Build the query for the best relationships of some entities.

    Lists of text units are read after the best ``limit`` relationships are chosen, so no other list
    is read.
    """
    columns = [name for name in field_names(Relationship) if name in EDGES.c]
    found = _select_edges_of(_select_asked(), columns)
    best = select(found).order_by(*_best_first(found)).limit(given("limit")).subquery("best")
    in_workspace = SOURCE_LISTS.c.workspace == WORKSPACE
    is_list_of_best = in_workspace & (SOURCE_LISTS.c.id == best.c.id)
    query = select(*_relationship_columns(best, best.c.rank))
    query = query.outerjoin_from(best, SOURCE_LISTS, is_list_of_best)
    # A join keeps no order, so that of the subquery is asked for once more.
    return query.order_by(*_best_first(best))


@cache
def _select_shared_units() -> Select:
    """Build the query that counts, for each text unit of an entity, the neighbours that share it.

    The lateral subquery with LIMIT 1 makes PostgreSQL look up each neighbour's list by its id. A
    join would let the planner choose to read all lists.
    """
    found = (
        select(SOURCE_LISTS.c.id, func.unnest(FIRST_UNITS).label("unit"))
        .where(SOURCE_LISTS.c.workspace == WORKSPACE, SOURCE_LISTS.c.id == func.any(given("ids")))
        .subquery()
    )
    asked = _select_asked(given("most"))
    led_to = _select_neighbours(asked, *OUTGOING)
    led_from = _select_neighbours(asked, *INCOMING)
    # A union removes duplicates: a neighbour at several edges counts once.
    neighbours = union(led_to, led_from).subquery()
    list_of_neighbour = (
        select(SOURCE_LISTS.c.chunk_ids)
        .join_from(NODES, SOURCE_LISTS, is_of(NODES))
        .where(
            NODES.c.workspace == WORKSPACE,
            NODES.c.id == neighbours.c.neighbour,
            NODES.c.degree <= given("most"),
        )
        .limit(1)
        .lateral()
    )
    unit_of_neighbour = func.unnest(list_of_neighbour.c.chunk_ids).label("unit")
    shared = (
        select(neighbours.c.entity, unit_of_neighbour)
        .join_from(neighbours, list_of_neighbour, true())
        .subquery()
    )
    is_same_unit = (shared.c.entity == found.c.id) & (shared.c.unit == found.c.unit)
    return (
        select(found.c.id, found.c.unit, func.count(shared.c.entity))
        .outerjoin_from(found, shared, is_same_unit)
        .group_by(found.c.id, found.c.unit)
        .order_by(found.c.id.collate("C"), found.c.unit.collate("C"))
    )


def _select_neighbours(
    asked: CTE, this_end: ColumnElement[str], other_end: ColumnElement[str]
) -> Select:
    """Return a query for (entity, neighbour); an edge from an entity to itself gives no row."""
    touches = (EDGES.c.workspace == WORKSPACE) & (this_end == asked.c.id)
    return (
        select(asked.c.id.label("entity"), other_end.label("neighbour"))
        .join_from(asked, EDGES, touches)
        .where(this_end != other_end)
    )


@cache
def _select_links() -> Select:
    """Build the query for the Links of some entities, those between entities of few links first."""
    asked = _select_asked(given("most"))
    found = _select_edges_of(asked, field_names(Link))
    by_rank = (found.c.rank, found.c.id.collate("C"))
    return select(*columns_of(Link, found)).order_by(*by_rank).limit(given("limit"))


@cache
def _select_communities_of() -> Select:
    """Build the query for the finest community of each entity, down to ``level``."""
    ids = func.unnest(cast(given("ids"), ARRAY(Text)))
    asked = ids.table_valued("id", name="asked").render_derived()
    # The index on entity_ids can answer the containment test on its own.
    contains_entity = COMMUNITIES.c.entity_ids.bool_op("@>")(array([asked.c.id]))
    finest = (
        select(COMMUNITIES.c.id, COMMUNITIES.c.level)
        .where(
            COMMUNITIES.c.workspace == WORKSPACE,
            contains_entity,
            COMMUNITIES.c.level <= given("level"),
        )
        .order_by(COMMUNITIES.c.level.desc(), COMMUNITIES.c.id.collate("C"))
        .limit(1)
        .lateral()
    )
    query = select(asked.c.id, finest.c.id, finest.c.level).join_from(asked, finest, true())
    return query.order_by(asked.c.id.collate("C"))


def _select_asked(most: ColumnElement[int] | None = None) -> CTE:
    """Return a CTE (id, degree) of the entities named by the parameter ``ids``.

    With ``most``, entities of a higher degree are left out. The CTE is materialized, so that this
    happens before any relationship is read.
    """
    query = select(NODES.c.id, NODES.c.degree).where(
        NODES.c.workspace == WORKSPACE, NODES.c.id == func.any(given("ids"))
    )
    if most is not None:
        query = query.where(NODES.c.degree <= most)
    return query.cte("asked").prefix_with("MATERIALIZED")


def _select_edges_of(asked: CTE, columns: Sequence[str]) -> Subquery:
    """Return a subquery of the relationships that start or end at the asked entities.

    It has ``columns`` and ``rank``, the sum of the degrees of both ends. A relationship between two
    asked entities is listed once, at its source.
    """
    leading_out = _select_edges_at(asked, columns, *OUTGOING)
    leading_in = _select_edges_at(asked, columns, *INCOMING)
    source_is_asked = EDGES.c.source_entity_id.in_(select(asked.c.id))
    return union_all(leading_out, leading_in.where(~source_is_asked)).subquery("found")


def _select_edges_at(
    asked: CTE, columns: Sequence[str], this_end: ColumnElement[str], other_end: ColumnElement[str]
) -> Select:
    """Return a query for the edges whose ``this_end`` is an asked entity, with their rank.

    The degree of the asked entity is in ``asked``; only that of the other end is looked up.
    """
    other = NODES.alias("other")
    degree_of_other = func.coalesce(other.c.degree, 0)
    rank = (asked.c.degree + degree_of_other).label("rank")
    touches = (EDGES.c.workspace == WORKSPACE) & (this_end == asked.c.id)
    is_other_end = (other.c.workspace == WORKSPACE) & (other.c.id == other_end)
    fields = [EDGES.c[name] for name in columns]
    return select(*fields, rank).join_from(asked, EDGES, touches).outerjoin(other, is_other_end)


def _best_first(edges: Subquery) -> tuple[ColumnElement, ...]:
    """Return the order of relationships by rank, then by weight; the id decides between equals."""
    return edges.c.rank.desc(), edges.c.weight.desc(), edges.c.id.collate("C")


def _relationship_columns(edges: FromClause, rank: ColumnElement[int]) -> list[ColumnElement]:
    """Return the columns for the fields of Relationship; the query must join SOURCE_LISTS."""
    computed = {
        "rank": rank.label("rank"),
        "keywords": as_given(edges.c.keywords).label("keywords"),
        "text_unit_ids": as_given(FIRST_UNITS).label("text_unit_ids"),
    }
    return columns_of(Relationship, edges, computed)
