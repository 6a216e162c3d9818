"""How Neo4j is loaded, read whole and dropped."""

import ast
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import LiteralString

import pandas as pd
import pytest
from neo4j.exceptions import ServiceUnavailable, TransientError

from pipeline.errors import LostConnectionError
from pipeline.load.row_hashes import diff, hashes_of, with_hashes
from pipeline.stores.neo4j import cypher
from pipeline.stores.neo4j.rows import NAME_KEY_LENGTH, as_stored, batches, name_key, state_of
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.reads import GraphState
from pipeline.text.ids import entity_id
from tests.records import column
from tests.stores import communities
from tests.stores.graphs import LIVE, Graph, LoadableGraph, edge, graph, node, random_graph

OpenStore = Callable[..., Neo4jStore]
DUPLICATE = """
    MATCH (a:Entity {workspace: $workspace})-[r {workspace: $workspace}]->(b)
    WITH a, r, b ORDER BY r.id LIMIT 3
    CREATE (a)-[copy:$(type(r))]->(b) SET copy = properties(r)
    """
COUNT = "MATCH ()-[r {workspace: $workspace}]->() RETURN count(r)"


def run(store: Neo4jStore, query: LiteralString, **parameters: object) -> list[list]:
    found = store.driver.execute_query(
        query, {"workspace": store.workspace, **parameters}, database_=store.database
    )
    return [record.values() for record in found.records]


def load(store: Neo4jStore, stored: Graph) -> dict[str, dict[str, int]]:
    return LoadableGraph(store, store).load(stored)


def whole(store: Neo4jStore, table: str, like: pd.DataFrame) -> pd.DataFrame:
    found = pd.concat(store.rows(table))
    return found.sort_values("id").reset_index(drop=True)[list(like.columns)]


def assert_stored(store: Neo4jStore, stored: Graph) -> None:
    for table, rows in stored.tables(store).items():
        expected = store.as_stored(with_hashes(rows)).sort_values("id").reset_index(drop=True)
        pd.testing.assert_frame_equal(whole(store, table, expected), expected, check_dtype=False)


def test_loads_that_make_an_index_at_the_same_instant(
    neo4j: OpenStore, monkeypatch: pytest.MonkeyPatch
):
    """IF NOT EXISTS does not see what another transaction is about to make."""
    monkeypatch.setattr(
        cypher, "CONSTRAINTS", ()
    )  # of which each keeps the others back for a while
    stores, together = [neo4j(f"-{number}") for number in range(4)], threading.Barrier(4)
    for store in stores:
        assert store.live() is None
    run(stores[0], "DROP INDEX graphmill_entity_name IF EXISTS")

    def begin(store: Neo4jStore) -> None:
        together.wait()
        with store.alone():
            pass

    with ThreadPoolExecutor(len(stores)) as threads:
        list(threads.map(begin, stores))
    assert [name for [name] in run(stores[0], "SHOW INDEXES YIELD name")].count(
        "graphmill_entity_name"
    ) == 1


def test_counts_of_a_community_that_was_deleted_by_hand_return_with_it(
    neo4j: OpenStore,
):
    """The checksums of relationships and communities are then those of the last count."""
    store = neo4j()
    opened = LoadableGraph(store, store)
    rows, _ = communities.load(opened, 0)
    coarsest = list(rows.loc[rows["parent"] == "", "id"])
    counted = store.between(coarsest)
    run(
        store,
        "MATCH (c:Community {workspace: $workspace, id: $id}) DETACH DELETE c",
        id=coarsest[0],
    )
    assert store.between(coarsest) == []
    communities.load(opened, 0)
    assert store.between(coarsest) == counted != []


# Read whole, listed, dropped.


@pytest.mark.parametrize("atomic_rows", [0, 10_000])
def test_rows_are_read_as_they_were_written(neo4j: OpenStore, atomic_rows: int):
    store, stored = neo4j(atomic_rows=atomic_rows), random_graph(3)
    load(store, stored)
    assert_stored(store, stored)


