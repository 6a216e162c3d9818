"""The morning after: which run it was and when, what goes on, what was cut off, and what is in."""

import json
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from pipeline.runs.reports import Runs, UnfinishedRun
from tests.projects import DOCUMENTS, NO_STORE, Invoked, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer, Reply

WAIT = 120


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, workflow="fast", max_reject_ratio=1)


def test_status_begins_with_which_run_it_was_and_when(folder: ProjectFolder):
    assert "no run yet; 'graphmill run' makes one" in folder.invoke("status").stdout
    assert folder.invoke("status", "--json").json["refused"] is None
    report = folder.invoke("index", "--json").json
    first, *rest = folder.invoke("status").stdout.splitlines()
    began = f"{report['run_id'][:4]}-{report['run_id'][4:6]}-{report['run_id'][6:8]} "
    assert first.startswith(f"run {report['run_id']}, workflow fast: began {began}")
    assert ", took " in first
    assert first.endswith(" s ago")
    assert any(
        line.startswith("chunk_documents") and f"{len(DOCUMENTS)} text_units" in line
        for line in rest
    )
    assert f"documents: {len(DOCUMENTS)}; {len(DOCUMENTS)} new, 0 edited, 0 gone" in rest


def test_a_run_that_never_began_hides_no_other(folder: ProjectFolder):
    done = folder.invoke("index", "--json").json
    folder.edit_settings(
        workflow="index", models={"chat": {"default": {"api_key": "", "base_url": ""}}}
    )
    assert folder.invoke("index").exit_code == 2
    shown = [
        line for line in folder.invoke("status").stdout.splitlines() if line.startswith("run ")
    ]
    assert ["workflow index" in line for line in shown] == [True, False]
    assert done["run_id"] in shown[1]
    entries = folder.invoke("runs", "--json").json
    assert [(entry["workflow"], entry["outcome"], bool(entry["manifest"])) for entry in entries] == [  # noqa: E501
        ("index", "failed", False), ("fast", "completed", True),
    ]  # fmt: skip
    assert [entry["did_not_begin"] for entry in entries] == [True, False]
    assert entries[1]["seconds"] >= 0
    assert "did not begin: models.chat.default: no api_key and no base_url" in shown[0]
    status = folder.invoke("status", "--json").json
    assert (status["run_id"], status["exit_code"]) == (done["run_id"], 0)
    assert (status["refused"]["workflow"], status["refused"]["exit_code"]) == ("index", 2)
    assert status["refused"]["message"].startswith("models.chat.default: no api_key")
    folder.edit_settings(workflow="fast")
    assert folder.invoke("index", "--only", "chunk_documents").exit_code == 0
    status = folder.invoke("status", "--json").json
    assert status["refused"] is None
    assert "load_documents" in status["not_selected"]
    assert "chunk_documents" not in status["not_selected"]
    assert " index          did not begin " in folder.invoke("runs").stdout.splitlines()[2]


