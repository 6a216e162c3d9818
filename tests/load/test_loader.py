from collections.abc import Callable
from typing import LiteralString

import pytest
from sqlalchemy import text

from pipeline.errors import StoreError, UsageError
from pipeline.load.loader import LoadOptions, load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.schema import TABLES as STORED
from pipeline.stores.postgres.store import PostgresStore
from pipeline.text.ids import entity_id
from pipeline.verify.verify import verify
from tests.export.hostile import hostile_tables
from tests.load.tables import corpus, save
from tests.records import column
from tests.stored import nearest, stored_hashes

BEFORE = corpus(
    {"a.txt": "Ada met Babbage in London.", "b.txt": "Old."},
    {"Ada": "person", "Babbage": "person", "London": "city"},
    [("Ada", "Babbage", ["met"]), ("Babbage", "London", ["lives in"])],
)
AFTER = corpus(
    {"a.txt": "Ada met Babbage in London.", "c.txt": "New."},
    {"Ada": "person", "Babbage": "engineer", "Turin": "city"},
    [("Ada", "Babbage", ["met"]), ("Babbage", "Turin", ["went to"])],
)
TABLES = set(STORED)

OpenPostgres = Callable[..., PostgresStore]


def test_rows_in_the_store_equal_the_snapshots(postgres: OpenPostgres, snapshots: SnapshotStore):
    store = postgres()
    counts = load(save(BEFORE, snapshots), snapshots, [store], 100)
    assert set(counts["postgres"]) == TABLES
    for table, source in {
        "nodes": "entities",
        "edges": "relationships",
        "chunks": "text_units",
    }.items():
        assert counts["postgres"][table] == {
            "inserted": len(BEFORE[source]), "updated": 0, "deleted": 0, "unchanged": 0
        }  # fmt: skip
    unit = BEFORE["text_units"].iloc[0]
    vectors = dict(BEFORE["text_unit_embeddings"].itertuples(index=False, name=None))
    question = vectors[unit["id"]]
    [[closest, score]] = nearest(store, "chunks", question, 1)
    assert (closest, round(score, 6)) == (unit["id"], 1)
    [found] = store.chunks([closest], question)
    assert found.content == unit["text"]
    assert found.source in ("a.txt", "b.txt")


def test_a_second_load_writes_nothing(postgres: OpenPostgres, snapshots: SnapshotStore):
    store, manifest = postgres(), save(BEFORE, snapshots)
    load(manifest, snapshots, [store], 100)
    counts = load(manifest, snapshots, [store], 100)["postgres"]
    assert all(count["unchanged"] == sum(count.values()) > 0 for count in counts.values())


def test_a_second_load_reads_no_snapshot_and_writes_nothing(
    postgres: OpenPostgres, snapshots: SnapshotStore
):
    store, manifest = postgres(), save(BEFORE, snapshots)
    first = load(manifest, snapshots, [store], 100)["postgres"]
    before = _versions(store)
    for snapshot in manifest.tables.values():
        (snapshots.root / snapshot.files[0].path).unlink()
    counts = load(manifest, snapshots, [store], 100)["postgres"]
    assert {table: count["unchanged"] for table, count in counts.items()} == {
        table: count["inserted"] for table, count in first.items()
    }
    assert _versions(store) == before


def _versions(store: PostgresStore) -> dict[str, set]:
    """The transactions that wrote the rows there are."""
    names = [table.name for table in STORED.values()] + ["graphmill_live"]
    with store.connection() as connection:
        return {
            name: set(
                connection.execute(
                    text(f"SELECT xmin::text FROM {name} WHERE workspace = '{store.workspace}'")
                )
            )
            for name in names
        }


@pytest.mark.parametrize(
    "drift",
    [
        "DELETE FROM graphmill_nodes WHERE workspace = :w AND display_name = 'Ada'",
        "UPDATE lightrag_chunks SET row_hash = 'x' WHERE workspace = :w",
        "UPDATE graphmill_edges SET id = id || 'x' WHERE workspace = :w",
        "INSERT INTO graphmill_documents (workspace, id, row_hash) VALUES (:w, 'doc-x', 'x')",
        "UPDATE graphmill_live SET tables = '{}' WHERE workspace = :w",
    ],
)
def test_rows_that_were_changed_in_postgres_are_repaired(
    postgres: OpenPostgres, snapshots: SnapshotStore, drift: str
):
    store, manifest = postgres(), save(BEFORE, snapshots)
    load(manifest, snapshots, [store], 100)
    before = stored_hashes(store)
    with store.connection() as connection:
        connection.execute(text(drift), {"w": store.workspace})
    load(manifest, snapshots, [store], 100)
    assert stored_hashes(store) == before
    live = store.live()
    assert live
    assert live.tables == store.table_states()


