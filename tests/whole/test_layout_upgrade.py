"""A workspace of an earlier layout answers no question, and the next load writes it whole."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.errors import NothingLoadedError
from pipeline.load.loader import load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.connection import read_together
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from pipeline.text.ids import entity_id
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.stored import stored_hashes
from tests.stores.conftest import neo4j, postgres, workspace

__all__ = ["neo4j", "postgres", "workspace"]

TABLES = corpus(
    {"a.txt": "Ada met Babbage.", "b.txt": "All."},
    {"Ada": "person", "Babbage": "person", "Turin": "place"},
    [("Ada", "Babbage", ["met"]), ("Babbage", "Turin", ["saw"])],
)
IDS = [entity_id(name) for name in ("Ada", "Babbage", "Turin")]
MAX_TYPES = 100
OpenPostgres = Callable[..., PostgresStore]


@pytest.fixture
def snapshots(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path)


@pytest.fixture
def manifest(snapshots: SnapshotStore) -> Manifest:
    return save(TABLES, snapshots)


def test_postgres_refuses_questions_until_a_load_has_written_every_row(
    postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore
):
    fresh, old = postgres("-fresh"), postgres()
    for store in (fresh, old):
        load(manifest, snapshots, [store], MAX_TYPES)
    graph = PostgresGraph(old)
    expected = stored_hashes(fresh)
    with old.connection() as connection:
        for statement in (
            "UPDATE graphmill_nodes SET row_hash = 'of another layout' WHERE workspace = :w",
            "DELETE FROM graphmill_sources WHERE workspace = :w",
            "UPDATE graphmill_live SET schema_version = 6, version = 'old' WHERE workspace = :w",
        ):
            connection.execute(text(statement), {"w": old.workspace})
    with pytest.raises(
        NothingLoadedError, match=r"earlier graphmill \(schema 6\).*; run 'graphmill load index'"
    ):
        read_together(old, graph, lambda vectors, graph: graph.entities(IDS))
    found = verify(manifest, snapshots, [old], MAX_TYPES)
    assert found.problems[0].startswith("postgres: loaded by an earlier graphmill (schema 6)")
    assert found.repair == "graphmill load index"
    load(manifest, snapshots, [old], MAX_TYPES)
    assert verify(manifest, snapshots, [old], MAX_TYPES).agrees
    assert stored_hashes(old) == expected
    relationships, _ = read_together(old, graph, lambda _, graph: graph.relationships_of(IDS, 9))
    assert relationships == PostgresGraph(fresh).relationships_of(IDS, 9)


def test_neo4j_is_written_whole_by_the_next_load(
    neo4j: Callable[..., Neo4jStore], manifest: Manifest, snapshots: SnapshotStore
):
    store = neo4j()
    load(manifest, snapshots, [store], MAX_TYPES)

    def change(statement: Any) -> list[Any]:
        found = store.driver.execute_query(
            statement, {"w": store.workspace}, database_=store.database
        )
        return [record.values() for record in found.records]

    expected = store.relationships_of(IDS, 9)
    change(
        "MATCH (:Entity {workspace: $w})-[r {workspace: $w}]->() "
        "SET r.rank = 7, r.row_hash = 'of another layout'"
    )
    change("MATCH (n:Entity {workspace: $w}) SET n.row_hash = 'of another layout'")
    change(
        "MATCH (live:GraphmillLive {workspace: $w}) "
        "SET live.schema_version = 6, live.version = 'old'"
    )
    assert store.relationships_of(IDS, 9) == expected
    counts = load(manifest, snapshots, [store], MAX_TYPES)["neo4j"]
    assert counts["relationships"]["updated"] == len(TABLES["relationships"])
    ranks = change("MATCH (:Entity {workspace: $w})-[r]->() WHERE r.rank IS NOT NULL RETURN r.id")
    assert ranks == []
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees
