"""The graph in plain PostgreSQL tables: set-based reads, no extension needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations

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

from pipeline.stores.postgres.database import WORKSPACE, as_given, field_names, given
from pipeline.stores.postgres.drawing import PostgresDrawing
from pipeline.stores.postgres.reads import PostgresReads
from pipeline.stores.postgres.schema import COMMUNITIES, EDGES, NODES, SOURCE_LISTS
from pipeline.stores.postgres.sources import is_of
from pipeline.stores.reads import HUB, SOURCES, GraphState, VectorStore, in_order
from pipeline.stores.records import Entity, Link, Membership, Relationship, SharedUnit

FIRST_UNITS = func.coalesce(SOURCE_LISTS.c.chunk_ids[1:SOURCES], cast([], ARRAY(Text)))


@dataclass(frozen=True)
class PostgresGraph(PostgresDrawing):
    """Reads of the graph that a PostgresStore (``with_graph``) has loaded."""

    def beside(self, vectors: VectorStore) -> "PostgresGraph":
        return PostgresGraph(vectors) if isinstance(vectors, PostgresReads) else self

    def shown(self) -> GraphState:
        """Nothing where the last load has put the graph elsewhere."""
        live = self.store.live()
        return (
            GraphState(live.version, owner=live.owner)
            if live and "nodes" in live.tables
            else GraphState("")
        )

    def close(self) -> None:
        self.store.close()

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        return in_order(self.store.records(Entity, _entities(), ids=list(ids)), ids)

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        return in_order(self.store.records(Relationship, _relationships(), ids=list(ids)), ids)

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        return self.store.records(
            Relationship, _relationships_of(), ids=list(entity_ids), limit=limit
        )

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        return self.store.records(SharedUnit, _shared_units(), ids=list(entity_ids), most=HUB)

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        return self.store.records(Link, _links(), ids=list(entity_ids), most=most, limit=limit)

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        return self.store.records(
            Membership, _communities_of(), ids=sorted(set(entity_ids)), level=level
        )


@cache
def _entities() -> Select:
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
def _relationships() -> Select:
    source, target = NODES.alias("source_node"), NODES.alias("target_node")
    rank = func.coalesce(source.c.degree, 0) + func.coalesce(target.c.degree, 0)
    return (
        select(*_shown(EDGES, rank))
        .outerjoin_from(EDGES, source, _is_end(source, EDGES.c.source_entity_id))
        .outerjoin(target, _is_end(target, EDGES.c.target_entity_id))
        .outerjoin(SOURCE_LISTS, is_of(EDGES))
        .where(EDGES.c.workspace == WORKSPACE, EDGES.c.id == func.any(given("ids")))
    )


@cache
def _relationships_of() -> Select:
    """Text units are read of the best alone."""
    found = _edges_of(_asked(), [name for name in field_names(Relationship) if name in EDGES.c])
    best = select(found).order_by(*_best_first(found)).limit(given("limit")).subquery("best")
    lists = (SOURCE_LISTS.c.workspace == WORKSPACE) & (SOURCE_LISTS.c.id == best.c.id)
    query = select(*_shown(best, best.c.rank)).outerjoin_from(best, SOURCE_LISTS, lists)
    return query.order_by(*_best_first(best))


@cache
def _shared_units() -> Select:
    """Whatever the planner thinks, no neighbour's list is found by reading all: it is looked up by
    its id."""
    found = (
        select(SOURCE_LISTS.c.id, func.unnest(FIRST_UNITS).label("unit"))
        .where(SOURCE_LISTS.c.workspace == WORKSPACE, SOURCE_LISTS.c.id == func.any(given("ids")))
        .subquery()
    )
    few = _asked(given("most"))
    pairs = union(
        *(
            select(few.c.id.label("entity"), far.label("neighbour"))
            .join_from(few, EDGES, (EDGES.c.workspace == WORKSPACE) & (near == few.c.id))
            .where(near != far)
            for near, far in permutations((EDGES.c.source_entity_id, EDGES.c.target_entity_id))
        )
    ).subquery()
    theirs = (
        select(SOURCE_LISTS.c.chunk_ids)
        .join_from(NODES, SOURCE_LISTS, is_of(NODES))
        .where(
            NODES.c.workspace == WORKSPACE,
            NODES.c.id == pairs.c.neighbour,
            NODES.c.degree <= given("most"),
        )
        .limit(1)
        .lateral()
    )
    shared = select(pairs.c.entity, func.unnest(theirs.c.chunk_ids).label("unit")).join_from(
        pairs, theirs, true()
    )
    counted = shared.subquery()
    return (
        select(found.c.id, found.c.unit, func.count(counted.c.entity))
        .outerjoin_from(
            found, counted, (counted.c.entity == found.c.id) & (counted.c.unit == found.c.unit)
        )
        .group_by(found.c.id, found.c.unit)
        .order_by(found.c.id.collate("C"), found.c.unit.collate("C"))
    )


@cache
def _links() -> Select:
    found = _edges_of(_asked(given("most")), field_names(Link))
    fields = (found.c[name] for name in field_names(Link))
    return select(*fields).order_by(found.c.rank, found.c.id.collate("C")).limit(given("limit"))


@cache
def _communities_of() -> Select:
    asked = (
        func.unnest(cast(given("ids"), ARRAY(Text)))
        .table_valued("id", name="asked")
        .render_derived()
    )
    finest = (
        select(COMMUNITIES.c.id, COMMUNITIES.c.level)
        .where(
            COMMUNITIES.c.workspace == WORKSPACE,
            COMMUNITIES.c.entity_ids.bool_op("@>")(
                array([asked.c.id])
            ),  # the index has it by itself
            COMMUNITIES.c.level <= given("level"),
        )
        .order_by(COMMUNITIES.c.level.desc(), COMMUNITIES.c.id.collate("C"))
        .limit(1)
        .lateral()
    )
    query = select(asked.c.id, finest.c.id, finest.c.level).join_from(asked, finest, true())
    return query.order_by(asked.c.id.collate("C"))


def _asked(most: ColumnElement[int] | None = None) -> CTE:
    """(id, degree) of those of the entities that have at most so many neighbours, found before any
    relationship is looked at."""
    query = select(NODES.c.id, NODES.c.degree).where(
        NODES.c.workspace == WORKSPACE, NODES.c.id == func.any(given("ids"))
    )
    query = query if most is None else query.where(NODES.c.degree <= most)
    return query.cte("asked").prefix_with("MATERIALIZED")


def _edges_of(asked: CTE, columns: Sequence[str]) -> Subquery:
    """These columns and the rank, which is the degrees of both ends, of the relationships at either
    end of the entities, each once: one between two of them comes up at its source. The degree of
    one end is known: that of the other alone is looked up."""
    other = NODES.alias("other")
    rank = (asked.c.degree + func.coalesce(other.c.degree, 0)).label("rank")
    leading_out, leading_in = (
        select(*(EDGES.c[name] for name in columns), rank)
        .join_from(asked, EDGES, (EDGES.c.workspace == WORKSPACE) & (near == asked.c.id))
        .outerjoin(other, (other.c.workspace == WORKSPACE) & (other.c.id == far))
        for near, far in permutations((EDGES.c.source_entity_id, EDGES.c.target_entity_id))
    )
    leading_in = leading_in.where(EDGES.c.source_entity_id.not_in(select(asked.c.id)))
    return union_all(leading_out, leading_in).subquery("found")


def _best_first(edges: Subquery) -> tuple[ColumnElement, ...]:
    return edges.c.rank.desc(), edges.c.weight.desc(), edges.c.id.collate("C")


def _shown(edges: FromClause, rank: ColumnElement[int]) -> list[ColumnElement]:
    """The fields of Relationship, beside SOURCE_LISTS."""
    made = {
        "rank": rank.label("rank"),
        "keywords": as_given(edges.c.keywords).label("keywords"),
        "text_unit_ids": as_given(FIRST_UNITS).label("text_unit_ids"),
    }
    return [made[name] if name in made else edges.c[name] for name in field_names(Relationship)]


def _is_end(node: FromClause, end: ColumnElement[str]) -> ColumnElement[bool]:
    return (node.c.workspace == EDGES.c.workspace) & (node.c.id == end)