@pytest.mark.parametrize(
    "drift",
    [
        "MATCH (n:Entity {workspace: $w, displayName: 'Ada'}) DETACH DELETE n",
        "MATCH (n:Entity {workspace: $w, displayName: 'Ada'}) SET n.row_hash = 'x'",
        "MATCH (:Entity {workspace: $w})-[r {workspace: $w}]->() SET r.id = r.id + 'x'",
        (
            "MATCH (a:Entity {workspace: $w, displayName: 'Ada'}), (b:Entity {workspace: $w,"
            " displayName: 'London'}) CREATE (a)-[:MET {workspace: $w, id: 'rel-x', row_hash:"
            " 'x'}]->(b)"
        ),
    ],
)
def test_rows_that_were_changed_in_neo4j_are_repaired(
    neo4j: Callable[..., Neo4jStore], snapshots: SnapshotStore, drift: LiteralString
):
    store, manifest = neo4j(), save(BEFORE, snapshots)
    load(manifest, snapshots, [store], 100)
    before = stored_hashes(store)
    assert load(manifest, snapshots, [store], 100)["neo4j"]["nodes"]["unchanged"] == 3
    store.driver.execute_query(drift, {"w": store.workspace}, database_=store.database)
    load(manifest, snapshots, [store], 100)
    assert stored_hashes(store) == before
    live = store.live()
    assert live
    assert live.tables == store.table_states()


def test_other_type_names_are_loaded_though_the_snapshots_are_the_same(
    postgres: OpenPostgres, snapshots: SnapshotStore
):
    store, manifest = postgres(), save(BEFORE, snapshots)
    load(manifest, snapshots, [store], 100)
    assert load(manifest, snapshots, [store], 1)["postgres"]["edges"]["updated"] == 1


def test_a_load_over_another_equals_a_fresh_one(postgres: OpenPostgres, snapshots: SnapshotStore):
    over, fresh = postgres("-over"), postgres("-fresh")
    after = save(AFTER, snapshots)
    load(save(BEFORE, snapshots), snapshots, [over], 100)
    counts = load(after, snapshots, [over], 100)["postgres"]
    load(after, snapshots, [fresh], 100)
    assert counts["nodes"] == {"inserted": 1, "updated": 1, "deleted": 1, "unchanged": 1}
    assert counts["documents"] == {"inserted": 1, "updated": 0, "deleted": 1, "unchanged": 1}
    assert stored_hashes(over) == stored_hashes(fresh)
    assert over.live() == fresh.live()


def test_live_says_what_was_loaded(postgres: OpenPostgres, snapshots: SnapshotStore):
    store = postgres()
    load(save(BEFORE, snapshots), snapshots, [store], 100)
    first = store.live()
    assert first is not None
    assert (first.workflow, first.embedding, first.dimensions) == ("index", {"model": "m"}, 4)
    load(save(AFTER, snapshots), snapshots, [store], 100)
    second = store.live()
    assert second is not None
    assert second.version != first.version


def test_another_model_with_equal_vectors_is_published(
    postgres: OpenPostgres, snapshots: SnapshotStore
):
    store = postgres()
    load(save(BEFORE, snapshots), snapshots, [store], 100)
    before, other = stored_hashes(store), save(BEFORE, snapshots, model="n")
    with pytest.raises(UsageError, match="--re-embed"):
        load(other, snapshots, [store], 100)
    assert stored_hashes(store) == before
    load(other, snapshots, [store], 100, LoadOptions(re_embed=True))
    live = store.live()
    assert live is not None
    assert live.embedding == {"model": "n"}


def test_an_empty_corpus_can_be_loaded(postgres: OpenPostgres, snapshots: SnapshotStore):
    store = postgres()
    load(save(BEFORE, snapshots), snapshots, [store], 100)
    counts = load(save(corpus({}, {}, []), snapshots), snapshots, [store], 100)["postgres"]
    assert all(count["deleted"] == sum(count.values()) > 0 for count in counts.values())


def test_a_workflow_without_the_tables_is_a_usage_error(snapshots: SnapshotStore):
    with pytest.raises(UsageError, match="documents"):
        load(Manifest("index"), snapshots, [], 100)


def test_a_database_that_is_down_is_a_store_error(snapshots: SnapshotStore):
    store = Neo4jStore("bolt://127.0.0.1:1", "neo4j", "password")
    with pytest.raises(StoreError, match="make neo4j"):
        load(save(BEFORE, snapshots), snapshots, [store], 100)


def test_both_graphs_come_out_equal(
    postgres: OpenPostgres, neo4j: Callable[..., Neo4jStore], snapshots: SnapshotStore
):
    relational, native = postgres(), neo4j()
    for tables in (BEFORE, AFTER):
        counts = load(save(tables, snapshots), snapshots, [relational, native], 100)
        assert set(counts["neo4j"]) == {"nodes", "relationships", "communities"}
        assert counts["neo4j"]["nodes"] == counts["postgres"]["nodes"]
        assert counts["neo4j"]["relationships"] == counts["postgres"]["edges"]
    graph = PostgresGraph(relational)
    ids = [entity_id(name) for name in ("Turin", "Ada", "Babbage", "London")]
    assert graph.entities(ids) == native.entities(ids)
    assert graph.relationships_of(ids, 9) == native.relationships_of(ids, 9)
    assert graph.shared_units(ids) == native.shared_units(ids)
    assert native.live() == relational.live()
    assert column(native.entities(ids), "type") == ["CITY", "PERSON", "ENGINEER"]


def test_names_of_any_length_are_loaded_and_verified(
    postgres: OpenPostgres, neo4j: Callable[..., Neo4jStore], snapshots: SnapshotStore
):
    """A reply cannot bring names of this length, but imported tables can."""
    stores, manifest = [postgres(), neo4j()], save(hostile_tables(), snapshots)
    load(manifest, snapshots, stores, 5)
    assert verify(manifest, snapshots, stores, 5).agrees
    for store in load(manifest, snapshots, stores, 5).values():
        assert all(count["unchanged"] == sum(count.values()) > 0 for count in store.values())
