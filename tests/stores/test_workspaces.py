"""Workspaces of one database: listed, dropped one by one, also while others are read and loaded."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pandas as pd
import pytest
from sqlalchemy import func, select, text

from pipeline.load.loader import load
from pipeline.snapshots.store import Manifest, SnapshotStore
from pipeline.stores.postgres.schema import CHUNKS, TABLES, VECTOR_TABLES, name_partition
from pipeline.stores.postgres.store import PostgresStore
from tests.load.tables import corpus, save

CORPUS = corpus(
    {"a.txt": "Ada met Babbage."},
    {"Ada": "person", "Babbage": "person"},
    [("Ada", "Babbage", ["met"])],
)
ROWS = {
    "documents": 1,
    "chunks": 1,
    "entities": 2,
    "relationships": 1,
    "sources": 3,
    "nodes": 2,
    "edges": 1,
    "reports": 3,
    "claims": 2,
    "statements": 1,
    "attributes": 2,
    "communities": 3,
}

OpenPostgres = Callable[..., PostgresStore]


@pytest.fixture
def manifest(snapshots: SnapshotStore) -> Manifest:
    return save(CORPUS, snapshots)


def contents(store: PostgresStore) -> dict[str, list]:
    """Rows without vectors, and without the places that nothing has given them: no NaN equals
    another."""
    but = ["embedding", "x", "y"]
    parts = {
        table: [part.drop(columns=but, errors="ignore") for part in store.rows(table)]
        for table in TABLES
    }
    return {
        table: pd.concat(found).sort_values("id").to_dict("records")
        for table, found in parts.items()
    }


def partitions(store: PostgresStore) -> list[str]:
    """Those of the workspace that are there."""
    names = [name_partition(table, store.workspace) for table in VECTOR_TABLES.values()]
    with store.connection() as connection:
        return [
            name for name in names if connection.execute(select(func.to_regclass(name))).scalar()
        ]


def test_a_drop_leaves_the_other_workspace_as_it_is(
    postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore
):
    one, other = postgres("-one"), postgres("-other")
    for store in (one, other):
        load(manifest, snapshots, [store], 100)
    before, live = contents(other), other.live()
    listed = one.workspaces()
    assert [name for name in listed if name in (one.workspace, other.workspace)] == [
        one.workspace,
        other.workspace,
    ]
    assert listed[one.workspace] == one.live()
    assert {table: state.rows for table, state in listed[one.workspace].tables.items()} == ROWS

    assert one.drop() == ROWS
    assert one.live() is None
    assert one.workspace not in other.workspaces()
    assert partitions(one) == []
    assert contents(other) == before
    assert (other.live(), len(partitions(other))) == (live, 4)
    assert one.drop() == dict.fromkeys(ROWS, 0)

    assert load(manifest, snapshots, [one], 100)["postgres"]["nodes"]["inserted"] == 2
    assert contents(one) == before


def test_a_partition_that_cannot_be_dropped_stays_and_is_used_again(
    postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore
):
    one, other = postgres("-one"), postgres("-other")
    for store in (one, other):
        load(manifest, snapshots, [store], 100)
    with other.connection() as reader:
        reader.execute(
            text("SELECT count(*) FROM lightrag_chunks")
        )  # holds the table until the block ends
        assert one.drop() == ROWS
        assert partitions(one) == [name_partition(CHUNKS, one.workspace)]
    assert load(manifest, snapshots, [one], 100)["postgres"]["chunks"]["inserted"] == 1
    assert len(partitions(one)) == 4


def test_loads_and_drops_at_the_same_time_do_not_disturb_each_other(
    postgres: OpenPostgres, manifest: Manifest, snapshots: SnapshotStore
):
    """A load may find its partitions before it waits for the lock, and miss them afterwards."""
    store, other = postgres("-one"), postgres("-other")
    load(manifest, snapshots, [other], 100)
    before = contents(other)
    with ThreadPoolExecutor(4) as threads:
        done = [
            threads.submit(store.drop)
            if number % 2
            else threads.submit(load, manifest, snapshots, [store], 100)
            for number in range(16)
        ]
    for future in done:
        future.result()
    load(manifest, snapshots, [store], 100)
    assert contents(store) == before == contents(other)
