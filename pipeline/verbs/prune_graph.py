"""prune_graph: a graph without what is rare, weak or apart."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import FLOAT, INT, STRING, TableSchema, at_least

ENDS = ["source_entity_id", "target_entity_id"]


class PruneParams(Params):
    """``min_frequency``: text units that mention an entity; ``min_weight``: of a relationship;
    ``weight_percentile``: relationships lighter than this percentile of all weights go;
    ``min_degree``: distinct neighbours of an entity; ``largest_component``: whether only the
    largest connected part stays."""

    min_frequency: int = Field(default=1, ge=0)
    min_weight: float = 0.0
    weight_percentile: float = Field(default=0.0, ge=0, le=100)
    min_degree: int = Field(default=0, ge=0)
    largest_component: bool = False


def _same(name: str) -> Callable[[Mapping[str, TableSchema], PruneParams], TableSchema]:
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
        "kept_entities": _same("entities"),
        "kept_relationships": _same("relationships"),
        "kept_mentions": _same("mentions"),
    },
)
def prune_graph(
    entities: pd.DataFrame,
    relationships: pd.DataFrame,
    mentions: pd.DataFrame,
    params: PruneParams = PruneParams(),
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """What stays, unchanged, in this order of looks: frequency, weight, degree in what is left,
    component. A relationship goes with either of its ends, a mention with its entity. Of components
    of one size the one with the smallest id stays."""
    ids = set(entities.loc[entities["frequency"].fillna(0) >= params.min_frequency, "id"])
    edges = _heavy(_between(relationships, ids), params)
    if params.min_degree:
        ids &= set(_degrees(edges).loc[lambda degrees: degrees >= params.min_degree].index)
        edges = _between(edges, ids)
    if params.largest_component and ids:
        ids = _largest_component(ids, edges)
        edges = _between(edges, ids)
    return entities[entities["id"].isin(ids)], edges, mentions[mentions["entity_id"].isin(ids)]


def _between(relationships: pd.DataFrame, ids: set[str]) -> pd.DataFrame:
    return relationships[relationships[ENDS].isin(ids).all(axis=1)]


def _heavy(relationships: pd.DataFrame, params: PruneParams) -> pd.DataFrame:
    weights = relationships["weight"].fillna(0)
    least = np.percentile(weights, params.weight_percentile) if len(weights) else 0.0
    return relationships[
        weights >= max(params.min_weight, float(least) if params.weight_percentile else -np.inf)
    ]


def _degrees(relationships: pd.DataFrame) -> pd.Series:
    """Entity -> distinct neighbours, itself left aside."""
    one, other = (relationships[name].to_numpy() for name in ENDS)
    pairs = pd.DataFrame({"entity": [*one, *other], "neighbour": [*other, *one]}).drop_duplicates()
    return pairs.loc[pairs["entity"] != pairs["neighbour"], "entity"].value_counts()


def _largest_component(ids: set[str], relationships: pd.DataFrame) -> set[str]:
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(ids)
    graph.add_edges_from(relationships[list(ENDS)].itertuples(index=False, name=None))
    return min(nx.connected_components(graph), key=lambda members: (-len(members), min(members)))
