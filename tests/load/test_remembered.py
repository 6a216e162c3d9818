"""What a load remembers of the one before, and that no load depends on it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from sqlalchemy import text

from pipeline.load.desired_rows import FOLDER, KEPT
from pipeline.load.loader import load
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.neo4j.store import Neo4jStore
from pipeline.stores.postgres.store import PostgresStore
from pipeline.verify.verify import verify
from tests.load.tables import corpus, save
from tests.stored import stored_hashes

NAMES = {"Ada": "person", "Babbage": "person", "London": "city"}
LINKS = [("Ada", "Babbage", ["met"]), ("Babbage", "London", ["lives in"])]
BEFORE = corpus({"a.txt": "Ada met Babbage in London."}, NAMES, LINKS)
AFTER = corpus({"a.txt": "Ada met Babbage in London."}, {**NAMES, "Babbage": "engineer"}, LINKS)

OpenPostgres = Callable[..., PostgresStore]
OpenNeo4j = Callable[..., Neo4jStore]


def keep_all(folder: Path) -> None:
    pass


def delete_all(folder: Path) -> None:
    shutil.rmtree(folder)


def damage(folder: Path) -> None:
    for path in folder.iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("change", [keep_all, delete_all, damage])
def test_a_load_is_the_same_whatever_is_remembered(
    postgres: OpenPostgres, neo4j: OpenNeo4j, snapshots: SnapshotStore, change: Callable[[Path], None]
):
    stores = [postgres(), neo4j()]
    load(save(BEFORE, snapshots), snapshots, stores, 100)
    change(snapshots.root / FOLDER)
    after = save(AFTER, snapshots)
    counts = load(after, snapshots, stores, 100)
    for store in counts.values():
        assert store.pop("nodes") == {"inserted": 0, "updated": 1, "deleted": 0, "unchanged": 2}
        assert all(table["unchanged"] == sum(table.values()) > 0 for table in store.values())
    assert verify(after, snapshots, stores, 100).agrees


def test_what_was_changed_in_a_database_since_is_mended(
    postgres: OpenPostgres, neo4j: OpenNeo4j, snapshots: SnapshotStore
):
    relational, native, fresh = postgres(), neo4j(), postgres("-fresh")
    load(save(BEFORE, snapshots), snapshots, [relational, native], 100)
    with relational.connection() as connection:
        for table in ("graphmill_nodes", "lightrag_chunks"):
            connection.execute(text(f"DELETE FROM {table} WHERE workspace = :w"), {"w": relational.workspace})
    native.driver.execute_query(
        "MATCH (n:Entity {workspace: $w, displayName: 'Ada'}) DETACH DELETE n",
        {"w": native.workspace},
        database_=native.database,
    )
    after = save(AFTER, snapshots)
    load(after, snapshots, [relational, native], 100)
    load(after, snapshots, [fresh], 100)
    assert verify(after, snapshots, [relational, native], 100).agrees
    assert stored_hashes(relational) == stored_hashes(fresh)


def test_old_versions_are_forgotten(tmp_path: Path):
    remembered = LoadedHashes(tmp_path)
    for number in range(KEPT + 3):
        rows = pd.DataFrame({"id": ["a"], "row_hash": [str(number)]})
        remembered.keep("nodes", f"rows-{number}", rows)
        remembered.publish(f"version-{number}", {"nodes": f"rows-{number}"})
    assert len(list((tmp_path / FOLDER).iterdir())) == 2 * KEPT
    assert remembered.versions("version-0") == {}
    assert remembered.hashes("nodes", "rows-0") is None
    newest = remembered.hashes("nodes", f"rows-{KEPT + 2}")
    assert newest is not None
    assert newest.to_pylist() == [{"id": "a", "row_hash": str(KEPT + 2)}]
    remembered.forget()
    assert remembered.versions(f"version-{KEPT + 2}") == {}
