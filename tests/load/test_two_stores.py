"""A workspace in two databases: loads of it queue for both, and one that was cut off between them
is finished."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from pipeline.errors import OtherOwnerError, UsageError
from pipeline.load.loader import LoadOptions, Owner, load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.connection import read_together
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.neo4j.writer import Neo4jWriter
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.schema import EDGES, NODES
from pipeline.stores.postgres.store import PostgresStore
from pipeline.stores.reads import GraphStore, VectorStore
from pipeline.text.ids import entity_id
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.records import column

BEFORE = corpus(
    {"a.txt": "Ada met Babbage."},
    {"Ada": "person", "Babbage": "person"},
    [("Ada", "Babbage", ["met"])],
)
AFTER = corpus(
    {"a.txt": "Ada met Cayley."},
    {"Ada": "person", "Cayley": "person"},
    [("Ada", "Cayley", ["met"])],
)
MAX_TYPES = 100
DIFFER = "the two stores show different versions: the last load did not end; run 'graphmill load'"

OpenPostgres = Callable[..., PostgresStore]
OpenNeo4j = Callable[..., Neo4jStore]


@pytest.fixture
def vectors(postgres: OpenPostgres) -> Iterator[PostgresStore]:
    """Without the graph."""
    store = replace(postgres(), with_graph=False)
    yield store
    store.close()


class Loads:
    """Loads in threads, and what became of each."""

    def __init__(self) -> None:
        self.ended: dict[str, Exception | None] = {}
        self.threads: list[threading.Thread] = []

    def start(self, name: str, *arguments: Any) -> None:
        def run() -> None:
            try:
                load(*arguments)
                self.ended[name] = None
            except Exception as error:
                self.ended[name] = error

        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(60)


class Waiting(Neo4jStore):
    """Tells when a load comes to it, and lets it go on when it is told to."""

    reached, go_on = threading.Event(), threading.Event()

    @contextmanager
    def writing(self, *arguments: Any) -> Iterator[Neo4jWriter]:
        self.reached.set()
        assert self.go_on.wait(60)
        with super().writing(*arguments) as writer:
            yield writer


@pytest.fixture
def waiting(neo4j: OpenNeo4j) -> Iterator[Waiting]:
    found = neo4j()
    Waiting.reached.clear()
    Waiting.go_on.clear()
    store = Waiting(found.uri, found.user, found.password, found.database, found.workspace)
    yield store
    store.close()


def test_a_load_waits_until_both_stores_show_the_one_before(
    vectors: PostgresStore, neo4j: OpenNeo4j, waiting: Waiting, snapshots: SnapshotStore
):
    graph, loads = neo4j(), Loads()
    before, after = save(BEFORE, snapshots), save(AFTER, snapshots)
    loads.start("first", before, snapshots, [vectors, waiting], MAX_TYPES)
    assert waiting.reached.wait(60)
    loads.start("second", after, snapshots, [vectors, graph], MAX_TYPES)
    loads.threads[1].join(1)
    assert loads.threads[1].is_alive()
    waiting.go_on.set()
    loads.join()
    assert loads.ended == {"first": None, "second": None}
    assert verify(after, snapshots, [vectors, graph], MAX_TYPES).agrees


def test_of_two_first_loads_the_later_is_refused(
    vectors: PostgresStore, neo4j: OpenNeo4j, waiting: Waiting, snapshots: SnapshotStore
):
    loads, other = Loads(), replace(save(AFTER, snapshots), workflow="fast")
    loads.start("first", save(BEFORE, snapshots), snapshots, [vectors, waiting], MAX_TYPES)
    assert waiting.reached.wait(60)
    loads.start("second", other, snapshots, [vectors, neo4j()], MAX_TYPES)
    waiting.go_on.set()
    loads.join()
    assert loads.ended["first"] is None
    assert isinstance(loads.ended["second"], UsageError)
    live = vectors.live()
    assert live
    assert live.workflow == "index"


@pytest.mark.parametrize("option", ["re_embed", "replace"])
def test_a_load_cut_off_between_the_stores_is_finished_by_a_plain_load(
    vectors: PostgresStore,
    neo4j: OpenNeo4j,
    snapshots: SnapshotStore,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
):
    graph = neo4j()
    stores = [vectors, graph]
    load(save(BEFORE, snapshots), snapshots, stores, MAX_TYPES)
    new = (
        save(BEFORE, snapshots, model="n")
        if option == "re_embed"
        else _of_another_workflow(snapshots)
    )
    with pytest.raises(UsageError):
        load(new, snapshots, stores, MAX_TYPES)
    with monkeypatch.context() as patched:
        patched.setattr(Neo4jStore, "writing", _killed)
        with pytest.raises(RuntimeError, match="killed"):
            load(new, snapshots, stores, MAX_TYPES, LoadOptions(**{option: True}))
    assert not verify(new, snapshots, stores, MAX_TYPES).agrees
    load(new, snapshots, stores, MAX_TYPES)
    assert verify(new, snapshots, stores, MAX_TYPES).agrees


def _of_another_workflow(snapshots: SnapshotStore) -> Manifest:
    return replace(save(AFTER, snapshots), workflow="fast")


def _killed(store: Neo4jStore, *arguments: Any) -> None:
    raise RuntimeError("killed")


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("gone", ["dropped", "of an earlier schema"])
def test_one_store_can_be_verified_when_the_other_cannot(
    vectors: PostgresStore, neo4j: OpenNeo4j, snapshots: SnapshotStore, gone: str, quick: bool
):
    manifest, stores = save(BEFORE, snapshots), [vectors, neo4j()]
    load(manifest, snapshots, stores, MAX_TYPES)
    if gone == "dropped":
        vectors.drop()
    else:
        live = vectors.live()
        assert live
        with vectors.writing(replace(live, schema_version=1)) as writer:
            writer.publish()
    found = verify(manifest, snapshots, stores, MAX_TYPES, quick)
    assert found.problems[0].startswith("postgres: ")
    assert {check.table for check in found.tables if not check.differences} == {
        "nodes",
        "relationships",
        "communities",
    }
    load(manifest, snapshots, stores, MAX_TYPES)
    assert verify(manifest, snapshots, stores, MAX_TYPES, quick).agrees


def test_a_graph_that_moved_to_another_store_is_not_read_in_the_old_one(
    postgres: OpenPostgres, vectors: PostgresStore, neo4j: OpenNeo4j, snapshots: SnapshotStore
):
    whole, graph = postgres(), neo4j()
    before, after = save(BEFORE, snapshots), save(AFTER, snapshots)

    def names(store: VectorStore, graph: GraphStore) -> list[str]:
        return column(graph.entities([entity_id(name) for name in ("Babbage", "Cayley")]), "name")

    load(before, snapshots, [whole], MAX_TYPES)
    assert read_together(whole, PostgresGraph(whole), names) == (["Babbage"], ())
    assert read_together(vectors, graph, names) == ([], (DIFFER,))
    load(after, snapshots, [vectors, graph], MAX_TYPES)
    with whole.connection() as connection:
        for table in (NODES, EDGES):
            assert not connection.execute(
                table.select().where(table.c.workspace == whole.workspace)
            ).all()
    assert read_together(vectors, graph, names) == (["Cayley"], ())
    assert read_together(whole, PostgresGraph(whole), names) == ([], (DIFFER,))
    load(after, snapshots, [whole], MAX_TYPES)
    assert read_together(whole, PostgresGraph(whole), names) == (["Cayley"], ())
    assert verify(after, snapshots, [whole], MAX_TYPES).agrees


def test_stores_of_two_owners_are_not_read_together(
    vectors: PostgresStore, neo4j: OpenNeo4j, snapshots: SnapshotStore
):
    graph = neo4j()
    manifest = save(BEFORE, snapshots)
    for store, owner in ((vectors, "one"), (graph, "other")):
        load(manifest, snapshots, [store], MAX_TYPES, owner=Owner(owner))
    with pytest.raises(
        OtherOwnerError, match="its vectors belong to owner one, its graph to owner other; "
    ):
        read_together(vectors, graph, lambda *_: pytest.fail("read"))
