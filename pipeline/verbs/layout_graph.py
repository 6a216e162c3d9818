"""layout_graph: a place in the plane for each node, to draw the graph by."""

from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import LAYOUT, NODES
from pipeline.errors import SettingsError, install_extra
from pipeline.verbs.embed_graph import EDGES, Node2VecParams, node2vec, undirected

DIGITS = 6
FEWEST_FOR_UMAP = 5


class LayoutParams(Params):
    """``method``: force, or umap of node2vec vectors (the extra "analytics"). ``iterations``: of
    the force layout; ``most_nodes``: for how many it is, at most; ``neighbours`` and
    ``min_distance``: of UMAP."""

    method: Literal["force", "umap"] = "force"
    iterations: int = Field(default=50, ge=1)
    most_nodes: int = Field(default=10_000, ge=1)
    neighbours: int = Field(default=15, ge=2)
    min_distance: float = Field(default=0.1, ge=0, lt=1)
    seed: int = 20240401


@verb(
    inputs={"nodes": NODES, "relationships": EDGES},
    outputs={"placed_nodes": NODES, "layout": LAYOUT},
    libraries=("gensim", "networkx", "numpy", "scipy", "umap-learn"),
)
def layout_graph(
    nodes: pd.DataFrame, relationships: pd.DataFrame, params: LayoutParams = LayoutParams()
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """``x`` and ``y`` between -1 and 1, the same at every level, of each node, and once of each
    entity that has them: one without a relationship has none. Raises SettingsError for umap without
    its extra, and for more nodes than ``force`` is meant for.

    Fruchterman, Reingold 1991, "Graph Drawing by Force-directed Placement", as networkx has it, or
    McInnes, Healy, Melville 2018, "UMAP". A fixed seed and sorted edges give one layout in every
    process.
    """
    known = set(nodes["entity_id"])
    edges = [edge for edge in undirected(relationships) if edge[0] in known and edge[1] in known]
    places = _places(edges, params)
    at = nodes["entity_id"].map(places)
    placed = nodes.assign(
        x=at.map(lambda place: place[0], na_action="ignore").astype(float),
        y=at.map(lambda place: place[1], na_action="ignore").astype(float),
    )
    return placed, LAYOUT.frame([(id, *place) for id, place in sorted(places.items())])


def _places(
    edges: list[tuple[str, str, float]], params: LayoutParams
) -> dict[str, tuple[float, float]]:
    ids = sorted({end for edge in edges for end in edge[:2]})
    if not ids:
        return {}
    if params.method == "force" and len(ids) > params.most_nodes:
        # Each node moves away from every other: 10,000 take four minutes, twice as many four times
        # as long.
        raise SettingsError(
            f"layout_graph: {len(ids):,} nodes, and method: force is for {params.most_nodes:,}, as"
            f" its time grows with their square; set method: umap ({install_extra('analytics')}),"
            " or raise most_nodes and wait"
        )
    umap = params.method == "umap" and len(ids) >= FEWEST_FOR_UMAP
    places = (
        np.round(_unit(_by_umap(edges, params) if umap else _by_force(ids, edges, params)), DIGITS)
        + 0.0
    )
    return {id: (float(x), float(y)) for id, (x, y) in zip(ids, places, strict=True)}


def _by_force(
    ids: list[str], edges: list[tuple[str, str, float]], params: LayoutParams
) -> np.ndarray:
    import networkx as nx

    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(ids)
    graph.add_weighted_edges_from(edges)
    options: dict[str, Any] = {
        "iterations": params.iterations,
        "seed": params.seed,
        "method": "force",
    }
    placed = nx.spring_layout(graph, **options)  # the stubs do not know method
    return np.array([placed[id] for id in ids])


def _by_umap(edges: list[tuple[str, str, float]], params: LayoutParams) -> np.ndarray:
    try:
        from umap import UMAP  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise SettingsError(
            f"layout_graph: umap is not installed; {install_extra('analytics')}"
        ) from error
    _, vectors = node2vec(edges, Node2VecParams(seed=params.seed))
    neighbours = min(params.neighbours, len(vectors) - 1)
    reducer = UMAP(
        n_neighbors=neighbours, min_dist=params.min_distance, metric="cosine", init="pca",
        random_state=params.seed, n_jobs=1,
    )  # fmt: skip
    return np.asarray(reducer.fit_transform(vectors))


def _unit(places: np.ndarray) -> np.ndarray:
    """Moved and scaled alike in both directions, so that they fill -1 to 1."""
    centred = places - (places.max(axis=0) + places.min(axis=0)) / 2
    return centred / (np.abs(centred).max() or 1.0)
