"""Rows without their vectors have the hashes of those with them, in whatever order the vectors come."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.contract.schemas import EMBEDDINGS
from pipeline.errors import DataError
from pipeline.load.desired_rows import VECTORS_OF, DesiredRows
from pipeline.snapshots import tables as snapshot_files
from pipeline.snapshots.store import Manifest, SnapshotStore
from tests.load.tables import corpus, save

PEOPLE = [f"Person {number}" for number in range(7)]
CORPUS = corpus(
    {f"{name}.txt": f"{name} wrote this." for name in PEOPLE},
    dict.fromkeys(PEOPLE, "person"),
    [(one, other, ["met"]) for one in PEOPLE[:3] for other in PEOPLE[3:]],
)


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DesiredRows:
    monkeypatch.setattr(snapshot_files, "BATCH_ROWS", 3)
    snapshots = SnapshotStore(tmp_path)
    return DesiredRows(save(CORPUS, snapshots), snapshots, 100)


def with_embeddings(wanted: DesiredRows, places: slice | list[int] | np.ndarray) -> DesiredRows:
    """Some of the rows of each table of vectors, in this order."""
    tables = dict(wanted.manifest.tables)
    for name in VECTORS_OF.values():
        some = wanted.snapshots.read(tables[name]).iloc[places]
        tables[name] = wanted.snapshots.write(name, EMBEDDINGS.encode(some, name))
    return replace(wanted, manifest=Manifest("index", tables, wanted.manifest.steps))


def test_vectors_are_told_from_what_the_tables_are_made_of():
    assert VECTORS_OF == {
        "chunks": "text_unit_embeddings", "entities": "entity_embeddings", "relationships": "relationship_embeddings",
        "reports": "report_embeddings",
    }  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("table", ["documents", *VECTORS_OF])
def test_rows_are_hashed_with_vectors_that_are_not_held(wanted: DesiredRows, table: str, reverse: bool):
    shown = with_embeddings(wanted, slice(None, None, -1)) if reverse else wanted
    rows, hashed = wanted.rows(table), shown.hashed(table)
    assert "embedding" not in hashed
    assert hashed["row_hash"].tolist() == rows["row_hash"].tolist()
    some = hashed.iloc[::2]
    again = shown.with_vectors(table, some)
    assert again.columns.tolist() == [*hashed.columns, *(["embedding"] if table in VECTORS_OF else [])]
    if table in VECTORS_OF:
        expected = dict(zip(rows["id"], map(list, rows["embedding"]), strict=True))
        assert [list(vector) for vector in again["embedding"]] == [expected[id] for id in some["id"]]
    assert shown.with_vectors(table, hashed[:0]).empty


@pytest.mark.parametrize("table", VECTORS_OF)
def test_a_row_without_a_vector_is_told(wanted: DesiredRows, table: str):
    with pytest.raises(DataError, match="1 rows lack their text or vector"):
        with_embeddings(wanted, slice(1, None)).hashed(table)
