"""embed_graph: compute a vector for each entity from its neighbourhood in the graph."""

import random
from bisect import bisect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pandas as pd
from pydantic import Field

from pipeline.contract.cells import vector_column
from pipeline.contract.registry import Params, verb
from pipeline.contract.schemas import EMBEDDINGS, FLOAT, STRING, table
from pipeline.errors import SettingsError, install_extra

EDGES = table(
    "source_entity_id", "target_entity_id",
    source_entity_id=STRING, target_entity_id=STRING, weight=FLOAT,
)  # fmt: skip


class Node2VecParams(Params):
    """The parameters of node2vec.

    ``walks`` random walks of ``walk_length`` nodes begin at each node. ``window`` is the greatest
    distance in a walk at which two nodes count as near. ``iterations`` is the number of epochs of
    the training. ``return_parameter`` and ``in_out_parameter`` are p and q of the paper.
    """

    dimensions: int = Field(default=64, ge=2)
    walks: int = Field(default=10, ge=1)
    walk_length: int = Field(default=40, ge=2)
    window: int = Field(default=2, ge=1)
    iterations: int = Field(default=3, ge=1)
    return_parameter: float = Field(default=1.0, gt=0)
    in_out_parameter: float = Field(default=1.0, gt=0)
    seed: int = 20240401


@verb(
    inputs={"relationships": EDGES},
    outputs={"graph_embeddings": EMBEDDINGS},
    libraries=("gensim", "numpy"),
)
def embed_graph(
    relationships: pd.DataFrame, params: Node2VecParams = Node2VecParams()
) -> pd.DataFrame:
    """Return a float32 ``vector`` for each entity that has a relationship.

    This needs the extra "analytics"; without it, SettingsError is raised.

    The method is Grover, Leskovec 2016, "node2vec: Scalable Feature Learning for Networks". Random
    walks that prefer to return (p) or to leave (q) are the sentences from which skip-gram learns.
    gensim runs in one thread, so one seed gives one result. The graph is read as undirected, and
    the weights of both directions are added.
    """
    ids, vectors = node2vec(merge_directions(relationships), params)
    return pd.DataFrame({"id": ids, "vector": vector_column(vectors)}, columns=EMBEDDINGS.columns)


def merge_directions(relationships: pd.DataFrame) -> list[tuple[str, str, float]]:
    """Return an edge for each pair of related entities: both ends and the total weight.

    Edges are sorted. Loops are left out, and so are weights that are missing or not positive.
    """
    ends = relationships[["source_entity_id", "target_entity_id"]]
    columns = {
        # The direction does not matter: the smaller id always comes first.
        "a": ends.min(axis=1),
        "b": ends.max(axis=1),
        "weight": relationships["weight"],
    }
    pairs = pd.DataFrame(columns)
    is_loop = pairs["a"] == pairs["b"]
    has_weight = pairs["weight"] > 0
    # A sum of floats depends on the order of its terms, so they are sorted, too.
    edges = pairs[has_weight & ~is_loop].sort_values(["a", "b", "weight"])
    total_weights = edges.groupby(["a", "b"], sort=True)["weight"].sum().reset_index()
    return list(total_weights.itertuples(index=False, name=None))


def node2vec(
    edges: list[tuple[str, str, float]], params: Node2VecParams
) -> tuple[list[str], np.ndarray]:
    """Return the sorted ids of the nodes, and a matrix with a row for each.

    Raises SettingsError if gensim is not installed.
    """
    try:
        from gensim.models import Word2Vec  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise SettingsError(
            f"embed_graph: gensim is not installed; {install_extra('analytics')}"
        ) from error
    graph = _build_graph(edges)
    if not graph:
        return [], np.zeros((0, params.dimensions), dtype=np.float32)
    model = Word2Vec(
        list(_walk_graph(graph, params)), vector_size=params.dimensions, window=params.window,
        epochs=params.iterations,
        min_count=0, sg=1, workers=1, seed=params.seed,
    )  # fmt: skip
    ids = sorted(graph)
    return ids, np.asarray(model.wv[ids], dtype=np.float32)


@dataclass(frozen=True)
class _Neighbours:
    """The neighbours of a node. ``reach[i]`` is the sum of the weights up to the i-th neighbour."""

    ids: list[str]
    reach: list[float]
    known: frozenset[str]

    def pick(self, random: random.Random) -> str:
        """Return a random neighbour, with a probability in proportion to its weight."""
        total = self.reach[-1]
        position = bisect(self.reach, random.random() * total)
        # Rounding may give the total itself, behind the last neighbour.
        return self.ids[min(position, len(self.ids) - 1)]


def _build_graph(edges: list[tuple[str, str, float]]) -> Mapping[str, _Neighbours]:
    """Return the neighbours of each node; edges count in both directions."""
    weights: dict[str, dict[str, float]] = {}
    for one, other, weight in edges:
        weights.setdefault(one, {})[other] = weight
        weights.setdefault(other, {})[one] = weight
    graph = {}
    for id, near in sorted(weights.items()):
        reach = list(accumulate(near.values()))
        graph[id] = _Neighbours(list(near), reach, frozenset(near))
    return graph


def _walk_graph(graph: Mapping[str, _Neighbours], params: Node2VecParams) -> Iterator[list[str]]:
    """Yield the random walks; in each round one begins at every node, in random order."""
    draws = random.Random(params.seed)  # noqa: S311 - no secret depends on it
    starts = sorted(graph)
    for _ in range(params.walks):
        draws.shuffle(starts)
        for start in starts:
            yield _walk(graph, start, params, draws)


def _walk(
    graph: Mapping[str, _Neighbours], start: str, params: Node2VecParams, draws: random.Random
) -> list[str]:
    """Return a random walk of ``walk_length`` nodes."""
    walk = [start, graph[start].pick(draws)]
    back_bias = 1 / params.return_parameter
    out_bias = 1 / params.in_out_parameter
    greatest_bias = max(back_bias, out_bias, 1.0)
    while len(walk) < params.walk_length:
        previous, current = walk[-2], walk[-1]
        # Rejection sampling: a neighbour is drawn by weight, then accepted in proportion to bias.
        while True:
            candidate = graph[current].pick(draws)
            if candidate == previous:
                bias = back_bias
            elif candidate in graph[previous].known:
                bias = 1.0
            else:
                bias = out_bias
            # No number is drawn where it cannot matter.
            if bias == greatest_bias or draws.random() * greatest_bias < bias:
                break
        walk.append(candidate)
    return walk
