from pathlib import Path

import pandas as pd
import pytest

from pipeline.export.kinds import FILES, export
from tests.export.hostile import hostile_tables, source_of


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False)


def test_csv_files_have_the_values_of_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.snapshots.table_rows.BATCH_ROWS", 4)
    tables = hostile_tables()
    source = source_of(tables, tmp_path)
    exported = export("csv", source, tmp_path / "out")
    names = {"nodes": "entities", "edges": "relationships"}
    names |= {
        name: name
        for name in ("communities", "documents", "text_units", "statements", "attributes")
    }
    assert exported.files == {f"{file}.csv": len(tables[table]) for file, table in names.items()}
    degree = tables["entities"].set_index("id")["degree"]
    for file, table in names.items():
        found, known = (
            read(exported.folder / f"{file}.csv"),
            source.snapshots.tables.read(source.manifest.tables[table]),
        )
        if table == "relationships":
            known["rank"] = known["source_entity_id"].map(degree) + known["target_entity_id"].map(
                degree
            )
        for name in set(found.columns) & set(known.columns):
            cells = [
                cell if isinstance(cell, str | int | float) else "; ".join(cell)
                for cell in known[name]
            ]
            if (table, name) == ("attributes", "value"):
                # A file has no types: digits that are a text are read as a number.
                cells = [int(cell) for cell in cells]
            assert found[name].tolist() == cells, (file, name)


def test_a_workflow_with_a_graph_only_writes_nodes_and_edges(tmp_path: Path):
    tables = hostile_tables()
    source = source_of(
        {name: tables[name] for name in ("entities", "relationships", "text_unit_embeddings")},
        tmp_path,
    )
    exported = export("csv", source, tmp_path / "out")
    assert list(exported.files) == ["nodes.csv", "edges.csv"]
    assert list(read(exported.folder / "nodes.csv")) == list(FILES["nodes.csv"].columns)


def test_nodes_have_columns_of_their_communities_and_places(tmp_path: Path):
    tables = hostile_tables()
    one = tables["entities"]["id"][0]
    tables["placed_nodes"] = tables["placed_nodes"].query("entity_id != @one or level == 0")
    exported = export("csv", source_of(tables, tmp_path), tmp_path / "out")
    nodes = pd.read_csv(exported.folder / "nodes.csv", index_col="id")
    known = tables["placed_nodes"].set_index(["entity_id", "level"])
    assert pd.isna(nodes.loc[one, "community_1"])
    assert nodes.loc[one, "level"] == 0
    for entity, node in nodes.drop(one).iterrows():
        placed = known.loc[(entity, 1)]
        assert (node["level"], node["community"]) == (1, placed["community_id"])
        for level in (0, 1):
            assert node[f"community_{level}"] == known.loc[(entity, level), "community_id"]
        assert node[["x", "y"]].astype(float).equals(placed[["x", "y"]].astype(float))
    communities = pd.read_csv(exported.folder / "communities.csv", index_col="id")
    assert set(nodes["community"]) | set(nodes["community_0"]) <= set(communities.index)


def test_nodes_without_a_layout_have_no_columns_of_places(tmp_path: Path):
    tables = hostile_tables()
    del tables["placed_nodes"]
    nodes = read(export("csv", source_of(tables, tmp_path), tmp_path / "out").folder / "nodes.csv")
    assert {"x", "y"}.isdisjoint(nodes.columns)
    assert (nodes["community"] == nodes["community_1"]).all()
