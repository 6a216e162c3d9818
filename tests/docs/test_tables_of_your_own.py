"""The commands of docs/tables-of-your-own.md run, in their order, on the files that it shows."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from neo4j import GraphDatabase

from pipeline.documents.own_tables.columns import FIELDS, parse_columns
from tests.projects import ProjectFolder, new_project, workspace_of
from tests.servers.neo4j_server import Neo4jAddress

PAGE = (Path(__file__).parents[2] / "docs" / "tables-of-your-own.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_commands_bring_the_table_into_the_graph(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (table,) = blocks("csv")
    (tmp_path / "suppliers.csv").write_text(table, "utf-8")
    commands, _ = blocks("sh")
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


def test_the_commands_bring_the_graph_of_a_neo4j_into_the_graph(
    tmp_path: Path,
    postgres_url: str,
    neo4j_address: Neo4jAddress,
    monkeypatch: pytest.MonkeyPatch,
):
    address = neo4j_address
    monkeypatch.chdir(tmp_path)
    project = new_project(tmp_path / "my-project", postgres_url, workflow="fast")
    project.env["CYPHER_USER"] = address.user
    project.env["CYPHER_PASSWORD"] = address.password
    (create,) = blocks("cypher")
    _, commands = blocks("sh")
    auth = (address.user, address.password)
    with GraphDatabase.driver(address.uri, auth=auth, database=address.database) as driver:
        statement: Any = create
        driver.execute_query(statement)
        try:
            for line in commands.splitlines():
                _, *arguments = shlex.split(line.replace("bolt://localhost:7687", address.uri))
                done = project.invoke(*arguments)
                assert done.exit_code == 0, done
        finally:
            driver.execute_query("MATCH (n:Firm|Product) DETACH DELETE n")
    with project.open() as opened:
        statements = opened.table("statements", "fast")
    (attributes,) = statements.loc[statements["type"] == "SUPPLIES", "attributes"]
    assert "1871-01-01" in attributes


def test_the_settings_that_are_shown_are_those_of_a_new_project():
    shown = yaml.safe_load(blocks("yaml")[0])["cypher"]
    settings = (Path(__file__).parents[2] / "settings.yaml").read_text("utf-8")
    assert shown == yaml.safe_load(settings)["cypher"]


def test_the_file_of_columns_that_is_shown_is_read_and_all_fields_are_told():
    shown = blocks("yaml")[-1]
    read = parse_columns(shown, "tables.yaml")
    assert {name: one.is_master_data for name, one in read.items()} == {
        "suppliers.csv": False,
        "companies.csv": True,
    }
    (table,) = re.findall(r"## The columns\n(.*?)\n\n[^|\n]", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", table)) >= set(FIELDS)
