"""The bundle has the columns and types of Microsoft GraphRAG 3.x, and its own readers take it."""

import json
import os
import subprocess
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pipeline.contract.schemas import type_name
from pipeline.export.graphrag_parquet import SCHEMAS
from pipeline.export.kinds import export
from pipeline.export.source import ExportReport
from pipeline.load.projection import OPTIONAL
from tests.export.hostile import hostile_tables, source_of

READERS = Path(__file__).with_name("graphrag_readers.py")
DATASETS = "GRAPHMILL_DATASETS"
PYTHON = "GRAPHMILL_GRAPHRAG_PYTHON"


@pytest.fixture
def tables() -> dict[str, pd.DataFrame]:
    return hostile_tables()


@pytest.fixture
def exported(tables: dict[str, pd.DataFrame], tmp_path: Path) -> ExportReport:
    return export("parquet", source_of(tables, tmp_path), tmp_path / "out")


def declared(name: str) -> tuple[list[str], list[str]]:
    return list(SCHEMAS[name]), list(map(type_name, SCHEMAS[name].values()))


def test_every_row_is_written_and_numbered(exported: ExportReport, tables: dict[str, pd.DataFrame]):
    for name in SCHEMAS:
        rows = len(tables[name]) if name in tables else 0
        table = pq.read_table(exported.folder / f"{name}.parquet")
        assert table.num_rows == exported.files[f"{name}.parquet"] == rows
        assert table["human_readable_id"].to_pylist() == list(range(rows))
        assert (table.schema.names, list(map(type_name, table.schema.types))) == declared(name)


def test_rows_refer_to_each_other(exported: ExportReport, tables: dict[str, pd.DataFrame]):
    found = {name: pd.read_parquet(exported.folder / f"{name}.parquet") for name in SCHEMAS}
    (unit,) = found["text_units"].to_dict("records")
    assert sorted(unit["entity_ids"]) == sorted(tables["entities"]["id"])
    assert sorted(unit["relationship_ids"]) == sorted(tables["relationships"]["id"])
    assert [list(ids) for ids in found["documents"]["text_unit_ids"]] == [[unit["id"]]]
    assert set(found["relationships"]["source"]) <= set(found["entities"]["title"])
    numbers = dict(zip(found["communities"]["id"], found["communities"]["community"], strict=True))
    for row in tables["communities"].itertuples():
        community = found["communities"].set_index("id").loc[row.id]
        assert community["parent"] == numbers.get(row.parent, -1)
        assert sorted(community["children"]) == sorted(numbers[child] for child in row.children)
        assert list(community["entity_ids"]) == list(row.entity_ids)


def test_a_workflow_without_communities_writes_empty_files_of_them(tmp_path: Path):
    tables = {name: rows for name, rows in hostile_tables().items() if name not in OPTIONAL}
    exported = export("parquet", source_of(tables, tmp_path), tmp_path / "out")
    for name in ("communities", "community_reports"):
        table = pq.read_table(exported.folder / f"{name}.parquet")
        assert table.num_rows == 0
        assert (table.schema.names, list(map(type_name, table.schema.types))) == declared(name)
    assert not (exported.folder / "covariates.parquet").exists()


def test_reports_and_claims_have_the_columns_of_graphrag(
    exported: ExportReport, tables: dict[str, pd.DataFrame]
):
    found = {name: pd.read_parquet(exported.folder / f"{name}.parquet") for name in SCHEMAS}
    communities = found["communities"].set_index("id")
    told = tables["community_reports"].set_index("id")
    for row in found["community_reports"].itertuples():
        same = communities.loc[row.id]
        assert (row.community, row.level, row.parent) == (
            same["community"],
            same["level"],
            same["parent"],
        )
        assert list(row.children) == list(same["children"])
        assert (row.title, row.full_content, row.rank) == tuple(
            told.loc[row.id, ["title", "content", "rating"]]
        )
        whole = json.loads(row.full_content_json)
        assert (whole["summary"], whole["findings"]) == (row.summary, list(row.findings))
    assert set(found["covariates"]["subject_id"]) == set(tables["entities"]["name"])
    [ids] = found["text_units"]["covariate_ids"]
    assert sorted(ids) == sorted(found["covariates"]["id"])


def test_the_layout_is_that_of_recorded_outputs():
    folder = Path(os.environ.get(DATASETS, "")) / "msgraphrag_outputs" / "christmas_carol"
    if DATASETS not in os.environ or not folder.is_dir():
        pytest.skip(f"no recorded outputs of GraphRAG; set {DATASETS} to the folder of datasets")
    for name, columns in SCHEMAS.items():
        if not (folder / f"{name}.parquet").exists():
            continue
        theirs = pq.read_schema(folder / f"{name}.parquet")
        assert list(columns)[: len(theirs)] == theirs.names
        same = {column: str(columns[column]) for column in theirs.names if column != "raw_data"}
        assert same == {column: str(theirs.field(column).type) for column in same}


def test_graphrag_s_own_readers_accept_the_files(
    exported: ExportReport, tables: dict[str, pd.DataFrame]
):
    python = os.environ.get(PYTHON)
    if not python:
        pytest.skip(
            f"no Microsoft GraphRAG 3.x here; set {PYTHON} to a python that has it (pip install"
            " 'graphrag>=3')"
        )
    done = subprocess.run(
        [python, str(READERS), str(exported.folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    members = tables["communities"].explode("entity_ids").groupby("entity_ids").size()
    read = sorted((*cells, len(communities)) for *cells, communities in found["entities"])
    assert read == sorted(
        (
            row.id,
            row.name,
            row.type,
            row.description,
            row.degree,
            list(row.text_unit_ids),
            members[row.id],
        )
        for row in tables["entities"].rename_axis(None).itertuples()
    )
    degree = tables["entities"].set_index("id")["degree"]
    assert found["relationships"] == [
        [
            row.id, str(place), row.source, row.target, row.description, row.weight,
            degree[row.source_entity_id] + degree[row.target_entity_id], list(row.text_unit_ids),
        ]
        for place, row in enumerate(tables["relationships"].sort_values("id").itertuples())
    ]  # fmt: skip
    (unit,) = tables["text_units"].itertuples()
    assert [row[:4] for row in found["text_units"]] == [
        [unit.id, unit.text, unit.n_tokens, unit.document_id]
    ]
    assert found["documents"] == [[unit.document_id, tables["documents"]["title"][0], [unit.id]]]
    rows = len(tables["communities"])
    assert (found["communities"], found["with_reports"]) == (rows, rows)
    assert 0 < found["reports"] <= rows
