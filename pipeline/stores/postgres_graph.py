"""The graph in plain PostgreSQL tables: set-based reads, no extension needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from sqlalchemy import ARRAY, Select, Text, cast, distinct, func, or_, select, union

from pipeline.stores.base import (
    COMMUNITY_COLUMNS,
    ENTITY_COLUMNS,
    LINK_COLUMNS,
    RELATIONSHIP_COLUMNS,
    Shown,
    VectorStore,
    in_order,
)
from pipeline.stores.postgres import PostgresStore
from pipeline.stores.tables import COMMUNITIES, EDGES, NODES


@dataclass(frozen=True)
class PostgresGraph:
    """Reads of the graph that a PostgresStore (``with_graph``) has loaded."""

    store: PostgresStore

    def beside(self, vectors: VectorStore) -> "PostgresGraph":
        return PostgresGraph(vectors) if isinstance(vectors, PostgresStore) else self

    def shown(self) -> Shown:
        """Nothing where the last load has put the graph elsewhere."""
        live = self.store.live()
        return Shown(live.version if live and "nodes" in live.tables else "")

    def entities(self, ids: Sequence[str]) -> pd.DataFrame:
        query = select(
            NODES.c.id,
            NODES.c.display_name.label("name"),
            NODES.c.entity_type.label("type"),
            NODES.c.description,
            NODES.c.degree,
            NODES.c.source_id.label("text_unit_ids"),
        ).where(NODES.c.workspace == self.store.workspace, NODES.c.id == func.any(list(ids)))
        return in_order(self._frame(query, ENTITY_COLUMNS), ids)

    def relationships(self, ids: Sequence[str]) -> pd.DataFrame:
        query = self._edges().where(EDGES.c.id == func.any(list(ids)))
        return in_order(self._frame(query, RELATIONSHIP_COLUMNS), ids)

    def relationships_of(self, entity_ids: Sequence[str], limit: int) -> pd.DataFrame:
        ids = list(entity_ids)
        query = (
            self._edges()
            .where(or_(EDGES.c.source_entity_id == func.any(ids), EDGES.c.target_entity_id == func.any(ids)))
            .order_by(EDGES.c.rank.desc(), EDGES.c.weight.desc(), EDGES.c.id.collate("C"))
            .limit(limit)
        )
        return self._frame(query, RELATIONSHIP_COLUMNS)

    def shared_units(self, entity_ids: Sequence[str]) -> pd.DataFrame:
        workspace, ids = self.store.workspace, list(entity_ids)
        source, target = EDGES.c.source_entity_id, EDGES.c.target_entity_id
        pairs = union(
            select(source.label("entity"), target.label("neighbour")).where(
                EDGES.c.workspace == workspace, source == func.any(ids), source != target
            ),
            select(target, source).where(EDGES.c.workspace == workspace, target == func.any(ids), source != target),
        ).subquery()
        found = (
            select(NODES.c.id, func.unnest(NODES.c.source_id).label("unit"))
            .where(NODES.c.workspace == workspace, NODES.c.id == func.any(ids))
            .subquery()
        )
        neighbour = NODES.alias("neighbour")
        query = (
            select(found.c.id, found.c.unit, func.count(distinct(neighbour.c.id)))
            .outerjoin_from(found, pairs, pairs.c.entity == found.c.id)
            .outerjoin(
                neighbour,
                (neighbour.c.workspace == workspace)
                & (neighbour.c.id == pairs.c.neighbour)
                & (found.c.unit == func.any(neighbour.c.source_id)),
            )
            .group_by(found.c.id, found.c.unit)
            .order_by(found.c.id.collate("C"), found.c.unit.collate("C"))
        )
        return self._frame(query, ["entity_id", "text_unit_id", "neighbours"])

    def links(self, entity_ids: Sequence[str], most: int, limit: int) -> pd.DataFrame:
        workspace = self.store.workspace
        few = (
            select(NODES.c.id)
            .where(NODES.c.workspace == workspace, NODES.c.id == func.any(list(entity_ids)), NODES.c.degree <= most)
            .cte("few")
            .prefix_with("MATERIALIZED")
        )
        columns = [*(EDGES.c[name] for name in LINK_COLUMNS), EDGES.c.rank]
        at_end = [
            select(*columns).join_from(few, EDGES, (EDGES.c.workspace == workspace) & (end == few.c.id))
            for end in (EDGES.c.source_entity_id, EDGES.c.target_entity_id)
        ]
        found = union(*at_end).subquery()
        query = select(*(found.c[name] for name in LINK_COLUMNS))
        return self._frame(query.order_by(found.c.rank, found.c.id.collate("C")).limit(limit), LINK_COLUMNS)

    def communities_of(self, entity_ids: Sequence[str], level: int) -> pd.DataFrame:
        if not self.store.holds("communities"):
            return pd.DataFrame(columns=COMMUNITY_COLUMNS)
        ids = list(entity_ids)
        members = (
            select(
                func.unnest(COMMUNITIES.c.entity_ids).label("entity_id"),
                COMMUNITIES.c.id.label("community_id"),
                COMMUNITIES.c.level,
            )
            .where(
                COMMUNITIES.c.workspace == self.store.workspace,
                COMMUNITIES.c.entity_ids.bool_op("&&")(cast(ids, ARRAY(Text))),
                COMMUNITIES.c.level <= level,
            )
            .subquery()
        )
        entity, community = members.c.entity_id.collate("C"), members.c.community_id.collate("C")
        query = (
            select(*(members.c[name] for name in COMMUNITY_COLUMNS))
            .where(members.c.entity_id == func.any(ids))
            .distinct(entity)
            .order_by(entity, members.c.level.desc(), community)
        )
        return self._frame(query, COMMUNITY_COLUMNS)

    def _edges(self) -> Select:
        columns = {"text_unit_ids": "source_id"}
        return select(*(EDGES.c[columns.get(name, name)].label(name) for name in RELATIONSHIP_COLUMNS)).where(
            EDGES.c.workspace == self.store.workspace
        )

    def _frame(self, query: Select, columns: list[str]) -> pd.DataFrame:
        with self.store.connection() as connection:
            return pd.DataFrame(connection.execute(query).all(), columns=columns)