def test_a_run_under_way_and_one_that_was_killed(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    openai.reply = lambda messages, body: Reply("late", delay=WAIT)
    process = subprocess.Popen(
        folder.command_line("index"),
        env=folder.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + WAIT
    while not openai.count("chat") and time.monotonic() < deadline:
        time.sleep(0.01)
    going = folder.invoke("status", "--json").json["under_way"]
    assert (going["workflow"], going["step"], going["steps"]) == ("index", "extract_graph", 14)
    assert going["process"].startswith(f"{process.pid} on ")
    assert (
        f"run {going['run_id']}, workflow index: under way for " in folder.invoke("status").stdout
    )
    assert [entry["outcome"] for entry in folder.invoke("runs", "--json").json] == ["under_way"]
    process.kill()
    process.wait(WAIT)
    after = folder.invoke("status", "--json").json
    assert (after["under_way"], after["cut_off"]["run_id"]) == (None, going["run_id"])
    assert "killed, or the machine went down" in folder.invoke("status").stdout
    (entry,) = folder.invoke("runs", "--json").json
    assert (entry["outcome"], entry["calls"]) == ("killed", openai.count("chat"))
    assert " killed " in folder.invoke("runs").stdout


def test_a_project_with_tables_is_told_that_a_load_makes_a_workspace(tmp_path: Path):
    folder = new_project(tmp_path / "p", "embedded")
    with folder.open() as project:
        project.index("fast")
    reads = "makes one of the tables that are there, 'graphmill run' reads the documents before\n"
    told = folder.invoke("workspace", "list").stdout
    assert told == f"no workspace; 'graphmill load fast' {reads}"
    folder.edit_settings(workflow="fast")
    told = folder.invoke("workspace", "list").stdout
    assert told == f"no workspace; 'graphmill load' {reads}"


def test_before_the_first_run_each_says_what_makes_one(tmp_path: Path):
    folder = new_project(tmp_path / "p", "embedded")
    for command in ("status", "runs"):
        assert folder.invoke(command) == Invoked(0, "no run yet; 'graphmill run' makes one\n", "")
    assert folder.invoke("workspace", "list") == Invoked(
        0, "no workspace yet; 'graphmill run' makes one\n", ""
    )
    assert folder.invoke("usage") == Invoked(0, "no call of a model is known\n", "")
    refused = folder.invoke_refused("rejects")
    assert "workflow 'index': no tables yet; run 'graphmill index index' first" in refused
    assert [folder.invoke(*command, "--json").json for command in (("runs",), ("workspace", "list"), ("usage",))] == [  # noqa: E501
        [], [], [],
    ]  # fmt: skip
    assert [path.name for path in (folder.root / "data").iterdir()] == [
        "input"
    ]  # to look makes no server, no owner


def test_a_damaged_report_is_of_a_run_all_the_same(folder: ProjectFolder):
    run_id = folder.invoke("index", "--json").json["run_id"]
    (folder.root / f"data/runs/{run_id}.json").write_text('{"half"')
    shown = folder.invoke("status").stdout
    assert shown.startswith(f"run {run_id}, workflow unknown: began 2")
    assert shown.endswith("; its report is damaged: how it ended is not known\n")
    assert folder.invoke("status", "--json").json["message"] == "no report of a run can be read"
    assert [
        (entry["run_id"], entry["outcome"]) for entry in folder.invoke("runs", "--json").json
    ] == [(run_id, "damaged")]
    folder.invoke("index")
    assert "damaged" not in folder.invoke("status").stdout
    assert [line.split()[4] for line in folder.invoke("runs").stdout.splitlines()[1:]] == [
        "completed",
        "damaged",
    ]


def test_a_refused_run_does_not_hide_one_that_was_killed(folder: ProjectFolder):
    done = folder.invoke("index", "--json").json["run_id"]
    runs = Runs.of(folder.root)
    killed = runs.new_id()
    runs.note(UnfinishedRun(killed, "fast", "1 on nowhere", "merge_graphs", 4, 10))
    folder.edit_settings(
        workflow="index", models={"chat": {"default": {"api_key": "", "base_url": ""}}}
    )
    assert folder.invoke("index").exit_code == 2
    assert folder.invoke("status", "--json").json["cut_off"]["run_id"] == killed
    shown = [
        line for line in folder.invoke("status").stdout.splitlines() if line.startswith("run ")
    ]
    assert f"run {killed}, workflow fast: killed" in shown[0]
    assert done in shown[-1]


def test_without_documents_of_a_workflow_others_that_have_run_are_named(folder: ProjectFolder):
    told = folder.invoke_refused("documents")
    assert told.endswith("'fast': no documents yet; run 'graphmill index fast' first\n")
    folder.invoke("index", "fast")
    told = folder.invoke_refused("documents", "--workflow", "index")
    assert "run 'graphmill index index' first, or name one that has run: --workflow fast" in told


def test_documents_that_the_workspace_shows_are_not_new(folder: ProjectFolder):
    """They are compared with those of the workflow before, when it loads them in the same way."""
    folder.invoke("index", "fast")
    folder.edit_settings(max_delete_ratio=0.3)
    folder.write("institute.txt", DOCUMENTS["institute.txt"] + "Mira Vale studied there.")
    counts = {"new": 0, "edited": 1, "gone": 0}
    path = folder.root / "workflows/fast.yaml"
    (path.parent / "other.yaml").write_text(path.read_text().replace("name: fast", "name: other"))
    changed = folder.invoke("documents", "--workflow", "other", "--changed").stdout.splitlines()
    assert changed[-1] == "0 new, 1 edited, 0 gone"
    assert folder.invoke("plan", "other", "--json").json["documents"] == counts
    folder.delete("harbour.txt")
    assert "1 of 3 documents are gone (harbour.txt)" in folder.invoke("index", "other").stderr
    folder.write("harbour.txt", DOCUMENTS["harbour.txt"])
    assert folder.invoke("index", "other", "--json").json["documents"] == {**counts, "all": 3}
    other = yaml.safe_load(path.read_text())
    other["steps"][0]["args"] = {"file_pattern": "harbour.txt"}
    (path.parent / "less.yaml").write_text(yaml.safe_dump({**other, "name": "less"}))
    less = folder.invoke("index", "less", "--json")
    assert less.json["documents"] == {"new": 1, "edited": 0, "gone": 0, "all": 1}, less.stderr


def test_no_document_is_found(folder: ProjectFolder):
    folder.invoke("index")
    assert (
        folder.invoke("documents", "moon").stdout
        == "no document with 'moon' in its source or title\n"
    )
    assert (
        folder.invoke("documents", "--left-out").stdout == "nothing was left out of any document\n"
    )
    last = folder.invoke("documents", "harbour").stdout.splitlines()[-1]
    assert last == "1 document, 1 text unit; nothing was left out"


def test_a_note_that_cannot_be_read_is_a_run_of_which_nothing_is_known(folder: ProjectFolder):
    folder.invoke("index")
    (folder.root / "data/runs/20990101T000000.000000-abcdef.begun").write_bytes(b"\x00half")
    assert folder.invoke("runs", "--json").json[0]["outcome"] == "killed"
    assert "workflow unknown: killed" in folder.invoke("status").stdout


def test_documents_since_when_what_each_gave_and_what_was_left_out(folder: ProjectFolder):
    folder.write("people.csv", "id,text\n1,Mira Vale built the Harrow Light.\n2,one,two\n")
    first = folder.invoke("index", "--json").json["run_id"]
    folder.write("institute.txt", DOCUMENTS["institute.txt"] + "Mira Vale studied there.")
    assert json.loads(folder.invoke("documents", "--changed", "--json").stdout) == [
        {"change": "edited", "source": "institute.txt", "title": "The Brack Institute"}
    ]
    second = folder.invoke("index", "--json").json
    assert second["documents"] == {"new": 0, "edited": 1, "gone": 0, "all": 4}
    folder.write("new.txt", "The Mill of Nine.")
    folder.delete("harbour.txt")
    assert (
        folder.invoke("documents", "--changed").stdout.splitlines()[-1] == "1 new, 0 edited, 1 gone"
    )
    rows = {row["source"]: row for row in folder.invoke("documents", "--json").json}
    assert {source: row["since"] for source, row in rows.items()} == {
        "harbour.txt": first, "institute.txt": second["run_id"], "observatory.txt": first,
        "people.csv#1": first,
        "people.csv": "", "people.csv:3": "",
    }  # fmt: skip
    with folder.open() as project:
        units, entities, links = (
            project.table(name) for name in ("text_units", "entities", "relationships")
        )
        documents = project.table("documents").set_index("source")["id"]
    for source, id in documents.items():
        of = set(units.loc[units["document_id"] == id, "id"])
        assert rows[str(source)]["text_units"] == len(of)
        assert rows[str(source)]["entities"] == sum(
            bool(of & set(ids)) for ids in entities["text_unit_ids"]
        )
        assert rows[str(source)]["relationships"] == sum(
            bool(of & set(ids)) for ids in links["text_unit_ids"]
        )
    assert [row["reason"] for row in rows["people.csv:3"]["left_out"]] == ["parse"]
    left_out = [row["source"] for row in folder.invoke("documents", "--left-out", "--json").json]
    assert left_out == ["people.csv", "people.csv:3"]
    assert [row["source"] for row in folder.invoke("documents", "OBSERV", "--json").json] == [
        "observatory.txt"
    ]