def test_a_list_of_sources_is_capped_and_counted(neo4j: OpenStore):
    store, units = neo4j(max_source_ids=3), [f"chunk-{number}" for number in range(8)]
    stored = graph(
        [node("A", units=units), node("B", units=units[:3])], [(*edge("A", "B")[:-1], units)]
    )
    load(store, stored)
    assert_stored(store, stored)
    assert column(store.entities([entity_id("A")]), "text_unit_ids") == [units[:3]]
    counts = (
        "MATCH (n:Entity {workspace: $workspace})-[r]->() RETURN n.source_count, r.source_count,"
        " size(r.source_id)"
    )
    assert run(store, counts) == [[8, 8, 3]]
    assert load(store, stored)["nodes"]["unchanged"] == 2
    longer = graph(
        [node("A", units=[*units, "chunk-more"]), node("B", units=units[:3])], [stored.edges.loc[0]]
    )
    assert load(store, longer)["nodes"]["updated"] == 1


def test_workspaces_are_listed_and_dropped_one_by_one(neo4j: OpenStore):
    one, other, stored = neo4j("-one"), neo4j("-other"), random_graph(0)
    for store in (one, other):
        load(store, stored)
    assert {one.workspace, other.workspace} <= set(one.workspaces())
    assert one.workspaces()[other.workspace] == LIVE
    assert one.drop() == {"nodes": len(stored.nodes), "edges": len(stored.edges), "communities": 0}
    assert one.live() is None
    assert one.workspaces().get(one.workspace) is None
    assert run(one, "MATCH (n {workspace: $workspace}) RETURN labels(n)") == [[["GraphmillLock"]]]
    assert_stored(other, stored)
    assert one.drop() == {"nodes": 0, "edges": 0, "communities": 0}
    load(one, stored)
    assert_stored(one, stored)


def test_a_node_that_has_lost_its_label_is_dropped_too(neo4j: OpenStore):
    store = neo4j()
    load(store, random_graph(0))
    run(store, "MATCH (n:Entity {workspace: $workspace}) WITH n LIMIT 1 REMOVE n:Entity")
    run(store, "CREATE (:Somebodys {workspace: $workspace})")
    store.drop()
    left = run(
        store, "MATCH (n {workspace: $workspace}) RETURN labels(n)[0] AS label ORDER BY label"
    )
    assert left == [["GraphmillLock"], ["Somebodys"]]


# Names.


def test_a_name_is_looked_up_by_index(neo4j: OpenStore):
    store = neo4j()
    names = ["Ada", "x" * 10_000 + "1", "x" * 10_000 + "2"]
    load(store, graph([node(name) for name in names]))
    lookup = "MATCH (n:Entity {workspace: $workspace, name_key: $key}) RETURN n.displayName"
    for name in names:
        assert len(name_key(name)) <= NAME_KEY_LENGTH
        assert run(store, lookup, key=name_key(name)) == [[name]]
    explained = store.driver.execute_query(
        "EXPLAIN MATCH (n:Entity {workspace: $workspace, name_key: $key}) RETURN n.displayName",
        {"workspace": store.workspace, "key": ""},
        database_=store.database,
    )
    assert "RANGE INDEX n:Entity(workspace, name_key)" in str(explained.summary.plan)


# Readers.


def test_a_small_load_is_visible_at_its_end_only(neo4j: OpenStore):
    store = neo4j(atomic_rows=1000)
    before, after = random_graph(0), random_graph(0, content=1)
    load(store, before)
    with store.writing(replace(LIVE, version="version 2")) as writer:
        for table, rows in after.tables(store).items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()
        assert store.shown() == GraphState("version 1", loading=True)
        assert_stored(store, before)
    assert store.shown() == GraphState("version 2", loading=False)
    assert_stored(store, after)


def test_a_large_load_says_that_it_is_under_way(neo4j: OpenStore):
    store, stored = neo4j(atomic_rows=10), random_graph(0)
    assert store.shown() == GraphState("", loading=False)
    told = []

    def note(table: str, done: int, rows: int) -> None:
        told.append((table, done, rows))
        assert store.shown() == GraphState("", loading=True)

    with store.writing(LIVE, note) as writer:
        for table, rows in stored.tables(store).items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        writer.publish()
        assert store.live() is None
    assert store.shown() == GraphState(LIVE.version, loading=False)
    assert [entry for entry in told if entry[1] == entry[2]] == [
        (table, len(rows), len(rows)) for table, rows in stored.tables(store).items()
    ]


def test_a_broken_large_load_stays_under_way_until_the_next(neo4j: OpenStore):
    store = neo4j(atomic_rows=10)
    load(store, random_graph(0))
    with pytest.raises(RuntimeError, match="pulled"):
        _break(store, random_graph(0, content=1))
    assert store.shown() == GraphState(LIVE.version, loading=True)
    assert load(store, random_graph(0))["nodes"]["updated"]
    assert store.shown() == GraphState(LIVE.version, loading=False)


