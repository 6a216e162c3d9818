from pathlib import Path

import networkx as nx
import pandas as pd
import pytest

from pipeline.contract.registry import REGISTRY
from pipeline.contract.schemas import ENTITIES, RELATIONSHIPS
from pipeline.snapshots.ranks import degrees, lack_ranks, with_ranks
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.verbs.tables.rows import FilterRowsParams
from tests.verbs.graphs import ranked, towns


def test_a_rank_is_the_degrees_of_both_ends(tmp_path: Path):
    graph = towns()
    entities, relationships = ranked(graph)
    snapshots = SnapshotStore(tmp_path)
    table = ENTITIES.encode(entities, "entities")
    manifest = Manifest(
        "fast", {"entities": snapshots.tables.write("entities", table, ENTITIES.key)}, {}
    )
    assert lack_ranks("relationships", relationships.columns, manifest, snapshots)
    found = with_ranks(relationships, degrees(manifest, snapshots))
    degree = dict(nx.Graph(graph).degree())
    for row in found.itertuples():
        assert (row.source_degree, row.target_degree) == (degree[row.source], degree[row.target])
        assert row.rank == degree[row.source] + degree[row.target]
    pd.testing.assert_frame_equal(found[relationships.columns], relationships)
    assert not lack_ranks("relationships", found.columns, manifest, snapshots), (
        "those of an earlier version have them"
    )
    assert not lack_ranks("links", relationships.columns, manifest, snapshots)
    assert not lack_ranks(
        "relationships", relationships.columns, Manifest("fast", {}, {}), snapshots
    )


def test_an_end_that_is_no_entity_has_no_degree():
    _, relationships = ranked(nx.DiGraph([("a", "b")]))
    [row] = with_ranks(relationships, pd.Series({"ent-of-another": 3})).itertuples()
    assert (row.source_degree, row.target_degree, row.rank) == (0, 0, 0)


def test_the_error_of_a_step_that_asks_for_ranks_says_where_degrees_are():
    params = FilterRowsParams(where={"rank": {">": 3}})
    with pytest.raises(
        ValueError, match="no column 'rank'; degrees are in 'entities' alone: join them by"
    ):
        REGISTRY.verbs["filter"].written({"table": RELATIONSHIPS}, params)
