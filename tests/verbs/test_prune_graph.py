from typing import Any

import pandas as pd
import pytest

from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import ENTITIES, FLOAT, INT, MENTIONS, RELATIONSHIPS, STRING, table
from pipeline.verbs.prune_graph import PruneParams, prune_graph

SOME_ENTITIES = table("id", id=STRING, frequency=INT)
SOME_EDGES = table("id", id=STRING, source_entity_id=STRING, target_entity_id=STRING, weight=FLOAT)


def graph() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return a triangle a b c with a tail d, a pair x y, and a single node z."""
    entities = SOME_ENTITIES.frame(
        [("a", 3), ("b", 2), ("c", 2), ("d", 1), ("x", 2), ("y", 2), ("z", 9)]
    )
    ends = [
        ("a", "b", 5.0),
        ("b", "a", 1.0),
        ("b", "c", 2.0),
        ("c", "a", 1.0),
        ("c", "d", 1.0),
        ("x", "y", 3.0),
    ]
    edges = SOME_EDGES.frame([(f"{one}{other}", one, other, weight) for one, other, weight in ends])
    mentions = MENTIONS.frame([(id, "u1", 1) for id in "abcdxyz"])
    return entities, edges, mentions


@pytest.mark.parametrize(
    ("params", "ids", "edges"),
    [
        ({}, "abcdxyz", "ab ba bc ca cd xy"),
        ({"min_frequency": 2}, "abcxyz", "ab ba bc ca xy"),
        ({"min_weight": 2}, "abcdxyz", "ab bc xy"),
        ({"weight_percentile": 50}, "abcdxyz", "ab bc xy"),
        ({"min_degree": 1}, "abcdxy", "ab ba bc ca cd xy"),
        ({"min_degree": 2}, "abc", "ab ba bc ca"),
        ({"largest_component": True}, "abcd", "ab ba bc ca cd"),
        ({"min_weight": 2, "min_degree": 1, "largest_component": True}, "abc", "ab bc"),
        ({"min_frequency": 10, "largest_component": True}, "", ""),
    ],
)
def test_what_is_below_a_limit_is_removed(params: dict[str, Any], ids: str, edges: str):
    kept = prune_graph(*graph(), PruneParams(**params))
    assert kept[0]["id"].tolist() == list(ids)
    assert sorted(kept[1]["id"]) == edges.split()
    assert kept[2]["entity_id"].tolist() == list(ids)


def test_a_graph_that_has_degrees_already_is_refused():
    read = {"entities": ENTITIES, "relationships": RELATIONSHIPS, "mentions": MENTIONS}
    with pytest.raises(ValueError, match="prune before compute_degrees"):
        REGISTRY.verbs["prune_graph"].written(read, PruneParams())
