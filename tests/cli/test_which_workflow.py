"""Which workflow a command is about where none is named: who reads takes what the workspace shows,
else, as who makes, what settings.yaml says."""

import shlex
from pathlib import Path

import pytest
import yaml

from pipeline.cli import app
from tests.projects import DOCUMENTS, NO_STORE, ProjectFolder, new_project


@pytest.fixture
def folder(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """Settings name the workflow 'index', for which there is no key; 'fast' is loaded."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    folder = new_project(tmp_path / "p", postgres_url)
    assert folder.invoke("run", "fast").exit_code == 0
    return folder


def test_a_run_that_never_began_changes_no_answer(folder: ProjectFolder, tmp_path: Path):
    for failing in (["run"], ["load"]):
        assert folder.invoke(*failing).exit_code == 2
        assert folder.invoke("verify", "--json").json["workflow"] == "fast"
        assert folder.invoke("rejects").stdout == "fast: no rejects\n"
    assert folder.invoke("export", "csv", str(tmp_path / "out")).exit_code == 0
    with folder.open() as project:
        assert len(project.table("documents")) == len(DOCUMENTS)
    assert folder.invoke("retry", "--json").json["workflow"] == "fast"
    assert folder.invoke("plan", "--json").json["workflow"] == "index"


def test_without_a_store_that_answers_settings_decide(folder: ProjectFolder):
    folder.edit_settings(workflow="fast", stores={"postgres": {"url": NO_STORE}})
    assert folder.invoke("rejects").stdout == "fast: no rejects\n"


def test_what_init_prints_is_the_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    root = tmp_path / "new"
    assert not app(["init", str(root)], standalone_mode=False)
    line = capsys.readouterr().out.splitlines()[-1]
    (root / "data/input/harbour.txt").write_text(DOCUMENTS["harbour.txt"], encoding="utf-8")
    arguments = shlex.split(line.partition("run: ")[2])
    assert arguments[:2] == ["graphmill", "-C"]
    folder = ProjectFolder(root)
    assert folder.invoke(*arguments[3:]).exit_code == 0
    for command in (
        ["run"],
        ["plan"],
        ["verify"],
        ["rejects"],
        ["export", "csv", str(tmp_path / "out")],
    ):
        assert folder.invoke(*command).exit_code == 0


def test_init_with_another_workflow(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert not app(["init", str(tmp_path), "--workflow", "claims"], standalone_mode=False)
    settings = tmp_path / "settings.yaml"
    assert yaml.safe_load(settings.read_text(encoding="utf-8"))["workflow"] == "claims"
    assert not app(["init", str(tmp_path), "--workflow", "fast"], standalone_mode=False)
    assert (
        "settings.yaml was there and is as it was; set 'workflow: fast' in it"
        in capsys.readouterr().err
    )
    assert app(["init", str(tmp_path), "--workflow", "moon"], standalone_mode=False) == 2
    assert (
        "no workflow 'moon' comes with graphmill; have: claims, communities, fast"
        in capsys.readouterr().err
    )


def test_init_over_a_project_names_the_files_that_it_adds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert not app(["init", str(tmp_path)], standalone_mode=False)
    assert "new: " not in capsys.readouterr().out
    (tmp_path / "workflows/claims.yaml").unlink()
    assert not app(["init", str(tmp_path)], standalone_mode=False)
    assert "new: workflows/claims.yaml\n" in capsys.readouterr().out


def test_init_makes_a_relative_folder_below_the_one_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert not app(["-C", str(tmp_path / "a"), "init", "b"], standalone_mode=False)
    assert (tmp_path / "a/b/settings.yaml").is_file()
    assert f"graphmill -C {tmp_path / 'a/b'} run" in capsys.readouterr().out
    assert not app(["-C", str(tmp_path / "a"), "init", str(tmp_path / "c")], standalone_mode=False)
    assert (tmp_path / "c/settings.yaml").is_file()
