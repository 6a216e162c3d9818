"""The layout in Neo4j that users of the data expect, and what only Neo4j can do wrong."""

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import LiteralString

import pytest

from pipeline.errors import StoreError
from pipeline.load.row_hashes import diff, with_hashes
from pipeline.stores.neo4j import connection
from pipeline.stores.neo4j.cypher import DELETE_EDGES, RELATIONSHIPS
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.text.ids import entity_id
from tests.servers.neo4j_server import Neo4jAddress
from tests.stores.graphs import LIVE, Graph, LoadableGraph, edge, graph, node, random_graph

OpenStore = Callable[..., Neo4jStore]


def rows(store: Neo4jStore, query: LiteralString, **parameters: object) -> list[list]:
    found = store.driver.execute_query(
        query, {"workspace": store.workspace, **parameters}, database_=store.database
    )
    return [record.values() for record in found.records]


def load(store: Neo4jStore, nodes: list[tuple], edges: list[tuple]) -> dict[str, dict[str, int]]:
    return LoadableGraph(store, store).load(graph(nodes, edges))


def test_nodes_carry_the_documented_labels_and_properties(neo4j: OpenStore):
    store = neo4j()
    load(store, [node("Ada", "PERSON", ["chunk-1", "chunk-2"])], [])
    [[labels, properties]] = rows(
        store,
        "MATCH (n {workspace: $workspace}) WHERE n.id IS NOT NULL RETURN labels(n), properties(n)",
    )
    assert set(labels) == {"Entity", "PERSON"}
    assert len(properties.pop("row_hash")) == 32
    assert properties == {
        "id": entity_id("Ada"),
        "displayName": "Ada",
        "name_key": "Ada",
        "description": "about Ada",
        "entity_type": "PERSON",
        "source_id": ["chunk-1", "chunk-2"],
        "source_count": 2,
        "degree": 1,
        "workspace": store.workspace,
    }


def test_properties_of_entities_have_a_prefix_and_go_with_their_values(neo4j: OpenStore):
    """A list may hold what texts contradict each other about; names may be of any form."""
    store = neo4j()
    said = {
        "name": "Ada L.", "id": 7, "height": 1.5, "founded": ["1850", "1850-05"], "a `b` ] c": "x",
        "tons": [1.0, 2.5],
    }  # fmt: skip
    cell = json.dumps(said, sort_keys=True)
    found = "MATCH (n:Entity {workspace: $workspace}) RETURN n.displayName, properties(n)"

    def load_cells(*cells: str) -> dict[str, int]:
        nodes = graph([node("Ada"), node("Bea")]).nodes.assign(properties=list(cells))
        edges = graph([]).edges
        return LoadableGraph(store, store).load(Graph(nodes, edges))["nodes"]

    def properties() -> dict[str, dict[str, object]]:
        own = {}
        for name, stored in rows(store, found):
            names = [key for key in stored if key.startswith("prop_")]
            own[name] = {key.removeprefix("prop_"): stored[key] for key in names}
            assert stored["displayName"] == name
        return own

    load_cells(cell, "")
    assert properties() == {"Ada": said, "Bea": {}}
    [read] = store.rows("sourced_nodes")
    assert dict(zip(read["display_name"], read["properties"], strict=True)) == {
        "Ada": cell, "Bea": "",
    }  # fmt: skip
    assert read["row_hash"].notna().all()
    expected = with_hashes(store.as_stored(read.drop(columns=["row_hash", "content_hash"])))
    assert expected["row_hash"].tolist() == read["content_hash"].tolist()
    assert load_cells("", '{"founded": "1850"}')["updated"] == 2
    assert properties() == {"Ada": {}, "Bea": {"founded": "1850"}}


def test_relationships_carry_the_documented_type_and_properties(neo4j: OpenStore):
    store = neo4j()
    link = edge("Ada", "Babbage", "WORKED_WITH", weight=3.5)
    load(store, [node("Ada"), node("Babbage")], [link])
    [[source, type, properties, target]] = rows(
        store,
        "MATCH (a)-[r {workspace: $workspace}]->(b) RETURN a.displayName, type(r), properties(r),"
        " b.displayName",
    )
    assert (source, type, target) == ("Ada", "WORKED_WITH", "Babbage")
    assert len(properties.pop("row_hash")) == 32
    assert properties == {
        "id": link[0],
        "description": "Ada and Babbage",
        "keywords": ["worked_with"],
        "weight": 3.5,
        "source_id": ["c1"],
        "source_count": 1,
        "workspace": store.workspace,
    }


