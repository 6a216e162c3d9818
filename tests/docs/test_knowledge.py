"""The commands of docs/knowledge.md run, in their order, and the files that it shows are read."""

import re
import shlex
from pathlib import Path

import pytest

from pipeline.ontology.read import parse_ontology
from pipeline.ontology.schema import Ontology
from tests.projects import ProjectFolder

PAGE = (Path(__file__).parents[2] / "docs" / "knowledge.md").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    blocks = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = "".join(blocks).splitlines()
    return [shlex.split(line) for line in lines]


def test_the_commands_lead_from_a_messy_graph_to_an_obedient_one(
    tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    (table,) = re.findall(r"```csv\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "names.csv").write_text(table, encoding="utf-8")
    outputs: list[str] = []
    folder = ProjectFolder(tmp_path)
    for program, *arguments in commands():
        assert program == "graphmill"
        done = folder.invoke(*arguments)
        assert done.exit_code == 0, done
        outputs.append(done.stdout)
        settings = tmp_path / "my-project" / "settings.yaml"
        if arguments[0] == "init" and "--ontology" not in arguments:
            text = settings.read_text(encoding="utf-8")
            assert text.count("url: embedded") == 1
            settings.write_text(text.replace("url: embedded", f"url: {postgres_url}"), "utf-8")
    is_import = [arguments[1] == "import" for arguments in commands()]
    assert is_import.index(True) <= 10
    assert "S-7" in outputs[-1]
    with ProjectFolder(tmp_path / "my-project").open() as project:
        entities = project.table("entities", "fast")
        statements = project.table("statements", "fast")
        values = project.table("attributes", "fast")
    assert "Linnea" not in set(entities["name"])
    assert {"P-2", "S-7", "31"} <= set(values["value"])
    types = {one.name for one in example().entity_types}
    assert set(entities["type"]) <= {*types, "OTHER"}
    assert set(statements["type"]) <= {one.name for one in example().relationship_types}
    assert {"BORN_IN", "KNOWN_AS"} <= set(statements["type"])


def example() -> Ontology:
    path = Path(__file__).parents[2] / "examples" / "ontology" / "ontology.yaml"
    found = parse_ontology(path.read_text(encoding="utf-8"), path.name)
    assert found is not None
    return found


def test_the_files_shown_are_read():
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert blocks
    for block in blocks:
        assert parse_ontology(block, "ontology.yaml") is not None
