"""prune_graph: remove rare entities, weak relationships and small components from a graph."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import FLOAT, INT, STRING, TableSchema, at_least

ENDS = ["source_entity_id", "target_entity_id"]


class PruneParams(Params):
    """Limits below which entities and relationships are removed.

    ``min_frequency`` is the number of text units that mention an entity. ``min_weight`` is the
    weight of a relationship. ``weight_percentile`` removes the relationships whose weight is below
    this percentile of all weights. ``min_degree`` is the number of distinct neighbours of an
    entity. ``largest_component`` says whether only the largest connected component is kept.
    """

    min_frequency: int = Field(default=1, ge=0)
    min_weight: float = 0.0
    weight_percentile: float = Field(default=0.0, ge=0, le=100)
    min_degree: int = Field(default=0, ge=0)
    largest_component: bool = False


def _schema_of(name: str) -> Callable[[Mapping[str, TableSchema], PruneParams], TableSchema]:
    """Return a function that returns the schema of this input table.

    It raises ValueError if the table has degrees, which would be wrong after pruning.
    """

    def schema(read: Mapping[str, TableSchema], params: PruneParams) -> TableSchema:
        if {"degree", "rank"} & set(read[name].columns):
            raise ValueError(
                f"'{name}' has degrees already, which would no longer hold; prune before"
                " compute_degrees"
            )
        return read[name]

    return schema


@verb(
    inputs={
        "entities": at_least(id=STRING, frequency=INT),
        "relationships": at_least(
            id=STRING, source_entity_id=STRING, target_entity_id=STRING, weight=FLOAT
        ),
        "mentions": at_least(entity_id=STRING),
    },
    outputs={
        "kept_entities": _schema_of("entities"),
        "kept_relationships": _schema_of("relationships"),
        "kept_mentions": _schema_of("mentions"),
    },
)
def prune_graph(
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    mentions: pd.DataFrame,
    params: PruneParams = PruneParams(),
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the entities, relationships and mentions that pass the limits, unchanged.

    The limits apply in this order: frequency, weight, degree in the remaining graph, component. A
    relationship is removed with either of its ends, a mention with its entity. Of components of
    equal size, the one with the smallest id is kept.
    """
    is_frequent = entities["frequency"].fillna(0) >= params.min_frequency
    ids = set(entities.loc[is_frequent, "id"])
    edges = _remove_light(_select_between(relationships, ids), params)
    if params.min_degree:
        degrees = _count_neighbours(edges)
        ids &= set(degrees[degrees >= params.min_degree].index)
        edges = _select_between(edges, ids)
    if params.largest_component and ids:
        ids = _find_largest_component(ids, edges)
        edges = _select_between(edges, ids)
    kept_entities = entities[entities["id"].isin(ids)]
    kept_mentions = mentions[mentions["entity_id"].isin(ids)]
    return kept_entities, edges, kept_mentions


def _select_between(relationships: pd.DataFrame, ids: set[str]) -> pd.DataFrame:
    """Return the relationships whose two ends are among these entities."""
    return relationships[relationships[ENDS].isin(ids).all(axis=1)]


def _remove_light(relationships: pd.DataFrame, params: PruneParams) -> pd.DataFrame:
    """Return the relationships that reach the least weight. A missing weight counts as 0."""
    weights = relationships["weight"].fillna(0)
    least = params.min_weight
    if params.weight_percentile and len(weights):
        least = max(least, float(np.percentile(weights, params.weight_percentile)))
    return relationships[weights >= least]


def _count_neighbours(relationships: pd.DataFrame) -> pd.Series:
    """Return the number of distinct neighbours by entity; an entity is no neighbour of itself."""
    sources = relationships["source_entity_id"].to_numpy()
    targets = relationships["target_entity_id"].to_numpy()
    both_ways = {"entity": [*sources, *targets], "neighbour": [*targets, *sources]}
    pairs = pd.DataFrame(both_ways).drop_duplicates()
    is_loop = pairs["entity"] == pairs["neighbour"]
    return pairs.loc[~is_loop, "entity"].value_counts()


def _find_largest_component(ids: set[str], relationships: pd.DataFrame) -> set[str]:
    """Return the entities of the largest component of the graph of all these entities."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(ids)
    graph.add_edges_from(relationships[list(ENDS)].itertuples(index=False, name=None))
    return min(nx.connected_components(graph), key=lambda members: (-len(members), min(members)))
