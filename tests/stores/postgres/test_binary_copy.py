"""The encoder against PostgreSQL itself: what is copied in is what a plain read finds."""

from typing import Any

import numpy as np
import pandas as pd
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pgvector.psycopg import register_vector

from pipeline.stores import binary_copy
from pipeline.stores.binary_copy import Kind, copy_stream, encoded_rows
from tests.sizes import size

KINDS: dict[str, Kind] = {
    "name": "text", "units": "text[]", "small": "int4", "large": "int8", "weight": "float8",
    "data": "jsonb",
    "vector": "vector",
}  # fmt: skip

text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
number = st.floats(allow_nan=False, allow_infinity=False)
rows = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.none() | text,
            "units": st.none() | st.lists(text, max_size=4),
            "small": st.integers(-(2**31), 2**31 - 1),
            "large": st.integers(-(2**63), 2**63 - 1),
            "weight": number,
            "data": st.dictionaries(
                text, st.none() | st.booleans() | st.integers(-9, 9) | text, max_size=3
            ),
            "vector": st.lists(st.floats(-1e9, 1e9, width=32), min_size=3, max_size=3),
        }
    ),
    max_size=9,
)


@pytest.fixture(scope="module")
def connection(postgres_url: str):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        register_vector(connection)
        columns = ", ".join(f"{name} {kind}" for name, kind in KINDS.items())
        connection.execute(f"CREATE TEMPORARY TABLE copied (place text, {columns})")
        yield connection


def _frame(table: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(table, columns=list(KINDS))
    return frame.assign(vector=[np.array(vector, np.float32) for vector in frame["vector"]])


@settings(
    deadline=None,
    max_examples=size(15, 60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(table=rows)
def test_rows_that_are_copied_in_are_read_back_equal(
    connection: psycopg.Connection, table: list[dict[str, Any]]
):
    connection.execute("TRUNCATE copied")
    with connection.cursor().copy("COPY copied FROM STDIN (FORMAT BINARY)") as copy:
        for _, piece in copy_stream(_frame(table), KINDS, ["Ω"]):
            copy.write(piece)
    found = connection.execute("SELECT * FROM copied").fetchall()
    for wanted, (place, *cells) in zip(table, found, strict=True):
        assert place == "Ω"
        *plain, vector = cells
        assert plain == [wanted[name] for name in KINDS][:-1]
        assert np.array_equal(vector.to_numpy(), np.array(wanted["vector"], np.float32))


@settings(deadline=None, max_examples=size(15, 60))
@given(table=rows)
def test_rows_are_encoded_alike_whatever_comes_before_them(table: list[dict[str, Any]]):
    frame = _frame(table)
    together = [row for part in encoded_rows(frame, KINDS) for row in part.to_pylist()]
    apart = [
        next(encoded_rows(frame.iloc[[place]], KINDS))[0].as_py() for place in range(len(frame))
    ]
    assert together == apart


def test_many_rows_come_in_parts(monkeypatch: pytest.MonkeyPatch):
    frame = pd.DataFrame({"id": [f"id-{number}" for number in range(25)]})
    whole = b"".join(piece for _, piece in copy_stream(frame, {"id": "text"}))
    monkeypatch.setattr(binary_copy, "ROWS_AT_ONCE", 7)
    parts = list(copy_stream(frame, {"id": "text"}))
    assert b"".join(piece for _, piece in parts) == whole
    assert [rows for rows, _ in parts] == [0, 7, 7, 7, 4, 0]