def test_a_changed_type_replaces_the_old_one(neo4j: OpenStore):
    store = neo4j()
    load(store, [node("A", "PERSON"), node("B")], [edge("A", "B", "KNOWS")])
    counts = load(store, [node("A", "PLACE"), node("B")], [edge("A", "B", "LEFT")])
    assert counts["nodes"]["updated"] == counts["edges"]["updated"] == 1
    [[labels]] = rows(
        store,
        "MATCH (n:Entity {workspace: $workspace, id: $id}) RETURN labels(n)",
        id=entity_id("A"),
    )
    assert set(labels) == {"Entity", "PLACE"}
    assert rows(store, "MATCH ()-[r {workspace: $workspace}]->() RETURN type(r)") == [["LEFT"]]


def test_only_its_own_nodes_are_in_a_workspace(neo4j: OpenStore):
    """There are as many nodes as rows, and besides the live node and the lock."""
    store = neo4j()
    stored = random_graph(0)
    LoadableGraph(store, store).load(random_graph(0, content=1))
    LoadableGraph(store, store).load(stored)
    counts = dict(
        rows(
            store,
            "MATCH (n {workspace: $workspace}) "
            "RETURN CASE WHEN n:Entity THEN 'Entity' ELSE head(labels(n)) END, count(*)",
        )
    )
    assert counts == {"Entity": len(stored.nodes), "GraphmillLive": 1, "GraphmillLock": 1}
    [[relationships]] = rows(store, "MATCH ()-[r {workspace: $workspace}]->() RETURN count(r)")
    assert relationships == len(stored.edges)


def test_labels_properties_and_relationships_that_users_add_are_kept(neo4j: OpenStore):
    store = neo4j()
    nodes, edges = [node("A"), node("B")], [edge("A", "B")]
    load(store, nodes, edges)
    rows(
        store,
        "MATCH (a:Entity {workspace: $workspace, id: $a}), (b:Entity {workspace: $workspace, id:"
        " $b}) SET a:Favourite, a.colour = 'blue' CREATE (a)-[:NOTE {text: 'x'}]->(b)",
        a=entity_id("A"),
        b=entity_id("B"),
    )
    load(store, [node("A", description="changed"), node("B")], edges)
    assert len(store.relationships_of([entity_id("A")], 10)) == 1
    [[labels, colour, notes]] = rows(
        store,
        "MATCH (a:Entity {workspace: $workspace, id: $a})-[note:NOTE]->() RETURN labels(a),"
        " a.colour, count(note)",
        a=entity_id("A"),
    )
    assert "Favourite" in labels
    assert (colour, notes) == ("blue", 1)


def test_rows_that_users_delete_come_back_with_the_next_load(neo4j: OpenStore):
    store = neo4j()
    nodes, edges = [node("A"), node("B"), node("C")], [edge("A", "B"), edge("B", "C")]
    load(store, nodes, edges)
    rows(
        store,
        "MATCH (n:Entity {workspace: $workspace, id: $id}) DETACH DELETE n",
        id=entity_id("A"),
    )
    counts = load(store, nodes, edges)
    assert counts["nodes"]["inserted"] == counts["edges"]["inserted"] == 1
    assert len(store.relationships([link[0] for link in edges])) == 2


def test_relationships_whose_id_names_no_ends_are_deleted_by_the_next_load(neo4j: OpenStore):
    store = neo4j()
    nodes, link = [node("A"), node("B")], edge("A", "B")
    load(store, nodes, [link])
    rows(
        store,
        "MATCH (a:Entity {workspace: $workspace, id: $a}), (b:Entity {workspace: $workspace, id:"
        " $b}) CREATE (a)-[:KNOWS {workspace: $workspace, id: 'rel-stray'}]->(b)",
        a=entity_id("A"),
        b=entity_id("B"),
    )
    assert load(store, nodes, [link])["edges"]["deleted"] == 1
    assert rows(store, "MATCH ()-[r {workspace: $workspace}]->() RETURN r.id") == [[link[0]]]


