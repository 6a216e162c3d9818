"""What a load remembers of the one before, and that no load depends on it."""

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from pipeline.load.last_load import FOLDER, KEPT, LoadedVersion, LoadedVersions
from pipeline.load.loader import load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.snapshots.tables import TableStore
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


def keep_all(root: Path, before: Manifest) -> None:
    pass


def delete_all(root: Path, before: Manifest) -> None:
    shutil.rmtree(root / FOLDER)


def damage(root: Path, before: Manifest) -> None:
    for path in (root / FOLDER).iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])


def lose_a_snapshot(root: Path, before: Manifest) -> None:
    [path] = before.tables["entities"].paths
    (root / path).unlink()


@pytest.mark.parametrize("change", [keep_all, delete_all, damage, lose_a_snapshot])
def test_a_load_writes_the_same_with_and_without_the_record_of_the_last(
    postgres: OpenPostgres,
    neo4j: OpenNeo4j,
    snapshots: SnapshotStore,
    change: Callable[[Path, Manifest], None],
):
    stores = [postgres(), neo4j()]
    before = save(BEFORE, snapshots)
    load(before, snapshots, stores, 100)
    change(snapshots.root, before)
    after = save(AFTER, snapshots)
    counts = load(after, snapshots, stores, 100)
    for store in counts.values():
        assert store.pop("nodes") == {"inserted": 0, "updated": 1, "deleted": 0, "unchanged": 2}
        assert all(table["unchanged"] == sum(table.values()) > 0 for table in store.values())
    assert verify(after, snapshots, stores, 100).agrees


def test_rows_that_were_changed_in_a_database_since_are_repaired(
    postgres: OpenPostgres, neo4j: OpenNeo4j, snapshots: SnapshotStore
):
    relational, native, fresh = postgres(), neo4j(), postgres("-fresh")
    load(save(BEFORE, snapshots), snapshots, [relational, native], 100)
    with relational.connection() as connection:
        for statement in (
            "DELETE FROM graphmill_nodes WHERE workspace = :w",
            "DELETE FROM lightrag_chunks WHERE workspace = :w",
            "UPDATE graphmill_edges SET row_hash = 'another' WHERE workspace = :w",
            (
                "INSERT INTO graphmill_documents (workspace, id, row_hash) VALUES (:w,"
                " 'one-too-many', 'x')"
            ),
            (
                "INSERT INTO lightrag_entities (workspace, id, row_hash) VALUES (:w,"
                " 'one-too-many', 'x')"
            ),
        ):
            connection.execute(text(statement), {"w": relational.workspace})
    for change in (
        "MATCH (n:Entity {workspace: $w, displayName: 'Ada'}) DETACH DELETE n",
        "MATCH (n:Entity {workspace: $w, displayName: 'London'}) SET n.row_hash = 'another'",
        "CREATE (n:Entity {workspace: $w, id: 'one-too-many', row_hash: 'x'})",
    ):
        native.driver.execute_query(change, {"w": native.workspace}, database_=native.database)
    after = save(AFTER, snapshots)
    load(after, snapshots, [relational, native], 100)
    load(after, snapshots, [fresh], 100)
    assert verify(after, snapshots, [relational, native], 100).agrees
    assert stored_hashes(relational) == stored_hashes(fresh)


def test_a_load_reads_only_rows_that_differ(
    postgres: OpenPostgres,
    neo4j: OpenNeo4j,
    snapshots: SnapshotStore,
    monkeypatch: pytest.MonkeyPatch,
):
    stores = [postgres(), neo4j()]
    load(save(BEFORE, snapshots), snapshots, stores, 100)
    after = save(AFTER, snapshots)
    found: dict[str, int] = {}
    select = TableStore.select

    def counted(self: TableStore, snapshot, names, values, columns):
        rows = select(self, snapshot, names, values, columns)
        found[snapshot.paths[0].partition("/")[0]] = len(rows)
        return rows

    def refused(self: TableStore, *read: object) -> None:
        raise AssertionError(read)

    monkeypatch.setattr(TableStore, "select", counted)
    monkeypatch.setattr(TableStore, "read_arrow", refused)
    monkeypatch.setattr(TableStore, "read_batches", refused)
    load(after, snapshots, stores, 100)
    read = {name: rows for name, rows in found.items() if rows}
    # They are the place and the properties of one that is described otherwise, and the header of
    # the first text unit, whose vector says which model made it. Everything else is read as it is
    # found to differ.
    assert read == {"layout": 1, "entity_properties": 1, "text_unit_headers": 1}


NOTHING = Manifest("index")


def test_old_versions_are_forgotten(snapshots: SnapshotStore):
    versions = LoadedVersions(snapshots)
    tables = save(BEFORE, snapshots).tables
    newest = LoadedVersion(tables, ["code"], 5, {"MET": 1})
    folder = snapshots.root / FOLDER
    folder.mkdir()
    (folder / "nodes-earlier.parquet").touch()  # by an earlier version of the software
    for number in range(KEPT + 3):
        versions.keep(f"version-{number}", replace(newest, max_types=number))
    assert len(list(folder.iterdir())) == KEPT
    assert versions.find("version-0", NOTHING) is None
    assert versions.find(f"version-{KEPT + 2}", NOTHING) == replace(newest, max_types=KEPT + 2)
    versions.forget()
    assert versions.find(f"version-{KEPT + 2}", NOTHING) is None


def test_the_newest_version_stays_whatever_the_clocks_of_others_say(snapshots: SnapshotStore):
    versions = LoadedVersions(snapshots)
    loaded = LoadedVersion(save(BEFORE, snapshots).tables, ["code"], 5, {"MET": 1})
    for number in range(KEPT):
        versions.keep(f"version-{number}", loaded)
        os.utime(snapshots.root / FOLDER / f"version-{number}.json", (2**32, 2**32))
    versions.keep("newest", loaded)
    assert versions.find("newest", NOTHING) == loaded
    assert len(list((snapshots.root / FOLDER).iterdir())) == KEPT
