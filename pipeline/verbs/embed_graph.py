"""embed_graph: a vector for each entity, from its place in the graph."""

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
    """``walks`` of ``walk_length`` nodes begin at each node; ``window``: how far apart two nodes of
    a walk count as near; ``return_parameter`` and ``in_out_parameter``: p and q of the paper."""

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
    """``id``: of an entity with a relationship; ``vector``: float32. Needs the extra "analytics":
    raises SettingsError without it.

    Grover, Leskovec 2016, "node2vec: Scalable Feature Learning for Networks": walks that prefer to
    return (p) or to leave (q), read by word2vec's skip-gram (gensim, in one thread: one seed gives
    one result). The graph is read as undirected, weights of both directions added.
    """
    ids, vectors = node2vec(undirected(relationships), params)
    return pd.DataFrame({"id": ids, "vector": vector_column(vectors)}, columns=EMBEDDINGS.columns)


def undirected(relationships: pd.DataFrame) -> list[tuple[str, str, float]]:
    """(one end, the other, weight), sorted, loops left out; a weight that is none counts as
    nothing."""
    ends = relationships[["source_entity_id", "target_entity_id"]]
    pairs = pd.DataFrame(
        {"a": ends.min(axis=1), "b": ends.max(axis=1), "weight": relationships["weight"]}
    )
    pairs = pairs[(pairs["a"] != pairs["b"]) & (pairs["weight"] > 0)].sort_values(
        ["a", "b", "weight"]
    )
    summed = pairs.groupby(["a", "b"], sort=True)["weight"].sum().reset_index()
    return list(summed.itertuples(index=False, name=None))


def node2vec(
    edges: list[tuple[str, str, float]], params: Node2VecParams
) -> tuple[list[str], np.ndarray]:
    """The nodes, sorted, and a row for each. Raises SettingsError without gensim."""
    try:
        from gensim.models import Word2Vec  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise SettingsError(
            f"embed_graph: gensim is not installed; {install_extra('analytics')}"
        ) from error
    graph = _neighbours(edges)
    if not graph:
        return [], np.zeros((0, params.dimensions), dtype=np.float32)
    model = Word2Vec(
        list(_walks(graph, params)), vector_size=params.dimensions, window=params.window,
        epochs=params.iterations,
        min_count=0, sg=1, workers=1, seed=params.seed,
    )  # fmt: skip
    ids = sorted(graph)
    return ids, np.asarray(model.wv[ids], dtype=np.float32)


@dataclass(frozen=True)
class _Neighbours:
    """``reach[i]``: the weights of ``ids`` up to the i-th added up."""

    ids: list[str]
    reach: list[float]
    known: frozenset[str]

    def pick(self, random: random.Random) -> str:
        return self.ids[
            min(bisect(self.reach, random.random() * self.reach[-1]), len(self.ids) - 1)
        ]


def _neighbours(edges: list[tuple[str, str, float]]) -> Mapping[str, _Neighbours]:
    weights: dict[str, dict[str, float]] = {}
    for one, other, weight in edges:
        weights.setdefault(one, {})[other] = weight
        weights.setdefault(other, {})[one] = weight
    return {
        id: _Neighbours(list(near), list(accumulate(near.values())), frozenset(near))
        for id, near in sorted(weights.items())
    }


def _walks(graph: Mapping[str, _Neighbours], params: Node2VecParams) -> Iterator[list[str]]:
    draws = random.Random(params.seed)  # noqa: S311 - a seed fixes it
    starts = sorted(graph)
    for _ in range(params.walks):
        draws.shuffle(starts)
        for start in starts:
            yield _walk(graph, start, params, draws)


def _walk(
    graph: Mapping[str, _Neighbours], start: str, params: Node2VecParams, draws: random.Random
) -> list[str]:
    walk = [start, graph[start].pick(draws)]
    back, out = 1 / params.return_parameter, 1 / params.in_out_parameter
    most = max(back, out, 1.0)
    while len(walk) < params.walk_length:
        before, here = walk[-2], walk[-1]
        while True:  # drawn by weight, kept as often as the paper's bias says
            there = graph[here].pick(draws)
            bias = back if there == before else 1.0 if there in graph[before].known else out
            if bias == most or draws.random() * most < bias:
                break
        walk.append(there)
    return walk
