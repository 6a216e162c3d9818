"""Rows come part by part, and with the same hashes by their ids, in whatever order the vectors
come."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from pipeline.contract.schemas import EMBEDDINGS
from pipeline.errors import DataError
from pipeline.load import desired_rows
from pipeline.load.desired_rows import VECTORS_OF, DesiredRows
from pipeline.load.projection import TABLE_SOURCES, project
from pipeline.load.row_hashes import with_hashes
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
    monkeypatch.setattr(desired_rows, "PART_ROWS", 3)
    snapshots = SnapshotStore(tmp_path)
    return DesiredRows(save(CORPUS, snapshots), snapshots, 100)


def with_embeddings(wanted: DesiredRows, places: slice) -> DesiredRows:
    """Some of the rows of each table of vectors, in this order."""
    tables = dict(wanted.manifest.tables)
    for name in VECTORS_OF.values():
        some = wanted.snapshots.tables.read_arrow(tables[name]).to_pandas().iloc[places]
        tables[name] = wanted.snapshots.tables.write(
            name, pa.Table.from_pandas(some, EMBEDDINGS.arrow, preserve_index=False)
        )
    return replace(wanted, manifest=Manifest("index", tables, wanted.manifest.steps))


def hashes(rows: pd.DataFrame) -> dict[str, str]:
    return dict(zip(rows["id"], rows["row_hash"], strict=True))


def test_tables_with_vectors_follow_from_their_sources():
    assert VECTORS_OF == {
        "chunks": "text_unit_embeddings", "entities": "entity_embeddings",
        "relationships": "relationship_embeddings",
        "reports": "report_embeddings",
    }  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("table", TABLE_SOURCES)
def test_parts_and_rows_by_id_equal_the_rows_of_the_whole_table(
    wanted: DesiredRows, table: str, reverse: bool
):
    shown = with_embeddings(wanted, slice(None, None, -1)) if reverse else wanted
    whole = with_hashes(project(CORPUS, 100)[table])
    parts = list(shown.parts(table))
    assert max(map(len, parts)) == 3
    assert hashes(pd.concat(parts)) == hashes(whole)
    assert shown.count(table) == len(whole) > 3
    ids = pa.array(whole["id"][::2], pa.large_string())
    some = shown.some(table, ids)
    assert hashes(some) == hashes(whole[::2])
    assert set(some.columns) == set(whole.columns)
    assert shown.some(table, ids[:0]).empty


@pytest.mark.parametrize("table", VECTORS_OF)
@pytest.mark.parametrize("left", [slice(1, None), slice(0)])
def test_a_row_without_a_vector_is_a_data_error(wanted: DesiredRows, table: str, left: slice):
    with pytest.raises(DataError, match="rows lack their text or vector"):
        list(with_embeddings(wanted, left).parts(table))
