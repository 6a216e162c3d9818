"""No wall at 2^31: a column of more than 2 GiB of text, or of more than 2^31 floats.

The limit is Arrow's, of offsets of 32 bits, and cannot be lowered; memory that nobody has written
to costs nothing, and takes columns beyond it here.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pipeline.contract.schemas
from pipeline.contract.cells import vector_column
from pipeline.contract.schemas import EMBEDDINGS, ENTITIES, TEXTS, TableSchema, is_list
from pipeline.load.projection import edge_types, nodes
from pipeline.load.row_hashes import with_hashes
from pipeline.snapshots.store import SnapshotStore
from pipeline.stores.binary_copy import copy_stream, encoded_rows
from pipeline.stores.list_columns import frame_of, to_arrow
from tests.projects import ProjectFolder, new_project
from tests.sizes import only_whole

WALL = 2**31
DIMENSIONS = 2048
ROWS = WALL // DIMENSIONS + 3
TEXT_BYTES = 2**20
TEXT_ROWS = WALL // TEXT_BYTES + 3
SCHEMAS = {
    name: value
    for name, value in vars(pipeline.contract.schemas).items()
    if isinstance(value, TableSchema) and value.columns
}
every_schema = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)

NARROW = {pa.string(), pa.binary()}


def narrow(kind: pa.DataType) -> bool:
    """Whether offsets of 32 bits are anywhere in the type."""
    if pa.types.is_nested(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
        return pa.types.is_list(kind) or any(narrow(field.type) for field in fields)
    return kind in NARROW


def narrowed(kind: pa.DataType) -> pa.DataType:
    """The type as tables had it before."""
    if is_list(kind):
        return pa.list_(pa.field("element", narrowed(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, narrowed(field.type)) for field in kind])
    return pa.string() if pa.types.is_large_string(kind) else kind


def names(rows: int) -> np.ndarray:
    return np.char.zfill(np.arange(rows).astype(str), 9)


def huge_vectors() -> pd.DataFrame:
    """More than 2^31 floats, none of which is in memory."""
    return pd.DataFrame(
        {"id": names(ROWS), "vector": vector_column(np.zeros((ROWS, DIMENSIONS), dtype=np.float32))}
    )


def huge_texts() -> pd.DataFrame:
    """More than 2 GiB of zeros, none of which is in memory."""
    ends = pa.py_buffer(np.arange(TEXT_ROWS + 1, dtype=np.int64) * TEXT_BYTES)
    content = pa.py_buffer(np.zeros(TEXT_ROWS * TEXT_BYTES, dtype=np.uint8))
    texts = pa.LargeStringArray.from_buffers(TEXT_ROWS, ends, content)
    return pd.DataFrame(
        {"id": names(TEXT_ROWS), "text": pd.Series(texts, dtype=pd.ArrowDtype(pa.large_string()))}
    )


def test_more_floats_than_2_to_the_31_are_a_table_and_rows_of_a_store():
    table = EMBEDDINGS.encode(huge_vectors(), "vectors")
    assert len(table) * DIMENSIONS > WALL
    frame = frame_of(table)
    assert len(to_arrow(frame["vector"]).flatten()) > WALL
    last = frame.iloc[-2:].rename(columns={"vector": "embedding"})
    assert with_hashes(last)["row_hash"].nunique() == 2
    (rows,) = encoded_rows(last, {"id": "text", "embedding": "vector"})
    assert pa.compute.binary_length(rows).to_pylist() == [4 + 9 + 4 + 4 + 4 * DIMENSIONS] * 2


def test_more_than_2_gib_of_text_are_a_table_and_rows_of_a_store():
    table = TEXTS.encode(huge_texts(), "texts")
    assert table.num_rows * TEXT_BYTES > WALL
    frame = frame_of(table)
    (rows,) = encoded_rows(frame.iloc[-2:], {"id": "text", "text": "text"})
    assert pa.compute.binary_length(rows).to_pylist() == [4 + 9 + 4 + TEXT_BYTES] * 2


@every_schema
def test_no_table_has_offsets_of_32_bits_on_its_way(schema: TableSchema, tmp_path: Path):
    assert not [field.name for field in schema.arrow if narrow(field.type)]
    store, table = SnapshotStore(tmp_path), schema.encode(blank(schema), "rows")
    snapshot = store.tables.write("rows", table)
    read = store.tables.read_arrow(snapshot)
    for found in (
        read,
        pa.Table.from_batches(store.tables.read_batches(snapshot)),
        schema.joined(read, read[:0]),
    ):
        assert found.schema.equals(schema.arrow)
        assert found.equals(table)


@every_schema
def test_a_snapshot_has_the_bytes_it_had_with_offsets_of_32_bits(
    schema: TableSchema, tmp_path: Path
):
    table = schema.encode(blank(schema), "rows")
    before = pa.schema([(field.name, narrowed(field.type)) for field in schema.arrow])
    assert any(map(narrow, before.types))
    store = SnapshotStore(tmp_path)
    assert (
        store.tables.write("now", table).sha256
        == store.tables.write("then", table.cast(before)).sha256
    )
    assert schema.describe()[: len(before)] == [[field.name, str(field.type)] for field in before]


def blank(schema: TableSchema) -> pd.DataFrame:
    """Some thousand rows, so that dictionaries and pages end within a column."""
    return pd.DataFrame(
        {
            field.name: pd.Series([cell(field.type, row) for row in range(3000)], dtype=object)
            for field in schema.arrow
        }
    )


def cell(kind: pa.DataType, row: int) -> Any:
    if is_list(kind):
        return (
            None
            if row % 7 == 3
            else [cell(kind.value_type, row + place) for place in range(row % 4)]
        )
    if pa.types.is_struct(kind):
        return {field.name: cell(field.type, row) for field in kind}
    if pa.types.is_large_string(kind):
        return f"{row:06}" * (1 + row % 90)
    if pa.types.is_boolean(kind):
        return row % 2 == 0
    return row if pa.types.is_integer(kind) else row / 2


def test_types_and_keywords_of_a_store_are_read_as_wide():
    entities = frame_of(ENTITIES.encode(blank(ENTITIES), "entities"))
    assert len(nodes(entities)) == len(entities)
    assert edge_types(entities["text_unit_ids"])[1] == "000001000001"


@only_whole("takes 12 GB of memory and some minutes")
def test_a_run_over_more_than_2_gib_of_documents(tmp_path: Path):
    """Read, written, read again, and after an edit the same as a fresh run."""
    with documents_project(tmp_path / "project").open() as project:
        assert project.index("read").outcome == "completed"
        snapshot = project.snapshots.manifest("read").tables["documents"]
        texts = project.table("documents", "read")["text"]
        assert (len(texts), texts.str.len().sum()) == (TEXT_ROWS, TEXT_ROWS * TEXT_BYTES)
        del texts
        table = project.snapshots.tables.read_arrow(snapshot)
    turned = table.take(pa.array(np.arange(table.num_rows)[::-1]))
    assert sum(len(chunk) for chunk in pieces(turned)) > WALL
    again = SnapshotStore(tmp_path / "again")
    schema = pipeline.contract.schemas.DOCUMENTS
    assert again.write("documents", schema.joined(turned)).sha256 == snapshot.sha256


def documents_project(root: Path) -> ProjectFolder:
    project = new_project(root, "postgresql://nobody@localhost/none", {})
    (root / "workflows" / "read.yaml").write_text(
        "name: read\nsteps:\n  - verb: load_documents\n", encoding="utf-8"
    )
    words = "The keeper of the light wrote to his sister about the storm. "
    text = (words * (TEXT_BYTES // len(words) + 1))[: TEXT_BYTES - 8]
    for number in range(TEXT_ROWS):
        project.write(f"{number:05}.txt", f"{number:07} {text}")
    return project


def pieces(table: pa.Table) -> Iterator[bytes]:
    kinds: Any = {"id": "text", "text": "text"}
    for start in range(0, table.num_rows, 100):
        yield from (piece for _, piece in copy_stream(frame_of(table.slice(start, 100)), kinds))


@only_whole("takes 19 GB of memory and some minutes")
def test_a_snapshot_of_more_floats_than_2_to_the_31(tmp_path: Path):
    store = SnapshotStore(tmp_path)
    snapshot = store.tables.write("vectors", EMBEDDINGS.encode(huge_vectors(), "vectors"))
    table = store.tables.read_arrow(snapshot)
    assert len(frame_of(table)) == ROWS
    assert pq.ParquetFile(tmp_path / snapshot.files[0].path).metadata.num_rows == ROWS
    kinds: Any = {"id": "text", "vector": "vector"}
    sent = sum(len(piece) for _, piece in copy_stream(frame_of(table), kinds))
    assert sent > 4 * WALL
