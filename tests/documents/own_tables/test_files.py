"""The rows of table files, of each kind and in each encoding."""

import json
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest

from pipeline.documents.own_tables.files import read_rows
from pipeline.documents.records import Fault, Record

ROWS = [{"source": "Jürgen Öl", "target": "Straße"}, {"source": "B", "target": "C"}]


def rows(path: Path, encoding: str = "") -> list[dict[str, object]]:
    found = list(read_rows(path, encoding))
    assert all(isinstance(item, Record) for item in found), found
    return [item.fields for item in found if isinstance(item, Record)]


def faults(path: Path) -> list[Fault]:
    return [item for item in read_rows(path) if isinstance(item, Fault)]


def csv_text(separator: str = ",") -> str:
    lines = [separator.join(row.values()) for row in ROWS]
    return "\n".join([separator.join(ROWS[0]), *lines, ""])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_csv_is_read_in_each_encoding(tmp_path: Path, encoding: str):
    path = tmp_path / "a.csv"
    path.write_bytes(csv_text(";").encode(encoding))
    assert rows(path) == ROWS


def test_an_encoding_that_is_named_is_used(tmp_path: Path):
    path = tmp_path / "a.tsv"
    path.write_bytes(csv_text("\t").encode("cp850"))
    assert rows(path, "cp850") == ROWS


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_lines_are_read_in_each_encoding(tmp_path: Path, encoding: str):
    path = tmp_path / "a.jsonl"
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in ROWS)
    path.write_bytes(text.encode(encoding))
    assert rows(path) == ROWS


def test_json_and_parquet_are_read(tmp_path: Path):
    (tmp_path / "a.json").write_text(json.dumps(ROWS), "utf-8")
    pd.DataFrame(ROWS).to_parquet(tmp_path / "a.parquet")
    assert rows(tmp_path / "a.json") == rows(tmp_path / "a.parquet") == ROWS


def test_a_line_that_is_no_object_is_a_fault_at_its_line(tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"source": "A"}\n\n[1]\nnonsense\n{"source": "B"}\n', "utf-8")
    assert [fault.line for fault in faults(path)] == [3, 4]
    lines = [item.line for item in read_rows(path) if isinstance(item, Record)]
    assert lines == [1, 5]


def test_files_that_are_not_what_they_seem_are_faults_without_a_line(tmp_path: Path):
    for name in ("a.parquet", "b.json", "c.csv"):
        (tmp_path / name).write_bytes(b"\x00\x01\x02\xff\xfe" * 400)
    found = [faults(tmp_path / name) for name in ("a.parquet", "b.json", "c.csv")]
    assert [(one[0].reason, one[0].line) for one in found] == [
        ("parse", None),
        ("encoding", None),
        ("encoding", None),
    ]
    cut = (tmp_path / "d.parquet").resolve()
    pd.DataFrame(ROWS).to_parquet(cut)
    cut.write_bytes(cut.read_bytes()[:-20])
    assert [fault.reason for fault in faults(cut)] == ["parse"]


def test_a_file_that_is_gone_is_a_fault(tmp_path: Path):
    assert [fault.reason for fault in faults(tmp_path / "gone.csv")] == ["io_error"]


def test_nodes_and_edges_of_graphml_are_rows(tmp_path: Path):
    graph: Any = nx.MultiDiGraph()
    graph.add_node("n1", label="Jürgen Öl", type="person", born=1835)
    graph.add_node("n2", label="Quill")
    graph.add_node("Alone")
    graph.add_edge("n1", "n2", key="e7", type="LIVED_IN", weight=2.0)
    graph.add_edge("n1", "n2", key="e8", label="knows")
    path = tmp_path / "a.graphml"
    nx.write_graphml(graph, path)
    ends = {"source": "Jürgen Öl", "target": "Quill"}
    assert rows(path) == [
        {"name": "Jürgen Öl", "type": "person", "born": 1835},
        {"name": "Alone"},
        {**ends, "type": "LIVED_IN", "weight": 2.0},
        {**ends, "type": "knows"},
    ]
    for broken in ("", "<graphml", "<html/>", path.read_text("utf-8")[:-40]):
        path.write_text(broken, "utf-8")
        assert [(fault.reason, fault.line) for fault in faults(path)] == [("parse", None)], broken
