"""``input.steps`` of the settings: verbs that every workflow applies to its documents."""

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import SettingsError, UsageError
from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

RECORDS = "".join(
    json.dumps(
        {"id": id, "title": id, "text": f"{id} text.", "department": department, "year": year}
    )
    + "\n"
    for id, department, year in [
        ("one", "sales", 2019),
        ("two", "law", "2020"),
        ("three", "sales", 2021),
    ]
)
STEPS = [
    {"verb": "filter_documents", "args": {"where": {"year": {">=": 2020}}}},
    {"verb": "join_documents", "args": {"path": "data/owners.csv", "on": "department"}},
    {"verb": "select_documents", "args": {"metadata": ["owner", "year"]}},
]
FILTER = "{verb: filter_documents, args: {where: {year: 1}}}"
JOIN = "{verb: join_documents, args: {path: data/owners.csv, on: department}}"
WORKFLOW = """
name: short
steps:
  - verb: load_documents
  - verb: chunk_documents
"""
TWICE = """
name: short
steps:
  - verb: load_documents
    outputs: {documents: first}
  - verb: load_documents
    id: others
    outputs: {documents: second}
"""


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = new_project(
        tmp_path / "mill",
        "embedded",
        {"all.jsonl": RECORDS},
        workflow="short",
        input={"steps": STEPS},
    )
    (folder.root / "workflows" / "short.yaml").write_text(WORKFLOW)
    owners(folder, "Ada")
    return folder


def owners(folder: ProjectFolder, sales: str) -> None:
    (folder.root / "data" / "owners.csv").write_text(f"department,owner\nsales,{sales}\nlaw,Otto\n")


def metadata(project: Project) -> dict[str, Any]:
    table = project.table("documents")
    return {
        title: json.loads(cell)
        for title, cell in zip(table["title"], table["metadata"], strict=True)
    }


def test_they_follow_the_loader_and_later_steps_read_what_they_leave(folder: ProjectFolder):
    with folder.open() as project:
        report = project.index()
        assert metadata(project) == {
            "two": {"owner": "Otto", "year": "2020"},
            "three": {"owner": "Ada", "year": 2021},
        }
        assert sorted(project.table("text_units")["text"]) == ["three text.", "two text."]
    assert [(step.step, dict(step.rows)) for step in report.steps] == [
        ("load_documents", {"documents_loaded": 3}),
        ("input-1-filter_documents", {"documents_input_1": 2}),
        ("input-2-join_documents", {"documents_input_2": 2}),
        ("input-3-select_documents", {"documents": 2}),
        ("chunk_documents", {"text_units": 2}),
    ]
    assert report.totals["rejects"] == 0


def test_they_are_planned_and_reused_and_an_edit_of_the_table_is_seen(folder: ProjectFolder):
    with folder.open() as project:
        project.index()
        assert {entry.action for entry in project.plan()} == {"reuse"}
        owners(folder, "Mira")
        assert [(entry.action, entry.reason) for entry in project.plan()] == [
            ("reuse", ""),
            ("reuse", ""),
            ("run", "input"),
            ("maybe", "input"),
            ("maybe", "input"),
        ]
        assert [step.action for step in project.index().steps] == [
            "reused",
            "reused",
            "ran",
            "ran",
            "ran",
        ]
        assert metadata(project)["three"]["owner"] == "Mira"


def test_a_project_that_moves_is_not_run_anew(folder: ProjectFolder, tmp_path: Path):
    with folder.open() as project:
        project.index()
    with folder.copy(tmp_path / "moved").open() as project:
        assert {entry.action for entry in project.plan()} == {"reuse"}


@pytest.mark.parametrize("steps", [f"[{JOIN}, {FILTER}]", f"[{FILTER}, {JOIN}]"])
def test_only_a_source_must_have_rows(folder: ProjectFolder, steps: str):
    """A filter may keep nothing, and a verb that reads a table beside may be given nothing."""
    with folder.open(f"input.steps={steps}") as project:
        assert project.index().exit_code == 0
        assert project.table("documents").empty


def test_what_has_changed_is_told(folder: ProjectFolder):
    with folder.open() as project:
        project.index()
        folder.write("all.jsonl", RECORDS.replace("two text", "another text"))
        assert project.changed_documents().to_dict("records") == [
            {"change": "edited", "source": "all.jsonl#two", "title": "two"}
        ]


@pytest.mark.parametrize("record", ["one", "two"], ids=["filtered out", "in"])
def test_a_record_that_is_in_its_file_is_not_purged(folder: ProjectFolder, record: str):
    with folder.open() as project:
        project.index()
        with pytest.raises(
            UsageError, match=rf"still in all\.jsonl; take record {record} out of the file"
        ):
            project.purge(f"all.jsonl#{record}")
        folder.write("all.jsonl", "".join(RECORDS.splitlines(keepends=True)[1:]) + '{"id": "three')
        with pytest.raises(
            UsageError, match=r"all\.jsonl was not read whole, and may have it still"
        ):
            project.purge("all.jsonl#one")


