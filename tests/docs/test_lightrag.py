"""The commands of docs/lightrag.md run, in their order, on an index that LightRAG has made."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.projects import ProjectFolder, workspace_of
from tests.verbs.lightrag_folders import INDEX

PAGE = (Path(__file__).parents[2] / "docs" / "lightrag.md").read_text("utf-8")


def test_the_commands_bring_the_index_into_the_stores(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(INDEX, tmp_path / "rag_storage")
    first, _, new_files = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    folder = ProjectFolder(tmp_path)
    for line in f"{first}{new_files}".splitlines():
        program, *arguments = shlex.split(line.replace("~", str(tmp_path)))
        if program == "cd":
            folder = ProjectFolder(tmp_path / arguments[0])
            folder.edit_settings(
                stores={"postgres": {"url": postgres_url}}, workspace=workspace_of(folder.root)
            )
            continue
        assert program == "graphmill"
        if arguments[0] == "query":
            # The answer takes a model; what it would be asked with is what the command shows here.
            arguments += ["--context-only", "--mode", "naive"]
        done = folder.invoke(*arguments)
        assert done.exit_code == 0, done
        if arguments[0] == "query":
            assert "lamp.txt" in done.stdout
        if arguments[0] == "plan":
            assert "no model is asked" in done.stdout, done.stdout
