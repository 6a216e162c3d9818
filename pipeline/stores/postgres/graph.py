"""The graph in plain PostgreSQL tables: set-based reads, no extension needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from sqlalchemy import (
    ARRAY,
    CTE,
    ColumnElement,
    FromClause,
    Subquery,
    Text,
    cast,
    func,
    select,
    true,
    union,
)
from sqlalchemy.dialects.postgresql import array

from pipeline.stores.postgres.database import as_given, field_names
from pipeline.stores.postgres.drawing import PostgresDrawing
from pipeline.stores.postgres.reads import PostgresReads, is_of
from pipeline.stores.postgres.schema import COMMUNITIES, EDGES, NODES, SOURCE_LISTS
from pipeline.stores.reads import HUB, SOURCES, GraphState, VectorStore, in_order
from pipeline.stores.records import Entity, Link, Membership, Relationship, SharedUnit

LINK_FIELDS = field_names(Link)
FIRST_UNITS = func.coalesce(SOURCE_LISTS.c.chunk_ids[1:SOURCES], cast([], ARRAY(Text)))


@dataclass(frozen=True)
class PostgresGraph(PostgresDrawing):
    """Reads of the graph that a PostgresStore (``with_graph``) has loaded."""

    def beside(self, vectors: VectorStore) -> "PostgresGraph":
        return PostgresGraph(vectors) if isinstance(vectors, PostgresReads) else self

    def shown(self) -> GraphState:
        """Nothing where the last load has put the graph elsewhere."""
        live = self.store.live()
        return GraphState(live.version, owner=live.owner) if live and "nodes" in live.tables else GraphState("")

    def close(self) -> None:
        self.store.close()

    def entities(self, ids: Sequence[str]) -> list[Entity]:
        query = (
            select(
                NODES.c.id,
                NODES.c.display_name.label("name"),
                NODES.c.entity_type.label("type"),
                NODES.c.description,
                NODES.c.degree,
                as_given(FIRST_UNITS).label("text_unit_ids"),
            )
            .outerjoin_from(NODES, SOURCE_LISTS, is_of(NODES))
            .where(NODES.c.workspace == self.store.workspace, NODES.c.id == func.any(list(ids)))
        )
        return in_order(self.store.records(Entity, query), ids)

    def relationships(self, ids: Sequence[str]) -> list[Relationship]:
        source, target = NODES.alias("source_node"), NODES.alias("target_node")
        rank = func.coalesce(source.c.degree, 0) + func.coalesce(target.c.degree, 0)
        query = (
            select(*_shown(rank))
            .outerjoin_from(EDGES, source, _is_end(source, EDGES.c.source_entity_id))
            .outerjoin(target, _is_end(target, EDGES.c.target_entity_id))
            .outerjoin(SOURCE_LISTS, is_of(EDGES))
            .where(EDGES.c.workspace == self.store.workspace, EDGES.c.id == func.any(list(ids)))
        )
        return in_order(self.store.records(Relationship, query), ids)

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> list[Relationship]:
        """What is shown of them is read of the best alone."""
        workspace = self.store.workspace
        found = _edges_of(workspace, _asked(workspace, entity_ids))
        order = (found.c.rank.desc(), found.c.weight.desc(), found.c.id.collate("C"))
        best = select(found).order_by(*order).limit(limit).subquery("best")
        query = (
            select(*_shown(best.c.rank))
            .join_from(best, EDGES, (EDGES.c.workspace == workspace) & (EDGES.c.id == best.c.id))
            .outerjoin(SOURCE_LISTS, is_of(EDGES))
            .order_by(best.c.rank.desc(), best.c.weight.desc(), best.c.id.collate("C"))
        )
        return self.store.records(Relationship, query)

    def shared_units(self, entity_ids: Sequence[str]) -> list[SharedUnit]:
        workspace, ids = self.store.workspace, list(entity_ids)
        asked = (SOURCE_LISTS.c.workspace == workspace, SOURCE_LISTS.c.id == func.any(ids))
        found = select(SOURCE_LISTS.c.id, func.unnest(FIRST_UNITS).label("unit")).where(*asked).subquery()
        pairs = union(
            *(
                select(few.c.id.label("entity"), far.label("neighbour"))
                .join_from(few, EDGES, (EDGES.c.workspace == workspace) & (near == few.c.id))
                .where(near != far)
                for few in [_asked(workspace, ids, HUB)]
                for near, far in permutations((EDGES.c.source_entity_id, EDGES.c.target_entity_id))
            )
        ).subquery()
        theirs = (
            select(pairs.c.entity, func.unnest(SOURCE_LISTS.c.chunk_ids).label("unit"))
            .join_from(pairs, NODES, (NODES.c.workspace == workspace) & (NODES.c.id == pairs.c.neighbour))
            .join(SOURCE_LISTS, is_of(NODES))
            .where(NODES.c.degree <= HUB)
            .subquery()
        )
        query = (
            select(found.c.id, found.c.unit, func.count(theirs.c.entity))
            .outerjoin_from(found, theirs, (theirs.c.entity == found.c.id) & (theirs.c.unit == found.c.unit))
            .group_by(found.c.id, found.c.unit)
            .order_by(found.c.id.collate("C"), found.c.unit.collate("C"))
        )
        return self.store.records(SharedUnit, query)

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> list[Link]:
        workspace = self.store.workspace
        found = _edges_of(workspace, _asked(workspace, entity_ids, most))
        query = select(*(found.c[name] for name in LINK_FIELDS))
        return self.store.records(Link, query.order_by(found.c.rank, found.c.id.collate("C")).limit(limit))

    def communities_of(self, entity_ids: Sequence[str], level: int) -> list[Membership]:
        ids = cast(sorted(set(entity_ids)), ARRAY(Text))
        asked = func.unnest(ids).table_valued("id", name="asked").render_derived()
        finest = (
            select(COMMUNITIES.c.id, COMMUNITIES.c.level)
            .where(
                COMMUNITIES.c.workspace == self.store.workspace,
                COMMUNITIES.c.entity_ids.bool_op("@>")(array([asked.c.id])),  # the index has it by itself
                COMMUNITIES.c.level <= level,
            )
            .order_by(COMMUNITIES.c.level.desc(), COMMUNITIES.c.id.collate("C"))
            .limit(1)
            .lateral()
        )
        query = select(asked.c.id, finest.c.id, finest.c.level).join_from(asked, finest, true())
        return self.store.records(Membership, query.order_by(asked.c.id.collate("C")))


def _asked(workspace: str, ids: Sequence[str], most: int | None = None) -> CTE:
    """(id, degree) of those of the entities that have at most so many neighbours, found before any relationship is
    looked at."""
    query = select(NODES.c.id, NODES.c.degree).where(NODES.c.workspace == workspace, NODES.c.id == func.any(list(ids)))
    query = query if most is None else query.where(NODES.c.degree <= most)
    return query.cte("asked").prefix_with("MATERIALIZED")


def _edges_of(workspace: str, asked: CTE) -> Subquery:
    """LINK_FIELDS, weight and rank, which is the degrees of both ends, of the relationships at either end of the
    entities, each once. The degree of one end is known: that of the other alone is looked up."""
    other = NODES.alias("other")
    rank = (asked.c.degree + func.coalesce(other.c.degree, 0)).label("rank")
    return union(
        *(
            select(*(EDGES.c[name] for name in LINK_FIELDS), EDGES.c.weight, rank)
            .join_from(asked, EDGES, (EDGES.c.workspace == workspace) & (near == asked.c.id))
            .outerjoin(other, (other.c.workspace == workspace) & (other.c.id == far))
            for near, far in permutations((EDGES.c.source_entity_id, EDGES.c.target_entity_id))
        )
    ).subquery("found")


def _shown(rank: ColumnElement[int]) -> list[ColumnElement]:
    """The fields of Relationship, of EDGES beside SOURCE_LISTS."""
    made = {
        "rank": rank.label("rank"),
        "keywords": as_given(EDGES.c.keywords).label("keywords"),
        "text_unit_ids": as_given(FIRST_UNITS).label("text_unit_ids"),
    }
    return [made[name] if name in made else EDGES.c[name] for name in field_names(Relationship)]


def _is_end(node: FromClause, end: ColumnElement[str]) -> ColumnElement[bool]:
    return (node.c.workspace == EDGES.c.workspace) & (node.c.id == end)
