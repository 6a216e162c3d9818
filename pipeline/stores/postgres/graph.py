"""The graph in plain PostgreSQL tables: set-based reads, no extension needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import pandas as pd
from sqlalchemy import ARRAY, CTE, ColumnElement, Select, Text, cast, func, or_, select, true, union
from sqlalchemy.dialects.postgresql import array

from pipeline.stores.base import (
    COMMUNITY_COLUMNS,
    ENTITY_COLUMNS,
    HUB,
    LINK_COLUMNS,
    RELATIONSHIP_COLUMNS,
    SOURCES,
    GraphState,
    VectorStore,
    in_order,
)
from pipeline.stores.postgres.schema import COMMUNITIES, EDGES, NODES
from pipeline.stores.postgres.store import PostgresStore


@dataclass(frozen=True)
class PostgresGraph:
    """Reads of the graph that a PostgresStore (``with_graph``) has loaded."""

    store: PostgresStore

    def beside(self, vectors: VectorStore) -> "PostgresGraph":
        return PostgresGraph(vectors) if isinstance(vectors, PostgresStore) else self

    def shown(self) -> GraphState:
        """Nothing where the last load has put the graph elsewhere."""
        live = self.store.live()
        return GraphState(live.version, owner=live.owner) if live and "nodes" in live.tables else GraphState("")

    def entities(self, ids: Sequence[str]) -> pd.DataFrame:
        query = select(
            NODES.c.id,
            NODES.c.display_name.label("name"),
            NODES.c.entity_type.label("type"),
            NODES.c.description,
            NODES.c.degree,
            NODES.c.source_id[1:SOURCES].label("text_unit_ids"),
        ).where(NODES.c.workspace == self.store.workspace, NODES.c.id == func.any(list(ids)))
        return in_order(self.store.frame(query, ENTITY_COLUMNS), ids)

    def relationships(self, ids: Sequence[str]) -> pd.DataFrame:
        query = self._edges().where(EDGES.c.id == func.any(list(ids)))
        return in_order(self.store.frame(query, RELATIONSHIP_COLUMNS), ids)

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> pd.DataFrame:
        ids = list(entity_ids)
        query = (
            self._edges()
            .where(or_(EDGES.c.source_entity_id == func.any(ids), EDGES.c.target_entity_id == func.any(ids)))
            .order_by(EDGES.c.rank.desc(), EDGES.c.weight.desc(), EDGES.c.id.collate("C"))
            .limit(limit)
        )
        return self.store.frame(query, RELATIONSHIP_COLUMNS)

    def shared_units(self, entity_ids: Sequence[str]) -> pd.DataFrame:
        workspace, ids = self.store.workspace, list(entity_ids)
        asked = (NODES.c.workspace == workspace, NODES.c.id == func.any(ids))
        found = select(NODES.c.id, func.unnest(NODES.c.source_id[1:SOURCES]).label("unit")).where(*asked).subquery()
        pairs = union(
            *(
                select(few.c.id.label("entity"), far.label("neighbour"))
                .join_from(few, EDGES, (EDGES.c.workspace == workspace) & (near == few.c.id))
                .where(near != far)
                for few in [_few(asked)]
                for near, far in permutations((EDGES.c.source_entity_id, EDGES.c.target_entity_id))
            )
        ).subquery()
        theirs = (
            select(pairs.c.entity, func.unnest(NODES.c.source_id).label("unit"))
            .join_from(pairs, NODES, (NODES.c.workspace == workspace) & (NODES.c.id == pairs.c.neighbour))
            .where(NODES.c.degree <= HUB)
            .subquery()
        )
        query = (
            select(found.c.id, found.c.unit, func.count(theirs.c.entity))
            .outerjoin_from(found, theirs, (theirs.c.entity == found.c.id) & (theirs.c.unit == found.c.unit))
            .group_by(found.c.id, found.c.unit)
            .order_by(found.c.id.collate("C"), found.c.unit.collate("C"))
        )
        return self.store.frame(query, ["entity_id", "text_unit_id", "neighbours"])

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> pd.DataFrame:
        workspace = self.store.workspace
        few = _few((NODES.c.workspace == workspace, NODES.c.id == func.any(list(entity_ids))), most)
        columns = [*(EDGES.c[name] for name in LINK_COLUMNS), EDGES.c.rank]
        at_end = [
            select(*columns).join_from(few, EDGES, (EDGES.c.workspace == workspace) & (end == few.c.id))
            for end in (EDGES.c.source_entity_id, EDGES.c.target_entity_id)
        ]
        found = union(*at_end).subquery()
        query = select(*(found.c[name] for name in LINK_COLUMNS))
        return self.store.frame(query.order_by(found.c.rank, found.c.id.collate("C")).limit(limit), LINK_COLUMNS)

    def communities_of(self, entity_ids: Sequence[str], level: int) -> pd.DataFrame:
        if not self.store.holds("communities"):
            return pd.DataFrame(columns=COMMUNITY_COLUMNS)
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
        return self.store.frame(query.order_by(asked.c.id.collate("C")), COMMUNITY_COLUMNS)

    def _edges(self) -> Select:
        units = EDGES.c.source_id[1:SOURCES].label("text_unit_ids")
        columns = [EDGES.c[name] for name in RELATIONSHIP_COLUMNS if name != units.name]
        return select(*columns, units).where(EDGES.c.workspace == self.store.workspace)


def _few(asked: Sequence[ColumnElement[bool]], most: int = HUB) -> CTE:
    """The entities asked for that have at most so many neighbours, found before any relationship is looked at."""
    return select(NODES.c.id).where(*asked, NODES.c.degree <= most).cte("few").prefix_with("MATERIALIZED")
