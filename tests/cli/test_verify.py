"""verify, load --full and the workspace commands, in this process."""

import io
from pathlib import Path

import pytest
import typer
from sqlalchemy import text

from tests.projects import ProjectFolder, new_project


@pytest.fixture
def folder(tmp_path: Path, postgres_url: str) -> ProjectFolder:
    folder = new_project(tmp_path / "p", postgres_url)
    with folder.open() as project:
        project.run("fast")
    return folder


def change(folder: ProjectFolder, statement: str) -> None:
    with folder.open() as project, project.stores.vectors.connection() as connection:
        connection.execute(text(statement), {"w": project.settings.workspace})


def test_verify_and_repair(folder: ProjectFolder):
    clean = folder.invoke("verify")
    assert clean.exit_code == 0, clean.stdout
    assert clean.stdout.splitlines()[-1] == "fast: all agree"
    change(
        folder, "DELETE FROM graphmill_nodes WHERE workspace = :w AND display_name = 'Idra Senn'"
    )
    found = folder.invoke("verify", "fast")
    assert found.exit_code == 1
    [line] = [line for line in found.stdout.splitlines() if line.startswith("postgres   nodes")]
    assert line.endswith("1 missing")
    assert "    missing    Idra Senn  ent-" in found.stdout
    assert "postgres: edges.source_entity_id: " in found.stdout
    assert found.stdout.splitlines()[-1] == "fast: repair with: graphmill load fast"
    quick = folder.invoke("verify", "--quick", "--json")
    assert (quick.exit_code, quick.json["agrees"], quick.json["repair"]) == (
        1,
        False,
        "graphmill load fast",
    )
    assert (
        folder.invoke("load", "fast", "--json").json["load"]["postgres"]["nodes"]["inserted"] == 1
    )
    assert folder.invoke("verify", "--json").json["agrees"]

    change(
        folder,
        "UPDATE lightrag_entities SET content = 'x' WHERE workspace = :w AND entity_name = 'Idra"
        " Senn'",
    )
    found = folder.invoke("verify")
    assert found.exit_code == 1
    assert found.stdout.splitlines()[-1] == "fast: repair with: graphmill load fast --full"
    assert (
        folder.invoke("load", "fast", "--json").json["load"]["postgres"]["entities"]["updated"] == 0
    )
    assert (
        folder.invoke("load", "fast", "--full", "--json").json["load"]["postgres"]["entities"][
            "updated"
        ]
        == 1
    )
    assert folder.invoke("verify").exit_code == 0


def test_verify_where_there_is_nothing(folder: ProjectFolder):
    found = folder.invoke("verify", "index")
    assert found.exit_code == 2
    assert "workflow 'index': no tables yet; run 'graphmill index index' first" in found.stderr
    assert "or name one that has tables: graphmill verify fast" in found.stderr


def test_a_load_of_a_workflow_without_tables_names_those_that_have_some(folder: ProjectFolder):
    found = folder.invoke("load", "index", "--replace")
    assert found.exit_code == 2
    assert "nothing to load; run 'graphmill index index' first" in found.stderr
    assert "or name one that has tables: graphmill load fast" in found.stderr


def test_workspaces(folder: ProjectFolder):
    with folder.open() as project:
        own = project.settings.workspace
    other = f"{own}-2"[-63:]
    with folder.open(f"workspace={other}") as project:
        project.load("fast")
    rows = {row["workspace"]: row for row in folder.invoke("workspace", "list", "--json").json}
    assert {own, other} <= rows.keys()
    assert (rows[own]["store"], rows[own]["workflow"], rows[own]["rows"]["documents"]) == (
        "postgres",
        "fast",
        3,
    )
    assert {**rows[own], "workspace": other} == rows[other]
    shown = [
        line
        for line in folder.invoke("workspace", "list").stdout.splitlines()
        if f" {other} " in line
    ]
    assert len(shown) == 1
    assert "3 documents" in shown[0]
    assert rows[own]["version"] in shown[0]

    dropped = folder.invoke("workspace", "drop", other, "--yes")
    assert dropped.exit_code == 0
    assert dropped.stdout.startswith("postgres: 3 documents, ")
    assert folder.invoke("workspace", "drop", other, "--yes").exit_code == 2
    assert other not in {
        row["workspace"] for row in folder.invoke("workspace", "list", "--json").json
    }
    assert folder.invoke("verify").exit_code == 0


def test_a_drop_asks(folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch):
    with folder.open() as project:
        own = project.settings.workspace
    silent = io.StringIO("y\n")
    monkeypatch.setattr("sys.stdin", silent)
    assert "there is no terminal to ask on (Delete" in folder.invoke_refused(
        "workspace", "drop", own
    )
    terminal = io.StringIO("n\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    with pytest.raises(typer.Abort):
        folder.invoke("workspace", "drop", own)
    assert folder.invoke("verify", "--quick").exit_code == 0
    for answered in ([], ["--yes"]):
        missing = folder.invoke_refused("workspace", "drop", "moon", *answered)
        assert "workspace 'moon': there is none in the stores; have: " in missing