def test_every_loader_is_followed(folder: ProjectFolder):
    (folder.root / "workflows" / "short.yaml").write_text(TWICE)
    with folder.open() as project:
        steps = project.workflow().steps
    assert [(step.id, dict(step.inputs), step.outputs["documents"]) for step in steps[3:]] == [
        ("input-3-select_documents", {"documents": "first_input_2"}, "first"),
        ("others", {}, "second_loaded"),
        ("others-1-filter_documents", {"documents": "second_loaded"}, "second_others_1"),
        ("others-2-join_documents", {"documents": "second_others_1"}, "second_others_2"),
        ("others-3-select_documents", {"documents": "second_others_2"}, "second"),
    ]


def test_one_step_alone(folder: ProjectFolder):
    with folder.open("input.steps=[{verb: select_documents}]") as project:
        steps = project.workflow().steps
    assert [(step.id, step.outputs.get("documents")) for step in steps[:2]] == [
        ("load_documents", "documents_loaded"),
        ("input-1-select_documents", "documents"),
    ]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            "[{verb: select_documents}, {verb: filter_document}]",
            r"input\.steps\[1\]: no verb 'filter_document'; did you mean 'filter_documents'\?",
        ),
        ("[{verb: No Verb}]", r"input\.steps\[0\]: no verb 'No Verb'"),
        ("[{verb: filter_documents}]", r"input\.steps\[0\]: args: where: Field required"),
        (
            "[{verb: select_documents, args: {dorp: [a]}}]",
            r"input\.steps\[0\]: args: unknown key 'dorp'; .* 'drop'\?",
        ),
        (
            "[{verb: filter_documents, args: {where: {a: {like: b}}}}]",
            r"input\.steps\[0\]: args: .* no operator 'like'",
        ),
        (
            "[{verb: chunk_documents}]",
            r"input\.steps\[0\]: verb 'chunk_documents' does not turn documents into documents;"
            r" have: "
            "filter_documents, join_documents, select_documents, set_metadata",
        ),
        ("[{verb: load_documents}]", r"input\.steps\[0\]: verb 'load_documents' does not turn"),
        (
            "[{vreb: select_documents}]",
            r"--set: unknown key 'input\.steps\.0\.vreb'; did you mean 'verb'\?",
        ),
        (
            "[{verb: select_documents, arg: {}}]",
            r"unknown key 'input\.steps\.0\.arg'; did you mean 'args'\?",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_place(folder: ProjectFolder, steps: str, message: str):
    with (
        pytest.raises(SettingsError, match=message),
        folder.open(f"input.steps={steps}") as project,
    ):
        project.workflow()


def test_a_missing_table_is_said_before_anything_runs(folder: ProjectFolder):
    (folder.root / "data" / "owners.csv").unlink()
    with folder.open() as project, pytest.raises(SettingsError, match=r"owners\.csv: no such file"):
        project.index()


def test_a_workflow_without_a_loader_does_not_pass_them_over(folder: ProjectFolder):
    (folder.root / "workflows" / "short.yaml").write_text("name: short\nsteps: []\n")
    with (
        folder.open() as project,
        pytest.raises(SettingsError, match=r"input\.steps\[0\]: the workflow has no step"),
    ):
        project.workflow()


def test_another_rule_for_metadata_asks_no_model_again(tmp_path: Path, openai: OpenAIServer):
    def ruled(group: str) -> dict[str, Any]:
        rule = {"pattern": "@hr/**", "set": {"group": group}}
        return {"steps": [{"verb": "set_metadata", "args": {"rules": [rule]}}]}

    (tmp_path / "wages").mkdir()
    (tmp_path / "wages" / "ada.txt").write_text("Ada Holm built the Skarrow Lamp.")
    folder = new_project(
        tmp_path / "mill", NO_STORE, {"a.txt": "Otto Reik tends it."}, openai, input=ruled("hr"),
        inputs=[{"name": "hr", "url": str(tmp_path / "wages")}],
    )  # fmt: skip
    with folder.open(*folder.endpoint_overrides) as project:
        project.index("index")
    asked = openai.count("chat")
    folder.edit_settings(input=ruled("board"))
    with folder.open(*folder.endpoint_overrides) as project:
        assert max(step.estimate.calls[1] for step in project.forecast("index")) == 0
        project.index("index")
        documents = project.table("documents", "index").set_index("source")["metadata"]
    assert openai.count("chat") == asked > 0
    assert dict(documents) == {"a.txt": "{}", "@hr/ada.txt": '{"group": "board"}'}
