import json
import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest

from pipeline.contract.schemas import EMBEDDINGS, LAYOUT, NODES
from pipeline.errors import SettingsError
from pipeline.verbs.embed_graph import EDGES, Node2VecParams, embed_graph
from pipeline.verbs.layout_graph import LayoutParams, layout_graph

EXTRA = all(map(find_spec, ["gensim", "umap"]))
with_extra = pytest.mark.skipif(
    not EXTRA, reason="the extra 'analytics' is not installed: make analytics"
)
METHODS = ["force", pytest.param("umap", marks=with_extra)]

if os.environ.get("GRAPHMILL_REQUIRE_ANALYTICS") == "1":
    assert EXTRA, "the extra 'analytics' is not installed"


def two_rings(size: int = 12) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return nodes and edges of two cliques that one relationship joins.

    Nodes are at two levels, and one of them has no edge.
    """
    names = [[f"{ring}{place:02}" for place in range(size)] for ring in "ab"]
    pairs = [
        (ring[one], ring[other], 1.0)
        for ring in names
        for one in range(size)
        for other in range(one)
    ]
    edges = EDGES.frame([*pairs, ("a00", "b00", 0.5), ("a01", "a01", 3.0)])
    ids = [*names[0], *names[1], "alone"]
    return (
        NODES.frame([(id, level, f"com-{id[0]}", None, None) for level in (0, 1) for id in ids]),
        edges,
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore")
def test_every_node_with_a_relationship_has_one_place(method: str):
    nodes, edges = two_rings()
    placed, layout = layout_graph(nodes, edges, LayoutParams(method=method))
    NODES.encode(placed, "placed")
    LAYOUT.encode(layout, "layout")
    assert list(layout.itertuples(index=False, name=None)) == sorted(
        set(placed.dropna(subset="x")[["entity_id", "x", "y"]].itertuples(index=False, name=None))
    )
    assert placed[["entity_id", "level", "community_id"]].equals(
        nodes[["entity_id", "level", "community_id"]]
    )
    assert placed.loc[placed["x"].isna(), "entity_id"].tolist() == ["alone", "alone"]
    assert placed[["x", "y"]].abs().max().max() == 1
    assert placed.groupby("entity_id")["x"].nunique().max() == 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore")
def test_linked_nodes_are_near_each_other(method: str):
    nodes, edges = two_rings()
    placed, _ = layout_graph(nodes[nodes["level"] == 0], edges, LayoutParams(method=method))
    placed = placed.dropna(subset="x")
    rings = {
        ring: group[["x", "y"]].to_numpy()
        for ring, group in placed.groupby(placed["entity_id"].str[0])
    }
    apart = np.linalg.norm(rings["a"].mean(axis=0) - rings["b"].mean(axis=0))
    within = max(np.linalg.norm(ring - ring.mean(axis=0), axis=1).mean() for ring in rings.values())
    assert apart > within


def test_more_nodes_than_force_is_meant_for_are_refused_and_umap_is_named():
    nodes, edges = two_rings()
    with pytest.raises(
        SettingsError, match=r"24 nodes, and method: force is for 23.*method: umap.*most_nodes"
    ):
        layout_graph(nodes, edges, LayoutParams(most_nodes=23))
    assert layout_graph(nodes, edges, LayoutParams(most_nodes=24))[0]["x"].notna().sum() == 48


PLACES = """
import json, sys, warnings
warnings.simplefilter("ignore")
from tests.verbs.test_layout_graph import EXTRA, LayoutParams, embed_graph, layout_graph, two_rings
nodes, edges = two_rings()
layouts = [layout_graph(nodes, edges, LayoutParams(method=method))[0] for method in sys.argv[1:]]
made = [layout.to_json() for layout in layouts]
print(json.dumps([*made, embed_graph(edges)["vector"].map(list).to_json() if EXTRA else ""]))
"""


def test_every_process_gives_the_same_layout():
    methods = ["force", "umap"] if EXTRA else ["force"]
    made = {
        subprocess.run(
            [sys.executable, "-c", PLACES, *methods], env={**os.environ, "PYTHONHASHSEED": seed,
                "PYTHONPATH": "."},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(made) == 1
    assert json.loads(made.pop())[0]


def test_a_graph_without_relationships_has_no_places():
    placed, layout = layout_graph(two_rings()[0], EDGES.frame())
    assert placed["x"].isna().all()
    assert layout.empty


@pytest.mark.skipif(EXTRA, reason="the extra is installed")
def test_an_error_names_the_extra_that_is_missing():
    nodes, edges = two_rings()
    with pytest.raises(SettingsError, match=r"gensim is not installed; .*\.\[analytics\]"):
        embed_graph(edges)
    with pytest.raises(SettingsError, match=r"umap is not installed; .*\.\[analytics\]"):
        layout_graph(nodes, edges, LayoutParams(method="umap"))


@with_extra
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "params", [Node2VecParams(), Node2VecParams(return_parameter=0.5, in_out_parameter=2.0)]
)
def test_vectors_of_neighbours_are_alike(params: Node2VecParams):
    _, edges = two_rings()
    embedded = embed_graph(edges, params)
    EMBEDDINGS.encode(embedded, "embedded")
    vectors = np.stack(embedded["vector"].map(np.asarray).tolist())
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    same = np.array([[one[0] == other[0] for other in embedded["id"]] for one in embedded["id"]])
    likeness = vectors @ vectors.T
    assert likeness[same].mean() > likeness[~same].mean()
