"""layout_graph: compute a position in the plane for each node, to draw the graph."""

from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import LAYOUT, NODES
from pipeline.errors import SettingsError, install_extra
from pipeline.verbs.embed_graph import EDGES, Node2VecParams, merge_directions, node2vec

DIGITS = 6
"""The decimal places of coordinates."""
FEWEST_FOR_UMAP = 5
"""A smaller graph is laid out by force even if ``method`` is umap."""


class LayoutParams(Params):
    """The method of the layout, and the parameters of both methods.

    ``method`` is force, or umap of node2vec vectors, which needs the extra "analytics".
    ``iterations`` and ``most_nodes``, the greatest number of nodes, are for force. ``neighbours``
    and ``min_distance`` are for UMAP.
    """

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
    """Return the nodes with the coordinates ``x`` and ``y``, and the coordinates by entity.

    Coordinates are between -1 and 1, and the same at every level. An entity without a relationship
    has none. Raises SettingsError for umap without its extra, and for more nodes than
    ``most_nodes`` with force.

    The methods are Fruchterman, Reingold 1991, "Graph Drawing by Force-directed Placement", as
    networkx implements it, and McInnes, Healy, Melville 2018, "UMAP". A fixed seed and sorted edges
    give the same layout in every process.
    """
    known_ids = set(nodes["entity_id"])
    all_edges = merge_directions(relationships)
    edges = [edge for edge in all_edges if edge[0] in known_ids and edge[1] in known_ids]
    positions = _compute_positions(edges, params)
    xs: dict[str, float] = {}
    ys: dict[str, float] = {}
    rows: list[tuple[str, float, float]] = []
    for id, (x, y) in sorted(positions.items()):
        xs[id] = x
        ys[id] = y
        rows.append((id, x, y))
    # An entity that has no position gets a missing value.
    x_of_node = nodes["entity_id"].map(xs).astype(float)
    y_of_node = nodes["entity_id"].map(ys).astype(float)
    placed = nodes.assign(x=x_of_node, y=y_of_node)
    return placed, LAYOUT.frame(rows)


def _compute_positions(
    edges: list[tuple[str, str, float]], params: LayoutParams
) -> dict[str, tuple[float, float]]:
    """Return the coordinates of each node that has an edge.

    An edge is two entity ids and a weight. Raises SettingsError if there are too many nodes.
    """
    distinct_ids: set[str] = set()
    for one, other, _ in edges:
        distinct_ids.update((one, other))
    ids = sorted(distinct_ids)
    if not ids:
        return {}
    if params.method == "force" and len(ids) > params.most_nodes:
        # Every pair of nodes repels each other: 10,000 nodes take four minutes, and twice as many
        # take four times as long.
        raise SettingsError(
            f"layout_graph: {len(ids):,} nodes, and method: force is for {params.most_nodes:,}, as"
            f" its time grows with their square; set method: umap ({install_extra('analytics')}),"
            " or raise most_nodes and wait"
        )
    if params.method == "umap" and len(ids) >= FEWEST_FOR_UMAP:
        positions = _place_by_umap(edges, params)
    else:
        positions = _place_by_force(ids, edges, params)
    fitted = _fit_to_unit_square(positions)
    # Adding 0.0 turns -0.0 into 0.0.
    rounded = np.round(fitted, DIGITS) + 0.0
    return {id: (float(x), float(y)) for id, (x, y) in zip(ids, rounded, strict=True)}


def _place_by_force(
    ids: list[str], edges: list[tuple[str, str, float]], params: LayoutParams
) -> np.ndarray:
    """Return a row with x and y for each of these ids."""
    import networkx as nx

    graph: nx.Graph = nx.Graph()
    graph.add_nodes_from(ids)
    graph.add_weighted_edges_from(edges)
    options: dict[str, Any] = {
        "iterations": params.iterations,
        "seed": params.seed,
        "method": "force",
    }
    # The options are passed by ** because networkx's type stubs do not know `method`.
    placed = nx.spring_layout(graph, **options)
    return np.array([placed[id] for id in ids])


def _place_by_umap(edges: list[tuple[str, str, float]], params: LayoutParams) -> np.ndarray:
    """Return a row with x and y for each node, sorted by id.

    Raises SettingsError if umap is not installed.
    """
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


def _fit_to_unit_square(positions: np.ndarray) -> np.ndarray:
    """Return the positions moved and scaled to fill -1 to 1; both directions are scaled alike."""
    middle = (positions.max(axis=0) + positions.min(axis=0)) / 2
    centred = positions - middle
    # If all nodes are in one point, there is nothing to scale.
    furthest = np.abs(centred).max() or 1.0
    return centred / furthest
