"""Tables that a workflow derives in YAML alone, and the files that it emits."""

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

from pipeline.errors import SettingsError
from tests.projects import ProjectFolder, new_project

WORKFLOW = """
name: towns
emit: {documents: [parquet]}
steps:
  - verb: load_documents
  - verb: chunk_documents
    outputs: {text_units: all_text_units}
  - verb: filter
    inputs: {table: all_text_units}
    outputs: {result: text_units}
    args: {where: {text: {matches: "*Torr*"}}}
  - verb: extract_graph_fast
  - verb: filter
    id: names
    inputs: {table: extractions}
    outputs: {result: named}
    args: {where: {kind: entity}}
  - verb: aggregate
    inputs: {table: named}
    outputs: {result: counted}
    args: {by: [name], columns: {units: {count_distinct: text_unit_id}, unit_ids: {distinct: text_unit_id}}}
  - verb: order_by
    inputs: {table: counted}
    outputs: {result: frequent_names}
    args: {by: [units, name], descending: [units], limit: 5}
    emit: [csv, json]
"""  # noqa: E501


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    project = new_project(tmp_path / "p", "embedded")
    (project.root / "workflows" / "towns.yaml").write_text(WORKFLOW, encoding="utf-8")
    return project


def files(project: ProjectFolder) -> dict[str, bytes]:
    folder = project.root / "data" / "output" / "towns"
    return {
        path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.name[0] != "."
    }


def test_a_workflow_of_yaml_alone_derives_tables_and_emits_them(project: ProjectFolder):
    with project.open() as opened:
        opened.index("towns")
        names, units = (opened.table(name, "towns") for name in ("frequent_names", "text_units"))
    assert names["name"].tolist()[0] == "Anselm Torr"
    assert units["text"].str.contains("Torr").all()
    made = files(project)
    assert list(made) == [
        "documents.parquet",
        "frequent_names.csv",
        "frequent_names.json",
        "frequent_names.parquet",
    ]
    folder = project.root / "data" / "output" / "towns"
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "frequent_names.parquet"), names)
    rows = json.loads(made["frequent_names.json"])
    assert [row["name"] for row in rows] == names["name"].tolist()
    read = list(csv.DictReader(made["frequent_names.csv"].decode().splitlines()))
    assert [json.loads(row["unit_ids"]) for row in read] == [row["unit_ids"] for row in rows]


def test_emitted_files_follow_the_tables_and_the_workflow(project: ProjectFolder):
    with project.open() as opened:
        opened.index("towns")
        first = files(project)
        folder = opened.output_folder / "towns"
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        assert [step.action for step in opened.index("towns").steps] == ["reused"] * 7
    after = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert {name: time for name, time in after.items() if name != ".emitted.json"} == {
        name: time for name, time in before.items() if name != ".emitted.json"
    }
    (folder / "mine.txt").write_text("mine")
    (folder / "frequent_names.csv").unlink()
    project.write("observatory.txt", "Nothing more of it.")
    with project.open() as opened:
        opened.index("towns")
    assert files(project)["documents.parquet"] != first["documents.parquet"]
    assert "frequent_names.csv" in files(project)
    path = project.root / "workflows" / "towns.yaml"
    path.write_text(
        WORKFLOW.replace("emit: {documents: [parquet]}", "").replace("emit: [csv, json]", "")
    )
    with project.open() as opened:
        opened.index("towns")
    assert list(files(project)) == ["mine.txt"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "{documents: [parquet]}",
            "{docments: [csv]}",
            "emit: no step writes a table 'docments'; did you mean 'docu",
        ),
        (
            "{documents: [parquet]}",
            "{documents: [xml]}",
            "Input should be 'parquet', 'csv' or 'json'",
        ),
        ("where: {kind", "where: {knid", "step 'names': no column 'knid'; did you mean 'kind'?"),
        ("{table: counted}", "{table: named}", "step 'order_by': no column 'units'"),
        ("outputs: {result: text_units}", "outputs: {result: text_units}\n    id: x", ""),
        ("{by: [name], ", "{by: [name, n], ", "step 'aggregate': no column 'n'"),
    ],
)
def test_what_is_wrong_is_said_by_plan(project: ProjectFolder, old: str, new: str, message: str):
    (project.root / "workflows" / "towns.yaml").write_text(
        WORKFLOW.replace(old, new, 1), encoding="utf-8"
    )
    with project.open() as opened:
        if not message:
            opened.plan("towns")
            return
        with pytest.raises(SettingsError) as refused:
            opened.plan("towns")
    assert message in str(refused.value)


def test_an_emitted_file_that_was_damaged_is_written_again(project: ProjectFolder):
    with project.open() as opened:
        opened.index("towns")
    whole = files(project)
    folder = project.root / "data" / "output" / "towns"
    for path in folder.iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with project.open() as opened:
        opened.index("towns")
    assert files(project) == whole
    (folder / "frequent_names.csv").write_bytes(b"")
    with project.open() as opened:
        opened.index("towns")
    assert files(project) == whole