def _break(store: Neo4jStore, stored: Graph) -> None:
    with store.writing(LIVE) as writer:
        writer.apply(
            "sourced_nodes", diff(with_hashes(stored.nodes), writer.hashes("sourced_nodes"))
        )
        raise RuntimeError("plug pulled")


# What a lost transaction leaves.


@pytest.mark.parametrize("atomic_rows", [0, 10_000])
def test_relationships_that_are_there_twice_lose_their_copies(neo4j: OpenStore, atomic_rows: int):
    store, stored = neo4j(atomic_rows=atomic_rows), random_graph(0)
    load(store, stored)
    run(store, DUPLICATE)
    assert run(store, COUNT) == [[len(stored.edges) + 3]]
    load(store, stored)
    assert run(store, COUNT) == [[len(stored.edges)]]
    assert_stored(store, stored)
    assert store.table_states()["sourced_edges"].rows == len(stored.edges)


def test_a_load_that_finds_its_rows_changed_asks_for_another(neo4j: OpenStore):
    store, stored = neo4j(atomic_rows=0), random_graph(0)
    load(store, stored)
    with pytest.raises(LostConnectionError, match="load again"):
        _meddle(store, stored)
    load(store, stored)
    assert_stored(store, stored)


def _meddle(store: Neo4jStore, stored: Graph) -> None:
    with store.writing(LIVE) as writer:
        for table, rows in stored.tables(store).items():
            writer.apply(table, diff(with_hashes(rows), writer.hashes(table)))
        run(
            store,
            "MATCH (n:Entity {workspace: $workspace, id: $id}) DETACH DELETE n",
            id=stored.nodes["id"][0],
        )
        writer.publish()


@pytest.mark.parametrize("error", [ServiceUnavailable("gone"), TransientError("busy")])
def test_errors_that_another_try_may_cure_are_lost_connections(neo4j: OpenStore, error: Exception):
    with pytest.raises(LostConnectionError), neo4j().writing(LIVE):
        raise error


def test_states_are_computed_alike_by_the_server_and_by_the_package(neo4j: OpenStore):
    store, stored = neo4j(), random_graph(1)
    load(store, stored)
    for table, rows in stored.tables(store).items():
        assert store.table_states()[table] == state_of(hashes_of(with_hashes(rows)))


# How rows are cut and shortened.


@pytest.mark.parametrize(
    ("sizes", "cut"),
    [
        ([], []),
        ([1, 1, 1, 1], [3, 1]),
        ([9, 9, 1], [1, 2]),
        ([99, 1, 99], [1, 1, 1]),
        ([5, 5, 5], [2, 1]),
    ],
)
def test_batches_keep_both_limits(sizes: Sequence[int], cut: Sequence[int]):
    rows = pd.DataFrame({"id": range(len(sizes))})
    found = list(batches(rows, pd.Series(sizes, dtype=int), 3, 10))
    assert [len(batch) for batch in found] == list(cut)
    assert [id for batch in found for id in batch["id"]] == rows["id"].tolist()


def test_a_row_is_stored_with_capped_sources_and_their_count():
    rows = pd.DataFrame({"id": ["a", "b"], "source_id": [["1", "2", "3"], []]}, index=[4, 7])
    edges = {"id": ["a", "b"], "source_id": [["1", "2"], []], "source_count": [3, 0]}
    assert as_stored(rows, 2).to_dict("list") == edges
    names = {"display_name": ["A" * 600, "B"], "entity_type": ["CITY", "Entity"]}
    nodes = as_stored(rows.assign(**names), 2).to_dict("list")
    assert nodes == {
        **edges,
        **names,
        "name_key": [name_key("A" * 600), "B"],
        "labels": [["Entity", "CITY"], ["Entity", "Entity"]],
    }


def test_statements_are_constants():
    """No statement of the module is put together, except from constants of the module."""
    tree = ast.parse(Path(cypher.__file__).read_text(encoding="utf-8"))
    made = (ast.JoinedStr, ast.Call, ast.FunctionDef, ast.Lambda)
    assert not [ast.unparse(part) for part in ast.walk(tree) if isinstance(part, made)]
    joined = [part for part in ast.walk(tree) if isinstance(part, ast.BinOp)]
    constants = (ast.Constant, ast.Name, ast.BinOp)
    assert all(isinstance(part.op, ast.Add) for part in joined)
    assert all(isinstance(side, constants) for part in joined for side in (part.left, part.right))
