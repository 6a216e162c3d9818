"""The commands of docs/tables-of-your-own.md run, in their order, on the files that it shows."""

import re
import shlex
from pathlib import Path

import pytest

from pipeline.documents.own_tables.columns import FIELDS, parse_columns
from tests.projects import ProjectFolder, workspace_of

PAGE = (Path(__file__).parents[2] / "docs" / "tables-of-your-own.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_commands_bring_the_table_into_the_graph(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (table,) = blocks("csv")
    (tmp_path / "suppliers.csv").write_text(table, "utf-8")
    (commands,) = blocks("sh")
    folder = ProjectFolder(tmp_path)
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "graphmill"
        done = folder.invoke(*arguments)
        assert done.exit_code == 0, done
        if arguments[0] == "init":
            made = ProjectFolder(tmp_path / "my-project")
            made.edit_settings(
                stores={"postgres": {"url": postgres_url}}, workspace=workspace_of(made.root)
            )
        if "--plan" in arguments:
            assert not (tmp_path / "my-project" / "tables").exists()
    assert "tables/suppliers.csv#s-1" in done.stdout
    with ProjectFolder(tmp_path / "my-project").open() as project:
        statements = project.table("statements", "fast")
    assert list(statements["type"]).count("SUPPLIES") == 2


def test_the_file_of_columns_that_is_shown_is_read_and_all_fields_are_told():
    (shown,) = blocks("yaml")
    assert set(parse_columns(shown, "tables.yaml")) == {"suppliers.csv"}
    (table,) = re.findall(r"## The columns\n(.*?)\n\n[^|\n]", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", table)) >= set(FIELDS)
