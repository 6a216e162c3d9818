"""The commands of docs/from-graphrag.md run, in their order, on an index that GraphRAG has made."""

import re
import shlex
from pathlib import Path

import pytest

from tests.projects import ProjectFolder, workspace_of
from tests.verbs.graphrag_folders import unpack

PAGE = (Path(__file__).parents[2] / "docs" / "from-graphrag.md").read_text("utf-8")


def test_the_commands_bring_the_index_into_the_stores(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    theirs = unpack(tmp_path / "graphrag")
    first, new_files, _ = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
    folder = ProjectFolder(tmp_path)
    for line in f"{first}{new_files}".splitlines():
        program, *arguments = shlex.split(line.replace("~", str(tmp_path)))
        if program == "cd":
            folder = ProjectFolder(tmp_path / arguments[0])
            folder.edit_settings(
                stores={"postgres": {"url": postgres_url}},
                workspace=workspace_of(folder.root),
                graphrag={"path": str(theirs)},
            )
            for path in (folder.root / "data" / "input").iterdir():
                path.unlink()
            continue
        assert program == "graphmill"
        if arguments[0] == "query":
            # The answer takes a model; what it would be asked with is what the command shows here.
            arguments += ["--context-only"]
        done = folder.invoke(*arguments)
        assert done.exit_code == 0, done
        if arguments[0] == "query":
            assert "Circle of" in done.stdout
        if arguments[0] == "plan":
            assert "no model is asked" in done.stdout, done.stdout
