"""The morning after: which run it was and when, what goes on, what was cut off, and what is in."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer, Reply
from tests.test_batch_run import NO_STORE

WAIT = 120


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return new_project(tmp_path / "p", NO_STORE, workflow="fast", max_reject_ratio=1)


def test_status_begins_with_which_run_it_was_and_when(folder: ProjectFolder):
    assert "No run yet" in folder.invoke("status").stdout
    report = folder.invoke("index", "--json").json
    first, *rest = folder.invoke("status").stdout.splitlines()
    began = f"{report['run_id'][:4]}-{report['run_id'][4:6]}-{report['run_id'][6:8]} "
    assert first.startswith(f"run {report['run_id']}, workflow fast: began {began}")
    assert ", took " in first
    assert first.endswith(" s ago")
    assert any(line.startswith("chunk_documents") and f"{len(DOCUMENTS)} text_units" in line for line in rest)
    assert f"documents: {len(DOCUMENTS)}; {len(DOCUMENTS)} new, 0 edited, 0 gone" in rest


def test_a_run_that_never_began_hides_no_other(folder: ProjectFolder):
    done = folder.invoke("index", "--json").json
    folder.edit_settings(workflow="index", models={"chat": {"default": {"api_key": "", "base_url": ""}}})
    assert folder.invoke("index").exit_code == 2
    shown = [line for line in folder.invoke("status").stdout.splitlines() if line.startswith("run ")]
    assert ["workflow index" in line for line in shown] == [True, False]
    assert done["run_id"] in shown[1]
    entries = folder.invoke("runs", "--json").json
    assert [(entry["workflow"], entry["outcome"], bool(entry["manifest"])) for entry in entries] == [
        ("index", "failed", False), ("fast", "completed", True),
    ]  # fmt: skip
    assert entries[1]["seconds"] >= 0


def test_a_run_under_way_and_one_that_was_killed(tmp_path: Path, openai: OpenAIServer):
    folder = new_project(tmp_path / "p", NO_STORE, endpoint=openai)
    openai.reply = lambda messages, body: Reply("late", delay=WAIT)
    process = subprocess.Popen(
        folder.command_line("index"), env=folder.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + WAIT
    while not openai.count("chat") and time.monotonic() < deadline:
        time.sleep(0.01)
    going = folder.invoke("status", "--json").json["under_way"]
    assert (going["workflow"], going["step"], going["steps"]) == ("index", "extract_graph", 10)
    assert going["process"].startswith(f"{process.pid} on ")
    assert f"run {going['run_id']}, workflow index: under way for " in folder.invoke("status").stdout
    assert [entry["outcome"] for entry in folder.invoke("runs", "--json").json] == ["under_way"]
    process.kill()
    process.wait(WAIT)
    after = folder.invoke("status", "--json").json
    assert (after["under_way"], after["cut_off"]["run_id"]) == (None, going["run_id"])
    assert "killed, or the machine went down" in folder.invoke("status").stdout
    (entry,) = folder.invoke("runs", "--json").json
    assert (entry["outcome"], entry["calls"]) == ("killed", openai.count("chat"))
    assert " killed " in folder.invoke("runs").stdout


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
    assert folder.invoke("documents", "--changed").stdout.splitlines()[-1] == "1 new, 0 edited, 1 gone"
    rows = {row["source"]: row for row in folder.invoke("documents", "--json").json}
    assert {source: row["since"] for source, row in rows.items()} == {
        "harbour.txt": first, "institute.txt": second["run_id"], "observatory.txt": first, "people.csv#1": first,
        "people.csv": "", "people.csv:3": "",
    }  # fmt: skip
    with folder.open() as project:
        units, entities, links = (project.table(name) for name in ("text_units", "entities", "relationships"))
        documents = project.table("documents").set_index("source")["id"]
    for source, id in documents.items():
        of = set(units.loc[units["document_id"] == id, "id"])
        assert rows[str(source)]["text_units"] == len(of)
        assert rows[str(source)]["entities"] == sum(bool(of & set(ids)) for ids in entities["text_unit_ids"])
        assert rows[str(source)]["relationships"] == sum(bool(of & set(ids)) for ids in links["text_unit_ids"])
    assert [row["reason"] for row in rows["people.csv:3"]["left_out"]] == ["parse"]
    left_out = [row["source"] for row in folder.invoke("documents", "--left-out", "--json").json]
    assert left_out == ["people.csv", "people.csv:3"]
    assert [row["source"] for row in folder.invoke("documents", "OBSERV", "--json").json] == ["observatory.txt"]
