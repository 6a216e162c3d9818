import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import DataError, GraphmillError, SettingsError
from pipeline.verbs.join_documents import JoinTableParams, join_documents, table_digest
from pipeline.verbs.load_documents import LoadParams, load_documents
from tests.verbs.documents import documents, metadata_of

CORPUS = documents(
    a={"department": "sales", "owner": "nobody"},
    b={"department": 7},
    c={"department": "law"},
    d={},
    e={"department": []},
)
ROWS = [
    {"department": "sales", "owner": "Ada", "floor": 2},
    {"department": "7", "owner": "Otto", "floor": None},
]
JOINED = {
    "a": {"department": "sales", "owner": "Ada", "floor": 2},
    "b": {"department": 7, "owner": "Otto"},
    "c": {"department": "law"},
    "d": {},
    "e": {"department": []},
}


def joined(path: Path, on: str = "department", **params: str) -> dict[str, Any]:
    found = join_documents(
        CORPUS, JoinTableParams.model_validate({"path": str(path), "on": on, **params})
    )
    return metadata_of(found)


@pytest.mark.parametrize("kind", ["json", "jsonl", "parquet"])
def test_columns_of_the_table_become_metadata(tmp_path: Path, kind: str):
    path = tmp_path / f"owners.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), path)
    else:
        lines = "\n".join(map(json.dumps, ROWS))
        path.write_text(lines if kind == "jsonl" else json.dumps(ROWS))
    assert joined(path) == JOINED


def test_cells_of_a_csv_are_texts_and_empty_ones_replace_nothing(tmp_path: Path):
    path = tmp_path / "owners.CSV"
    path.write_text("department;owner;floor\n sales ;;2\n7;Otto;\n;Nobody;9\n")
    assert joined(path) == {
        **JOINED,
        "a": {"department": "sales", "owner": "nobody", "floor": "2"},
        "b": {"department": 7, "owner": "Otto"},
    }


@pytest.mark.parametrize(
    ("on", "value"), [("source", "a.txt"), ("title", "A"), ("id", CORPUS["id"].min())]
)
def test_a_table_may_be_joined_on_a_column_of_the_documents(tmp_path: Path, on: str, value: str):
    path = tmp_path / "owners.csv"
    path.write_text(f"file,owner\n{value},Ada\n")
    found = join_documents(
        CORPUS, JoinTableParams(path="owners.csv", on=on, key="file", root=str(tmp_path))
    )
    (row,) = [
        index
        for index, cell in enumerate(found["metadata"])
        if json.loads(cell).get("owner") == "Ada"
    ]
    assert found[on][row] == value


@pytest.mark.parametrize(
    ("encoding", "given"),
    [("gb18030", ""), ("cp1252", "cp1252"), ("utf-8-sig", ""), ("utf-16", "")],
)
def test_a_table_is_read_in_its_encoding_given_or_detected(
    tmp_path: Path, encoding: str, given: str
):
    path = tmp_path / "owners.csv"
    owner = "奥托在河边写信" if encoding == "gb18030" else "Zoë"
    path.write_text(f"department,owner\nsales,{owner}\n", encoding=encoding)
    assert joined(path, encoding=given)["a"]["owner"] == owner


def test_values_that_json_lacks_become_metadata_that_it_has(tmp_path: Path):
    path = tmp_path / "owners.parquet"
    row = {
        "department": "sales", "day": date(2020, 1, 31), "at": datetime(2020, 1, 31, 12),
        "price": Decimal("1.50"),
        "ratio": float("nan"), "tags": ["a\x00b", None], "deep": {"x": 1.5},
    }  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row]), path)
    assert joined(path)["a"] == {
        "department": "sales", "owner": "nobody", "day": "2020-01-31", "at": "2020-01-31T12:00:00",
        "price": "1.50",
        "tags": ["ab", None], "deep": {"x": 1.5},
    }  # fmt: skip


def test_a_document_without_a_row_in_the_table_is_unchanged(tmp_path: Path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_text(
        '{"id": 1, "text": "é", "z": [1, {"b": null}], "department": "x"}\n'
    )
    (tmp_path / "owners.csv").write_text("department,owner\ny,Ada\n")
    loaded, _ = load_documents(LoadParams(path=str(tmp_path / "in")))
    found = join_documents(
        loaded, JoinTableParams(path=str(tmp_path / "owners.csv"), on="department")
    )
    pd.testing.assert_frame_equal(found, loaded)


def test_the_stamp_follows_the_content_of_the_table(tmp_path: Path):
    path = tmp_path / "owners.csv"
    params = JoinTableParams(path="owners.csv", on="department", root=str(tmp_path))
    path.write_text("department,owner\nsales,Ada\n")
    first = table_digest(params)
    path.write_text("department,owner\nsales,Otto\n")
    assert table_digest(params) != first
    path.write_text("department,owner\nsales,Ada\n")
    assert table_digest(params) == first
    assert "root" not in params.model_dump()


@pytest.mark.parametrize(
    ("name", "content", "error", "message"),
    [
        ("none.csv", None, SettingsError, "none.csv: no such file; put the table there"),
        ("owners.xlsx", b"x", SettingsError, r"'.xlsx' is no kind of table; give one of .csv"),
        (
            "o.csv",
            b"department,owner\nx,1\ny,2\nx,3\n",
            DataError,
            "o.csv:4: 'department' is 'x' as at 2; keep one",
        ),
        (
            "o.csv",
            b"dept,owner\nx,1\n",
            DataError,
            "o.csv: columns .* lack 'department' .*; set key",
        ),
        ("o.csv", b"department,owner\nx,1,2\n", DataError, "o.csv:2: 3 fields for 2 columns"),
        (
            "o.csv",
            b"\x00\x01\x02\xff" * 50,
            DataError,
            "o.csv: in no encoding that is known here; convert it",
        ),
        ("o.json", b'[{"dept": 1}]', DataError, "o.json: no column 'department'; set key"),
        (
            "o.json",
            b'[{"department": 1}, {"department": "1"}]',
            DataError,
            "o.json:2: 'department' is '1' as at 1",
        ),
        ("o.json", b"[1]", DataError, "o.json:1: not an object"),
        ("o.jsonl", b'{"department": 1}\n{', DataError, "o.jsonl:2: not JSON"),
        ("o.parquet", b"no parquet", DataError, "o.parquet: not Parquet"),
    ],
)
def test_an_unusable_table_raises_an_error(
    tmp_path: Path, name: str, content: bytes | None, error: type[GraphmillError], message: str
):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=message):
        joined(path)


def test_a_wrong_encoding_raises_an_error(tmp_path: Path):
    path = tmp_path / "owners.csv"
    path.write_bytes(b"department,owner\nsales,\xff\n")
    for encoding in ("utf-8", "nonsense"):
        with pytest.raises(
            DataError, match=f"not in {encoding}; convert it to UTF-8 or set the step's encoding"
        ):
            joined(path, encoding=encoding)
