from pathlib import Path

import pandas as pd
import pytest

from pipeline.export.kinds import export
from tests.export.hostile import hostile_tables, source_of


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False)


def test_people_find_what_the_tables_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pipeline.snapshots.table_rows.BATCH_ROWS", 4)
    tables = hostile_tables()
    source = source_of(tables, tmp_path)
    exported = export("csv", source, tmp_path / "out")
    names = {"nodes": "entities", "edges": "relationships", "documents": "documents", "text_units": "text_units"}
    assert exported.files == {f"{file}.csv": len(tables[table]) for file, table in names.items()}
    degree = tables["entities"].set_index("id")["degree"]
    for file, table in names.items():
        found, known = read(exported.folder / f"{file}.csv"), source.snapshots.read(source.manifest.tables[table])
        if table == "relationships":
            known["rank"] = known["source_entity_id"].map(degree) + known["target_entity_id"].map(degree)
        for name in found.columns:
            cells = [cell if isinstance(cell, str | int | float) else "; ".join(cell) for cell in known[name]]
            assert found[name].tolist() == cells, (file, name)


def test_only_a_graph(tmp_path: Path):
    tables = hostile_tables()
    source = source_of({name: tables[name] for name in ("entities", "relationships", "text_unit_embeddings")}, tmp_path)
    assert list(export("csv", source, tmp_path / "out").files) == ["nodes.csv", "edges.csv"]
