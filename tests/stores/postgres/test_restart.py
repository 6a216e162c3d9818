"""A PostgreSQL that is killed, and comes back, while it is loaded and read."""

import threading
from collections.abc import Iterator

import pytest

from pipeline.load.loader import LoadOptions, load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.connection import read_together
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import GraphStore, VectorStore
from pipeline.text.ids import entity_id
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.servers.postgres_server import OwnServer, server_folder

NAMES = {f"Person {number}": "person" for number in range(40)}
MAX_TYPES = 100


@pytest.fixture
def server() -> Iterator[OwnServer]:
    with server_folder() as folder:
        yield OwnServer(folder)


@pytest.fixture
def store(server: OwnServer) -> Iterator[PostgresStore]:
    store = PostgresStore(server.start(), "restarted")
    yield store
    store.close()


def version(name: str, snapshots: SnapshotStore) -> Manifest:
    texts = {f"{number}.txt": f"{name} text {number}" for number in range(30)}
    links = [(one, other, [name]) for one, other in zip(NAMES, list(NAMES)[1:], strict=False)]
    return save(corpus(texts, dict.fromkeys(NAMES, name), links), snapshots)


def keywords(vectors: VectorStore, graph: GraphStore) -> set[str]:
    found = graph.relationships_of([entity_id(name) for name in NAMES], 999)
    return {word for link in found for word in link.keywords}


def test_loads_and_queries_outlive_a_restart(
    server: OwnServer, store: PostgresStore, snapshots: SnapshotStore
):
    graph = PostgresGraph(store)
    old, new = version("old", snapshots), version("new", snapshots)
    load(old, snapshots, [store], MAX_TYPES)

    server.kill()
    server.start()
    assert read_together(store, graph, keywords) == ({"old"}, ())

    asked = []

    def cut_off(vectors: VectorStore, graph: GraphStore) -> set[str]:
        """The server goes in the middle of the first reading, and is back a little later."""
        asked.append(graph.entities([entity_id(name) for name in NAMES]))
        if len(asked) == 1:
            server.kill()
            threading.Timer(1, server.start).start()
        return keywords(vectors, graph)

    assert read_together(store, graph, cut_off) == ({"old"}, ())
    assert len(asked) == 2

    told, met = [], []

    def restart(name: str, part: str, done: int, rows: int) -> None:
        told.append((part, done))
        if part == "edges" and not met:
            server.kill()
            server.start()
            met.append(read_together(store, graph, keywords))

    load(new, snapshots, [store], MAX_TYPES, LoadOptions(), restart)
    assert met == [({"old"}, ())]
    assert told.count(told[0]) == 2
    assert read_together(store, graph, keywords) == ({"new"}, ())
    assert verify(new, snapshots, [store], MAX_TYPES).agrees
