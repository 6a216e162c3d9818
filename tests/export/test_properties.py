"""Properties of entities as attributes of nodes, whatever their names and values are."""

import csv
import json
from pathlib import Path
from typing import Any

import networkx as nx
import pandas as pd
import pytest

from pipeline.export.kinds import export
from pipeline.export.neo4j_admin import NODES
from pipeline.export.source import ExportSource
from tests.export.hostile import hostile_tables, source_of

SAID: list[dict[str, Any]] = [
    {"height": 12.5, "founded": "1850", "tags": ["a", "b"], 'a:b,"c': "x"},
    {"height": 9.0, "founded": ["1850", "1851"], "tags": ['a, "b"']},
    {"name": "=SUM(1)", "years": [1, 2], "height": "high"},
]
COLUMNS = {
    "prop_founded:string": ["1850", "", ""],
    "prop_height:string": ["", "", "high"],
    "prop_name:string": ["", "", "=SUM(1)"],
    "prop_tags:string[]": ["a\x1fb", 'a, "b"', ""],
    "prop_years:long[]": ["", "", "1\x1f2"],
}


@pytest.fixture
def source(tmp_path: Path) -> ExportSource:
    tables = hostile_tables()
    ids = tables["entities"]["id"].head(len(SAID))
    cells = [json.dumps(said, sort_keys=True) for said in SAID]
    tables["entity_properties"] = pd.DataFrame({"id": ids, "properties": cells})
    return source_of(tables, tmp_path)


def test_nodes_for_the_import_tool_have_a_typed_column_for_each_property(
    source: ExportSource, tmp_path: Path
):
    folder = export("neo4j-admin", source, tmp_path / "out").folder
    header = (folder / "nodes_header.csv").read_text(encoding="utf-8").strip().split(",")
    assert header == [*NODES, *COLUMNS]
    csv.field_size_limit(10**6)
    with (folder / "nodes.csv").open(encoding="utf-8", newline="") as file:
        nodes = pd.DataFrame(list(csv.reader(file)), columns=header).set_index("id:ID")
    ids = source.table("entity_properties")["id"].to_pylist()
    assert nodes.loc[ids, list(COLUMNS)].to_dict("list") == COLUMNS
    # Each of the first two has values that no column holds: the next load writes these nodes.
    is_whole = nodes["row_hash"] != ""
    assert is_whole[ids].tolist() == [False, False, True]
    assert is_whole.drop(ids).all()


def test_without_properties_there_are_no_such_columns(tmp_path: Path):
    tables = hostile_tables()
    del tables["entity_properties"]
    folder = export("neo4j-admin", source_of(tables, tmp_path), tmp_path / "out").folder
    header = (folder / "nodes_header.csv").read_text(encoding="utf-8").strip().split(",")
    assert header == list(NODES)


def test_networkx_reads_the_properties_of_a_node(source: ExportSource, tmp_path: Path):
    folder = export("graphml", source, tmp_path / "out").folder
    graph = nx.read_graphml(folder / "graph.graphml", force_multigraph=True)
    ids = source.table("entity_properties")["id"].to_pylist()
    found = []
    for id in ids:
        node = graph.nodes[id]
        found.append({name: node[name] for name in node if name.startswith("prop_")})
    assert found == [
        {
            "prop_height": 12.5, "prop_founded": "1850", "prop_tags": "a; b",
            'prop_a:b,"c': "x",
        },
        {"prop_height": 9.0, "prop_founded": "1850; 1851", "prop_tags": 'a, "b"'},
        {"prop_name": "=SUM(1)", "prop_years": "1; 2", "prop_height": "high"},
    ]  # fmt: skip
