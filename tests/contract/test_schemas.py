import random
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pipeline.contract.schemas
from pipeline.contract.cells import as_frame
from pipeline.contract.schemas import (
    DOCUMENTS,
    EMBEDDINGS,
    MENTIONS,
    STRING,
    TEXTS,
    TableSchema,
    at_least,
    is_list,
    is_text,
)
from pipeline.errors import DataError
from tests.sizes import size

SCHEMAS = {
    name: value
    for name, value in vars(pipeline.contract.schemas).items()
    if isinstance(value, TableSchema)
}
every_schema = pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
few = settings(
    max_examples=size(5, 12), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def values(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if is_text(kind):
        return text
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_int64(kind):
        return st.integers(-(2**63), 2**63 - 1)
    if pa.types.is_float64(kind):
        return st.floats(allow_nan=False)
    if pa.types.is_float32(kind):
        return st.floats(width=32, allow_nan=False)
    if pa.types.is_struct(kind):
        return st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    assert is_list(kind)
    return st.lists(values(kind.value_type), max_size=3)


def rows(schema: TableSchema) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries({field.name: values(field.type) for field in schema.arrow})
    return st.lists(row, max_size=6, unique_by=lambda row: tuple(row[name] for name in schema.key))


def parquet(table: pa.Table) -> bytes:
    buffer = BytesIO()
    pq.write_table(table, buffer, store_schema=False)
    return buffer.getvalue()


@every_schema
@few
@given(data=st.data())
def test_a_table_is_the_same_after_decode_and_encode(schema: TableSchema, data: st.DataObject):
    table = schema.encode(schema.frame(data.draw(rows(schema))), "rows")
    assert table.schema.equals(schema.arrow, check_metadata=True)
    assert schema.encode(table.to_pandas(), "rows").equals(table)


@every_schema
@few
@given(data=st.data())
def test_a_parquet_round_trip_keeps_every_byte(schema: TableSchema, data: st.DataObject):
    written = parquet(schema.encode(schema.frame(data.draw(rows(schema))), "rows"))
    read = pq.read_table(BytesIO(written)).to_pandas()
    assert parquet(schema.encode(read, "rows")) == written


@every_schema
@few
@given(data=st.data(), seed=st.integers())
def test_the_order_of_the_input_rows_is_forgotten(
    schema: TableSchema, data: st.DataObject, seed: int
):
    drawn = data.draw(rows(schema))
    shuffled = random.Random(seed).sample(drawn, len(drawn))
    assert schema.encode(schema.frame(drawn), "rows").equals(
        schema.encode(schema.frame(shuffled), "rows")
    )


@every_schema
def test_a_table_without_rows_has_typed_columns(schema: TableSchema):
    empty = schema.frame()
    assert list(empty.columns) == schema.columns
    assert schema.encode(empty, "rows").schema == schema.arrow
    assert schema.encode(pd.DataFrame(columns=schema.columns), "rows").schema == schema.arrow


@every_schema
@pytest.mark.parametrize("n_rows", [0, 1])
def test_a_missing_or_unknown_column_is_a_data_error(schema: TableSchema, n_rows: int):
    frame = pd.DataFrame({name: [None] * n_rows for name in schema.columns})
    for column in [name for name in schema.columns if name not in schema.optional]:
        with pytest.raises(DataError, match=rf"step 'x': missing columns \['{column}'\]"):
            schema.encode(frame.drop(columns=column), "step 'x'")
    with pytest.raises(DataError, match=r"unknown columns \['colour'\]"):
        schema.encode(frame.assign(colour=""), "step 'x'")


def test_columns_that_a_table_may_lack_are_there_and_empty():
    six = ("d", "Mill", "text", "mill.txt", "{}", "hash")
    frame = pd.DataFrame([six], columns=DOCUMENTS.columns[: len(six)])
    given = dict(zip(DOCUMENTS.columns, six, strict=False))
    assert DOCUMENTS.encode(frame, "rows").to_pylist() == [
        given | dict.fromkeys(DOCUMENTS.optional)
    ]
    texts = {"title_from": "", "date": "", "date_from": ""}
    for made in (DOCUMENTS.frame([six]), DOCUMENTS.seen(frame)):
        assert DOCUMENTS.filled(made, "rows").to_dict("records") == [
            given | texts | {"aliases": ()}
        ]
    assert "title_from" not in frame


@pytest.mark.parametrize("value", [7, "\ud800", b"\xff"])
def test_a_value_that_is_no_text_is_a_data_error(value: object):
    frame = pd.DataFrame({"id": ["a"], "text": pd.Series([value], dtype=object)})
    with pytest.raises(DataError, match="step 'x'"):
        TEXTS.encode(frame, "step 'x'")


@pytest.mark.parametrize("value", [2**63, "seven", 1.5])
def test_a_value_that_is_no_integer_is_a_data_error(value: object):
    frame = pd.DataFrame({"entity_id": ["e"], "text_unit_id": ["t"], "frequency": [value]})
    with pytest.raises(DataError, match="step 'x'"):
        MENTIONS.encode(frame, "step 'x'")


def test_a_key_of_mixed_types_is_a_data_error():
    frame = pd.DataFrame({"id": pd.Series(["a", 1], dtype=object), "text": ["x", "y"]})
    with pytest.raises(DataError, match="step 'x'"):
        TEXTS.encode(frame, "step 'x'")


def test_vectors_may_be_lists_or_arrays():
    lists = EMBEDDINGS.frame([("a", [0.5, 1.0])])
    arrays = EMBEDDINGS.frame([("a", np.array([0.5, 1.0], dtype=np.float32))])
    assert EMBEDDINGS.encode(lists, "x").equals(EMBEDDINGS.encode(arrays, "x"))


def test_rows_are_sorted_by_code_point():
    frame = TEXTS.frame([(id, "") for id in ["b", "a", "é", "B", "中", "\U0001f600", "\uffee"]])
    assert frame["id"].tolist() == ["B", "a", "b", "é", "中", "\uffee", "\U0001f600"]


@given(
    parts=st.lists(
        st.lists(st.tuples(*[st.none() | st.sampled_from(["", "a", "é", "中", "B"])] * 3)),
        min_size=1,
        max_size=3,
    )
)
def test_rows_of_texts_are_in_the_order_of_pandas(parts: list[list[tuple[str | None, ...]]]):
    columns = ["one", "two", "place"]
    text_columns = [(name, pa.large_string()) for name in columns]
    schema = TableSchema(pa.schema(text_columns), key=("one", "two"))
    frames = [pd.DataFrame(rows, columns=columns, dtype="str") for rows in parts]
    tables = [schema.encode(frame, "rows") for frame in frames]
    together = pd.concat(frames, ignore_index=True)
    expected = together.sort_values(["one", "two"], kind="stable", ignore_index=True)
    pd.testing.assert_frame_equal(as_frame(schema.joined(*tables)), expected)


def test_rows_of_a_schema_without_a_key_keep_their_order():
    schema = at_least(id=STRING)
    tables = [schema.encode(pd.DataFrame({"id": ids}), "rows") for ids in (["b", "a"], ["0"])]
    assert schema.joined(*tables)["id"].to_pylist() == ["b", "a", "0"]


def test_the_columns_that_are_seen_may_be_changed():
    frame = TEXTS.frame([("a", "first"), ("b", "second")])
    seen = TEXTS.seen(frame)
    seen.loc[0, "text"] = "changed"
    seen["more"] = 1
    assert frame["text"].tolist() == ["first", "second"]
    assert frame.columns.tolist() == TEXTS.columns


def test_a_description_names_what_can_change_a_result():
    assert TEXTS.describe() == [["id", "string"], ["text", "string"], ["key", "id"]]
