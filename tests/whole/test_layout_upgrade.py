"""Workspaces that a graphmill of schema 6 has loaded: it kept lists of sources beside the vectors,
and ranks."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from sqlalchemy import text

from pipeline.errors import NothingLoadedError, StoreError
from pipeline.load import loader
from pipeline.load.loader import LoadOptions, load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.connection import read_together
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.hnsw import Hnsw
from pipeline.stores.postgres.schema import ENTITIES, partition_of
from pipeline.stores.postgres.store import PostgresStore
from pipeline.text.ids import entity_id
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.records import column
from tests.servers.postgres_server import make_database
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
OF_SCHEMA_6 = (
    "ALTER TABLE lightrag_entities ADD COLUMN IF NOT EXISTS chunk_ids text[]",
    "ALTER TABLE lightrag_relationships ADD COLUMN IF NOT EXISTS chunk_ids text[]",
    "ALTER TABLE graphmill_nodes ADD COLUMN IF NOT EXISTS source_id text[]",
    "ALTER TABLE graphmill_edges ADD COLUMN IF NOT EXISTS source_id text[], ADD COLUMN IF NOT EXISTS rank int4",  # noqa: E501
    *(
        f"UPDATE {table} AS mine SET {column} = theirs.chunk_ids, row_hash = md5(mine.row_hash) "
        "FROM graphmill_sources AS theirs "
        "WHERE mine.workspace = :w AND theirs.workspace = :w AND theirs.id = mine.id"
        for table, column in (
            ("lightrag_entities", "chunk_ids"), ("lightrag_relationships", "chunk_ids"),
            ("graphmill_nodes", "source_id"), ("graphmill_edges", "source_id"),
        )
    ),
    "UPDATE graphmill_edges SET rank = 2 WHERE workspace = :w",
    "DELETE FROM graphmill_sources WHERE workspace = :w",
    "DELETE FROM graphmill_between WHERE workspace = :w",
    "UPDATE graphmill_live SET schema_version = 6, version = 'old' WHERE workspace = :w",
)  # fmt: skip
WHAT_6_READS = (
    (
        "SELECT id, content, embedding::text, chunk_ids FROM lightrag_entities WHERE workspace = :w"
        " ORDER BY id"
    ),
    (
        "SELECT id, content, embedding::text, chunk_ids FROM lightrag_relationships WHERE workspace"
        " = :w ORDER BY id"
    ),
    (
        "SELECT id, display_name, degree, source_id FROM graphmill_nodes WHERE workspace = :w ORDER"
        " BY id"
    ),
    "SELECT id, weight, rank, source_id FROM graphmill_edges WHERE workspace = :w ORDER BY id",
    "SELECT schema_version, version, tables FROM graphmill_live WHERE workspace = :w",
)
OpenPostgres = Callable[..., PostgresStore]


@pytest.fixture
def snapshots(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path)


@pytest.fixture
def manifest(snapshots: SnapshotStore) -> Manifest:
    return save(TABLES, snapshots)


def run(store: PostgresStore, *statements: str) -> list[Any]:
    """The rows of the last, where it gives any."""
    found: list[Any] = []
    with store.connection() as connection:
        for statement in statements:
            result = connection.execute(
                text(statement), {"w": store.workspace} if ":w" in statement else {}
            )
            found = list(result.all()) if result.returns_rows else []
    return found


def loaded_by_6(
    store: PostgresStore, manifest: Manifest, snapshots: SnapshotStore
) -> PostgresStore:
    load(manifest, snapshots, [store], MAX_TYPES)
    index = f"{partition_of(ENTITIES, store.workspace)}_chunk_ids"
    make = (
        f'CREATE INDEX "{index}" ON "{partition_of(ENTITIES, store.workspace)}" USING gin'
        " (chunk_ids)"
    )
    run(store, *OF_SCHEMA_6, make)
    return store


def as_6_reads(store: PostgresStore) -> list[Any]:
    return [run(store, statement) for statement in WHAT_6_READS]


def rows(store: PostgresStore) -> dict[str, pd.DataFrame]:
    return {
        table: (
            pd.concat(store.rows(table))
            .sort_values("id")
            .reset_index(drop=True)
            .astype({"id": str})
        )
        for table in store.tables
    }


def versions_of_rows(store: PostgresStore) -> dict[str, list[Any]]:
    """Table -> id and the transaction that wrote it, of the tables that 6 had."""
    names = (
        "lightrag_chunks",
        "lightrag_entities",
        "lightrag_relationships",
        "graphmill_nodes",
        "graphmill_edges",
    )
    query = "SELECT id, xmin::text, ctid::text FROM {} WHERE workspace = :w ORDER BY id"
    return {name: [tuple(row) for row in run(store, query.format(name))] for name in names}


def test_the_next_load_copies_the_lists_and_writes_no_other_row(
    postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore
):
    fresh, old = (
        postgres("-fresh", exact_below=2),
        loaded_by_6(postgres(exact_below=2), manifest, snapshots),
    )
    load(manifest, snapshots, [fresh], MAX_TYPES)
    graph = PostgresGraph(old)
    with pytest.raises(
        NothingLoadedError, match=r"earlier graphmill \(schema 6\).*; run 'graphmill load index'"
    ):
        read_together(old, graph, lambda vectors, graph: graph.entities(IDS))
    found = verify(manifest, snapshots, [old], MAX_TYPES)
    assert found.problems[0].startswith("postgres: loaded by an earlier graphmill (schema 6)")
    assert found.repair == "graphmill load index"
    before = versions_of_rows(old)
    counts = load(manifest, snapshots, [old], MAX_TYPES)["postgres"]
    assert all(count["unchanged"] == sum(count.values()) for count in counts.values())
    assert versions_of_rows(old) == before
    assert verify(manifest, snapshots, [old], MAX_TYPES).agrees
    assert stored_hashes(old) == stored_hashes(fresh)
    for table, expected in rows(fresh).items():
        pd.testing.assert_frame_equal(rows(old)[table], expected)
    read = read_together(old, graph, lambda vectors, graph: graph.relationships_of(IDS, 9))
    assert read[0] == PostgresGraph(fresh).relationships_of(IDS, 9)
    communities = list(TABLES["communities"]["id"])
    assert graph.between(communities) == PostgresGraph(fresh).between(communities) != []
    assert old.outdated() == []
    names = [
        row[0]
        for row in run(old, "SELECT relname FROM pg_class WHERE relname LIKE '%\\_chunk\\_ids'")
    ]
    assert f"{partition_of(ENTITIES, old.workspace)}_chunk_ids" not in names


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("DELETE FROM lightrag_entities WHERE workspace = :w AND entity_name = 'Ada'", "missing"),
        ("UPDATE graphmill_edges SET row_hash = 'by hand' WHERE workspace = :w", "differing"),
        (
            (
                "UPDATE lightrag_entities SET content = 'by hand' WHERE workspace = :w AND"
                " entity_name = 'Ada'"
            ),
            "altered",
        ),
    ],
)
def test_a_converted_workspace_is_held_to_its_rows(
    postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore, change: str, kind: str
):
    store = loaded_by_6(postgres(), manifest, snapshots)
    load(manifest, snapshots, [store], MAX_TYPES)
    run(store, change)
    found = verify(manifest, snapshots, [store], MAX_TYPES)
    assert {difference.kind for check in found.tables for difference in check.differences} == {kind}
    assert found.repair == "graphmill load index" + (" --full" if kind == "altered" else "")
    load(manifest, snapshots, [store], MAX_TYPES, LoadOptions(full=kind == "altered"))
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees


def test_what_was_altered_before_is_mended_as_it_is_converted(
    postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore
):
    store = loaded_by_6(postgres(), manifest, snapshots)
    run(
        store,
        "UPDATE lightrag_entities SET content = 'by hand' WHERE workspace = :w AND entity_name ="
        " 'Ada'",
    )
    counts = load(manifest, snapshots, [store], MAX_TYPES)["postgres"]
    assert counts["entities"]["updated"] == 1
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees


def test_columns_of_6_stay_while_a_workspace_is_of_6(
    postgres_url: str, manifest: Manifest, snapshots: SnapshotStore
):
    url = make_database(
        postgres_url, "two_of_schema_6"
    )  # workspaces that other tests have left would count as well
    with ExitStack() as stack:
        stores = [
            stack.enter_context(closing(PostgresStore(url, name, hnsw=Hnsw())))
            for name in ("one", "other")
        ]
        one, other = (loaded_by_6(store, manifest, snapshots) for store in stores)
        before = as_6_reads(other)
        load(manifest, snapshots, [one], MAX_TYPES)
        assert as_6_reads(other) == before
        load(manifest, snapshots, [other], MAX_TYPES)
        with pytest.raises(StoreError, match="chunk_ids"):
            as_6_reads(other)
        assert all(verify(manifest, snapshots, [store], MAX_TYPES).agrees for store in stores)


def test_an_upgrade_that_is_cut_off_leaves_what_6_reads(
    postgres: OpenPostgres,
    manifest: Manifest,
    snapshots: SnapshotStore,
    monkeypatch: pytest.MonkeyPatch,
):
    store, other = loaded_by_6(postgres(), manifest, snapshots), postgres("-other")
    before = as_6_reads(store)
    whole = loader.load_store

    def cut_off(store: Any, wanted: Any, live: Any, full: bool, told: Any, waits: Any) -> Any:
        def advanced(part: str, done: int, rows: int) -> None:
            if part.startswith("mention index"):
                raise RuntimeError("plug pulled")

        return whole(store, wanted, live, full, advanced, waits)

    with monkeypatch.context() as patched:
        patched.setattr(loader, "load_store", cut_off)
        with pytest.raises(RuntimeError, match="plug pulled"):
            load(manifest, snapshots, [store], MAX_TYPES)
    assert as_6_reads(store) == before
    load(
        manifest, snapshots, [other], MAX_TYPES
    )  # another workspace of the server is of this version
    assert column(PostgresGraph(other).entities(IDS), "name") == ["Ada", "Babbage", "Turin"]
    assert as_6_reads(store) == before
    load(manifest, snapshots, [store], MAX_TYPES)
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees
    assert verify(manifest, snapshots, [other], MAX_TYPES).agrees


def test_a_graph_of_6_in_neo4j_is_read_and_loaded_anew(
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
        "MATCH (:Entity {workspace: $w})-[r {workspace: $w}]->() SET r.rank = 7, r.row_hash = 'of"
        " another layout'"
    )
    change("MATCH (n:Entity {workspace: $w}) SET n.row_hash = 'of another layout'")
    change(
        "MATCH (live:GraphmillLive {workspace: $w}) SET live.schema_version = 6, live.version ="
        " 'old'"
    )
    assert store.relationships_of(IDS, 9) == expected
    counts = load(manifest, snapshots, [store], MAX_TYPES)["neo4j"]
    assert counts["relationships"]["updated"] == len(TABLES["relationships"])
    assert (
        change("MATCH (:Entity {workspace: $w})-[r]->() WHERE r.rank IS NOT NULL RETURN r.id") == []
    )
    assert verify(manifest, snapshots, [store], MAX_TYPES).agrees