def test_an_edge_without_its_node_is_an_error(neo4j: OpenStore):
    store = neo4j()
    with pytest.raises(StoreError, match="relationships with an end that is no node: 1;"):
        load(store, [node("A")], [edge("A", "B")])
    assert store.live() is None


def test_a_load_broken_between_batches_is_finished_by_the_next(neo4j: OpenStore):
    store = neo4j(batch_rows=5, atomic_rows=5)
    stored = random_graph(0)
    with pytest.raises(RuntimeError, match="pulled"):
        _load_ten_nodes(store, stored)
    assert store.live() is None
    counts = LoadableGraph(store, store).load(stored)
    assert counts["nodes"] == {
        "inserted": len(stored.nodes) - 10, "updated": 0, "deleted": 0, "unchanged": 10
    }  # fmt: skip
    assert store.live() == LIVE


def _load_ten_nodes(store: Neo4jStore, stored: Graph) -> None:
    with store.writing(LIVE) as writer:
        writer.apply("sourced_nodes", diff(with_hashes(stored.nodes.head(10)), {}))
        raise RuntimeError("plug pulled")


@pytest.mark.parametrize("query", [RELATIONSHIPS, DELETE_EDGES])
def test_a_relationship_is_found_without_a_scan(neo4j: OpenStore, query: LiteralString):
    """The plan scans neither all nodes nor all relationships nor all neighbours of a hub."""
    store = neo4j()
    LoadableGraph(store, store).load(random_graph(0))
    with store.driver.session(database=store.database) as session:
        result = session.run("EXPLAIN " + query, workspace=store.workspace, rows=[])
        operators = set(_operators(result.consume().plan))
    assert "Expand(Into)" in operators
    assert operators & {"NodeUniqueIndexSeek", "NodeUniqueIndexSeek(Locking)"}
    assert not [name for name in operators if "Scan" in name or "Expand(All)" in name]


def _operators(plan: dict | None) -> Iterator[str]:
    assert plan
    yield plan["operatorType"].split("@")[0]
    for child in plan.get("children", []):
        yield from _operators(child)


def test_the_password_is_never_shown(neo4j_address: Neo4jAddress):
    address = neo4j_address
    store = Neo4jStore(address.uri, address.user, "not-the-password", address.database)
    with pytest.raises(StoreError, match=r"stores\.neo4j\.user, stores\.neo4j\.password") as raised:
        store.live()
    assert "not-the-password" not in str(raised.value) + repr(store)


def test_a_database_that_does_not_exist_is_a_store_error(neo4j: OpenStore):
    store = replace(neo4j(), database="nosuchdatabase")
    try:
        with pytest.raises(StoreError, match="'nosuchdatabase'"):
            store.live()
    finally:
        store.close()


def test_an_address_where_nothing_listens_is_a_store_error():
    with _bound_port() as port:
        assert _seconds_to_fail(f"bolt://127.0.0.1:{port}") < 5


def test_an_address_that_never_answers_is_a_store_error(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert _seconds_to_fail(f"bolt://127.0.0.1:{port}") < 15


@pytest.mark.parametrize(
    "uri", ["http://localhost:7687", "bolt://user:secret@localhost:7687", "", "localhost"]
)
def test_an_invalid_address_is_a_store_error(uri: str):
    with pytest.raises(StoreError, match=r"stores\.neo4j\.uri") as raised:
        Neo4jStore(uri, "neo4j", "password").live()
    assert "secret" not in str(raised.value)


def _seconds_to_fail(uri: str) -> float:
    started = time.monotonic()
    for attempt in (lambda store: store.live(), lambda store: store.entities(["a"]), _write):
        store = Neo4jStore(uri, "neo4j", "password")
        with pytest.raises(
            StoreError, match=r"stores\.neo4j\.uri: bolt://127.* does not answer .*make neo4j"
        ):
            attempt(store)
        if time.monotonic() - started > 3:
            break
    return time.monotonic() - started


def _write(store: Neo4jStore) -> None:
    with store.writing(LIVE):
        pass


@contextmanager
def _bound_port() -> Iterator[int]:
    """A port on which nothing listens, and which nobody else can take."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
