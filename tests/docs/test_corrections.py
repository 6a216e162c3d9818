"""The commands of docs/corrections.md do on the sample what the page says."""

import re
import shlex
from pathlib import Path

import pytest

from tests.projects import ProjectFolder, workspace_of

PAGE = (Path(__file__).parents[2] / "docs" / "corrections.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    return [shlex.split(line, comments=True) for line in block.splitlines()]


def test_the_commands_correct_the_sample(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert ProjectFolder(tmp_path).invoke("init", "sample", "--sample").exit_code == 0
    folder = ProjectFolder(tmp_path / "sample")
    folder.edit_settings(
        stores={"postgres": {"url": postgres_url}}, workspace=workspace_of(folder.root)
    )
    monkeypatch.chdir(folder.root)
    assert folder.invoke("index").exit_code == 0
    for program, *written in commands():
        assert program == "graphmill"
        # The stores are what the last command is about, not this one.
        arguments = ["index"] if written == ["run"] else written
        listed = folder.invoke("corrections", "list", "--json").json
        if arguments[1:2] == ["undo"]:
            assert all(row["records"] > 0 for row in listed)
            with folder.open() as project:
                entities = project.table("entities").set_index("name")
            assert entities.loc["Brackholm", "type"] == "location"
            assert "Linnea" not in entities.index
            arguments[2] = listed[0]["id"]
        done = folder.invoke(*arguments)
        assert done.exit_code == 0, done
        assert "matches nothing" not in done.stdout
    with folder.open() as project:
        assert "Linnea" in set(project.table("entities")["name"])
        assert project.verify().agrees
    assert [row["kind"] for row in folder.invoke("corrections", "list", "--json").json] == [
        "set_type"
    ]
