"""Communities in every graph store, on real servers."""

from collections.abc import Callable
from dataclasses import replace
from typing import LiteralString

import pandas as pd
import pytest

from pipeline.errors import StoreError
from pipeline.load.row_hashes import diff, hashes_of, with_hashes
from pipeline.query.search.filtered import FilteredGraph, FilteredVectors
from pipeline.stores.neo4j.rows import state_of
from pipeline.stores.neo4j.store import Neo4jStore
from tests.query.memory_stores import of_documents, village
from tests.records import column
from tests.stores.communities import COLUMNS, community, expected_communities_of, load
from tests.stores.graphs import LIVE, LoadableGraph, random_graph

OpenGraph = Callable[..., LoadableGraph]
OpenNeo4j = Callable[..., Neo4jStore]


def assert_reads(opened: LoadableGraph, rows: pd.DataFrame) -> None:
    asked = ["ent-unknown", *random_graph(0).nodes["id"][::-1]]
    for level in range(-1, 4):
        assert opened.reads.communities_of(asked, level) == expected_communities_of(
            rows, asked, level
        )


def run(store: Neo4jStore, query: LiteralString) -> list[list]:
    found = store.driver.execute_query(
        query, {"workspace": store.workspace}, database_=store.database
    )
    return [record.values() for record in found.records]


def test_an_entity_is_in_its_most_granular_community(open_graph: OpenGraph):
    opened = open_graph()
    rows, counts = load(opened, 0)
    assert counts["inserted"] == len(rows)
    assert_reads(opened, rows)
    assert not opened.reads.communities_of([], 3)
    _, again = load(opened, 0)
    assert again == {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": len(rows)}


def test_a_load_over_another_leaves_the_last(open_graph: OpenGraph):
    one, other = open_graph("-one"), open_graph("-other")
    load(one, 0)
    kept, _ = load(other, 0)
    for content in (1, 2, 0):
        rows, counts = load(one, content)
        assert counts["inserted"]
        assert_reads(one, rows)
    assert_reads(other, kept)
    assert one.store.drop()["communities"] == len(rows)
    assert not one.reads.communities_of(list(random_graph(0).nodes["id"]), 3)
    assert_reads(other, kept)


def test_a_caller_of_some_documents_sees_only_communities_of_their_entities():
    rows = pd.DataFrame(
        [("ent-Ada", "com-1", 0), ("ent-Bea", "com-1", 0), ("ent-Cid", "com-2", 0)],
        columns=["entity_id", "community_id", "level"],
    )
    stores = replace(village(), community_rows=rows)
    graph = FilteredGraph(stores, FilteredVectors(stores, of_documents("doc-1")))
    assert column(graph.communities_of(["ent-Ada", "ent-Cid"], 0), "entity_id") == ["ent-Ada"]


MEMBERS = (
    "MATCH (n:Entity)-[:IN_COMMUNITY]->(c:Community {workspace: $workspace}) RETURN c.id, n.id"
)
PARENTS = "MATCH (c:Community {workspace: $workspace})-[:PARENT]->(p:Community) RETURN c.id, p.id"


@pytest.mark.parametrize("atomic_rows", [0, 10_000])
def test_neo4j_shows_the_members_and_the_parent_of_a_community(neo4j: OpenNeo4j, atomic_rows: int):
    store = neo4j(atomic_rows=atomic_rows)
    for content in (0, 1):
        rows, _ = load(LoadableGraph(store, store), content)
        members = [[row.id, id] for row in rows.itertuples() for id in row.entity_ids]
        assert sorted(run(store, MEMBERS)) == sorted(members)
        parents = rows.loc[rows["parent"] != "", ["id", "parent"]].to_numpy().tolist()
        assert sorted(run(store, PARENTS)) == sorted(parents)
        assert store.table_states()["communities"] == state_of(hashes_of(with_hashes(rows)))
        [found] = store.rows("communities")
        expected = store.as_stored(with_hashes(rows)).sort_values("id").reset_index(drop=True)
        found = found.sort_values("id").reset_index(drop=True)[list(expected.columns)]
        pd.testing.assert_frame_equal(found, expected, check_dtype=False)


@pytest.mark.parametrize(
    "query",
    [
        (
            "MATCH (:Community {workspace: $workspace, level: 1})<-[r:IN_COMMUNITY]-() WITH r LIMIT"
            " 1 DELETE r"
        ),
        (
            "MATCH (c:Community {workspace: $workspace}) WITH c LIMIT 1 CREATE"
            " (c)<-[:IN_COMMUNITY]-(:Somebodys)"
        ),
        "MATCH (:Community {workspace: $workspace})-[r:PARENT]->() WITH r LIMIT 1 DELETE r",
        (
            "MATCH (c:Community {workspace: $workspace})-[r:PARENT]->() WITH c, r LIMIT 1 "
            "CREATE (c)-[:PARENT]->(c) DELETE r"
        ),
        "MATCH (c:Community {workspace: $workspace}) WITH c LIMIT 1 REMOVE c.entity_count",
        "MATCH (c:Community {workspace: $workspace, level: 1}) WITH c LIMIT 1 DETACH DELETE c",
        (
            "MATCH (n:Entity {workspace: $workspace})-[:IN_COMMUNITY]->() WITH n LIMIT 1 DETACH"
            " DELETE n"
        ),
    ],
)
def test_the_members_and_the_parent_of_a_community_are_part_of_its_state(
    neo4j: OpenNeo4j, query: LiteralString
):
    store = neo4j()
    rows, _ = load(LoadableGraph(store, store), 0)
    before = store.table_states()["communities"]
    run(store, query)
    assert store.table_states()["communities"] != before
    stored = store.hashes("communities")
    assert "" in stored["row_hash"].to_pylist() or len(stored) < len(rows)
    load(LoadableGraph(store, store), 0)
    assert store.table_states()["communities"] == before
    assert_reads(LoadableGraph(store, store), rows)


def test_a_member_that_is_no_node_is_an_error(neo4j: OpenNeo4j):
    store, graph = neo4j(), random_graph(0)
    rows = pd.DataFrame([community(0, ["ent-nobody"])], columns=COLUMNS)
    with store.writing(LIVE) as writer:
        writer.apply("sourced_nodes", diff(with_hashes(graph.nodes), {}))
        writer.apply("communities", diff(with_hashes(rows), {}))
        with pytest.raises(StoreError, match="members of communities that are no node: 1;"):
            writer.publish()
