"""What the version before has left is read; what a later one has left is refused, with what to
do."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from pipeline.contract.schema_version import SCHEMA_VERSION
from pipeline.contract.schemas import TEXTS
from pipeline.errors import DataError, NothingLoadedError
from pipeline.load.loader import load
from pipeline.snapshots.store import Manifest, SnapshotStore, StepRecord
from pipeline.stores.base import Live
from pipeline.stores.connection import read_together
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.graph import PostgresGraph
from pipeline.stores.postgres.store import PostgresStore
from pipeline.text.ids import entity_id
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.records import column
from tests.stores.conftest import neo4j, postgres, workspace

__all__ = ["neo4j", "postgres", "workspace"]

FINGERPRINT = "ab" * 32
NEWER = (
    rf"written by a newer graphmill \(schema {SCHEMA_VERSION + 1}; this one reads up to"
    rf" {SCHEMA_VERSION}\); upgrade"
)
TABLES = corpus(
    {"a.txt": "Ada met Babbage."},
    {"Ada": "person", "Babbage": "person"},
    [("Ada", "Babbage", ["met"])],
)


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "snapshots")


def first_version(store: SnapshotStore) -> tuple[Manifest, dict[str, dict[str, Any]]]:
    """A manifest, and the files that version 1 had for it."""
    snapshot = store.tables.write("texts", TEXTS.encode(TEXTS.frame([("1", "a")]), "texts"))
    record = StepRecord("embed", FINGERPRINT, {"params": {"size": 1}}, {"texts": snapshot})
    named = {"path": snapshot.files[0].path, "rows": 1, "sha256": snapshot.sha256}
    old = {
        "step": "embed",
        "fingerprint": FINGERPRINT,
        "components": {"params": {"size": 1}},
        "outputs": {"texts": named},
        "retry": False,
    }
    manifest = {"workflow": "index", "tables": {"texts": named}, "steps": {"embed": old}}
    files = {f"steps/{FINGERPRINT}.json": old, "manifest-index.json": manifest}
    return Manifest("index", {"texts": snapshot}, {"embed": record}), files


def write(store: SnapshotStore, files: dict[str, dict[str, Any]], **more: Any) -> None:
    for name, content in files.items():
        path = store.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**content, **more}))


def test_the_first_versions_files_are_read(store: SnapshotStore):
    manifest, files = first_version(store)
    write(store, files)
    assert store.manifest("index") == manifest
    assert store.find_record(FINGERPRINT) == manifest.steps["embed"]


def test_a_newer_versions_files_are_refused(store: SnapshotStore):
    write(store, first_version(store)[1], schema_version=SCHEMA_VERSION + 1)
    with pytest.raises(DataError, match=NEWER):
        store.manifest("index")
    with pytest.raises(DataError, match=NEWER):
        store.find_record(FINGERPRINT)


def test_this_versions_files_say_so_and_tables_do_not(store: SnapshotStore):
    manifest, _ = first_version(store)
    store.save_record(manifest.steps["embed"])
    store.publish(manifest, "run-1")
    for name in (f"steps/{FINGERPRINT}.json", "manifest-index.json", "manifests/index/run-1.json"):
        assert json.loads((store.root / name).read_text())["schema_version"] == SCHEMA_VERSION
    assert asdict(store.manifest("index")) == asdict(manifest)


def test_a_database_of_the_first_version_is_read_and_brought_up_to_date(
    postgres: Callable[..., PostgresStore], store: SnapshotStore
):
    opened = postgres()
    manifest = save(TABLES, store)
    load(manifest, store, [opened], 100)
    try:
        _execute(
            opened, "ALTER TABLE graphmill_live DROP COLUMN tables, DROP COLUMN schema_version"
        )
        live = opened.live()
        assert (
            live == Live("index", live.version, {"model": "m"}, 4, schema_version=1)
            if live
            else None
        )
        counts = load(manifest, store, [opened], 100)["postgres"]
    finally:
        with opened.writing(
            Live("index", "1", {"model": "m"}, 4)
        ):  # the database is the whole session's
            pass
    assert all(count["unchanged"] == sum(count.values()) > 0 for count in counts.values())
    live = opened.live()
    assert live
    assert live.schema_version == SCHEMA_VERSION
    assert live.tables == opened.table_states()


def test_tables_that_came_later_are_made_by_the_next_load(
    postgres: Callable[..., PostgresStore], store: SnapshotStore
):
    opened = postgres()
    graph, ids = PostgresGraph(opened), [entity_id("Ada")]
    manifest = save(TABLES, store)
    load(manifest, store, [opened], 100)
    _execute(opened, "DROP TABLE graphmill_reports, graphmill_claims, graphmill_communities")
    _execute(opened, "UPDATE graphmill_live SET schema_version = 4 WHERE workspace = :workspace")
    with pytest.raises(
        NothingLoadedError, match=r"earlier graphmill \(schema 4\).*; run 'graphmill load index'"
    ):
        read_together(opened, graph, lambda vectors, graph: graph.entities(ids))
    counts = load(manifest, store, [opened], 100)["postgres"]
    assert {table: count["inserted"] for table, count in counts.items() if count["inserted"]} == {
        "reports": 3, "claims": 2, "communities": 3
    }  # fmt: skip
    assert (
        len(opened.reports_at(9, 9)) == len(opened.claims_of([*ids, entity_id("Babbage")], 9)) == 2
    )
    assert column(graph.communities_of(ids, 9), "level") == [1]
    assert verify(manifest, store, [opened], 100).agrees


def test_a_database_of_a_newer_version_is_refused(
    postgres: Callable[..., PostgresStore], store: SnapshotStore
):
    opened = postgres()
    manifest = save(TABLES, store)
    load(manifest, store, [opened], 100)
    _execute(
        opened,
        f"UPDATE graphmill_live SET schema_version = {SCHEMA_VERSION + 1} WHERE workspace ="
        " :workspace",
    )
    for attempt in (opened.live, lambda: load(manifest, store, [opened], 100)):
        with pytest.raises(DataError, match=NEWER):
            attempt()


def test_the_same_in_neo4j(neo4j: Callable[..., Neo4jStore], store: SnapshotStore):
    opened = neo4j()
    manifest = save(TABLES, store)
    load(manifest, store, [opened], 100)
    _cypher(opened, "REMOVE live.schema_version, live.tables")
    live = opened.live()
    assert live
    assert (live.schema_version, live.tables) == (1, {})
    load(manifest, store, [opened], 100)
    live = opened.live()
    assert live == replace(live, schema_version=SCHEMA_VERSION) if live else None
    _cypher(opened, f"SET live.schema_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(DataError, match=NEWER):
        opened.live()


def _execute(store: PostgresStore, statement: str) -> None:
    with store.connection() as connection:
        connection.execute(
            text(statement), {"workspace": store.workspace} if ":workspace" in statement else {}
        )


def _cypher(store: Neo4jStore, change: str) -> None:
    with store.driver.session(database=store.database) as session:
        session.run(
            f"MATCH (live:GraphmillLive {{workspace: $w}}) {change}", w=store.workspace
        ).consume()  # type: ignore[arg-type]
