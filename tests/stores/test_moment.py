"""A reader sees one version, whole, however often the stores are loaded meanwhile."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.load.loader import LoadOptions, load
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.connection import read_together
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import GraphStore, VectorStore
from pipeline.text.ids import entity_id
from tests.load.tables import corpus, save
from tests.records import column
from tests.sizes import size
from tests.stored import nearest

NAMES = {f"Person {number}": "person" for number in range(40)}
CHAIN = list(zip(NAMES, list(NAMES)[1:], strict=False))
MODELS = {"old": "m", "new": "n"}
DIMENSIONS = {"old": 4, "new": 6}


def version(name: str, snapshots: SnapshotStore):
    """Every text, type and keyword says which version it is of, and each has a model of its own."""
    tables = corpus(
        {f"{number}.txt": f"{name} text {number}" for number in range(30)},
        dict.fromkeys(NAMES, name),
        [(source, target, [name]) for source, target in CHAIN],
        DIMENSIONS[name],
    )
    tables["entities"] = tables["entities"].assign(description=name)
    return save(tables, snapshots, MODELS[name])


def everything(vectors: VectorStore, graph: GraphStore) -> set[str]:
    """Which versions a reader meets: in what is live, in what is near a vector, in chunks, entities
    and relationships."""
    live = vectors.live()
    assert live
    of_model = {model: name for name, model in MODELS.items()}[live.embedding["model"]]
    near = nearest(vectors, "chunks", np.ones(live.dimensions, np.float32), 99)
    assert len(near) == 30
    chunks = vectors.chunks([id for id, _ in near], np.ones(live.dimensions, np.float32))
    ids = [entity_id(name) for name in NAMES]
    keywords = column(graph.relationships_of(ids, 999), "keywords")
    assert len(keywords) == len(CHAIN)
    return {
        of_model,
        *(chunk.content.split()[0] for chunk in chunks),
        *column(graph.entities(ids), "description"),
        *(word for words in keywords for word in words),
    }


@pytest.mark.parametrize("graph_in", ["postgres", "neo4j"])
def test_a_reader_sees_the_old_or_the_new_version_or_is_warned(
    request: pytest.FixtureRequest,
    postgres: Callable[..., PostgresStore],
    tmp_path: Path,
    graph_in: str,
):
    """With two databases, a read may fall between their commits. Then the versions differ, and a
    warning says so."""
    vectors, snapshots = postgres(), SnapshotStore(tmp_path)
    graph: PostgresGraph | Neo4jStore
    graph = PostgresGraph(vectors) if graph_in == "postgres" else request.getfixturevalue("neo4j")()
    stores = (vectors,) if graph_in == "postgres" else (vectors, graph)
    versions = [version(name, snapshots) for name in ("old", "new")]
    load(versions[0], snapshots, stores, 100)
    over = threading.Event()
    met: list[tuple[set[str], tuple[str, ...]]] = []
    failed: list[Exception] = []

    def read() -> None:
        while not over.is_set():
            try:
                met.append(read_together(vectors, graph, everything))
            except Exception as error:
                failed.append(error)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for turn in range(1, size(3, 7)):
        load(versions[turn % 2], snapshots, stores, 100, LoadOptions(re_embed=True))
    over.set()
    for reader in readers:
        reader.join()
    assert not failed
    whole = [names for names, notes in met if not notes]
    assert {frozenset(names) for names in whole} == {frozenset({"old"}), frozenset({"new"})}
    assert graph_in == "neo4j" or len(whole) == len(met)
