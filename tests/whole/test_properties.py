"""Properties from the prompt to the tables: what is outside the ontology is a reject, and a night
after an edit equals a full build."""

import json
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from pipeline.contract.schemas import ATTRIBUTES
from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project, workspace_of, write_yaml
from tests.servers.openai_server import OpenAIServer, Reply
from tests.states import postgres_rows, table_hashes

ONTOLOGY: dict[str, Any] = {
    "entity_types": [
        {
            "name": "TOWER",
            "properties": [
                {"name": "height", "type": "number", "unit": "m"},
                {"name": "state", "type": "enum", "values": ["open", "closed"]},
                {"name": "built", "type": "date"},
            ],
        }
    ]
}
TOWERS = 30
WRONG = {"height": "12 kg", "state": "burnt", "built": "1850-02-30"}
RIGHT = {"height": "39 ft", "state": "Open", "built": "May 1850"}


def said_of(number: int) -> dict[str, str]:
    """Return the properties that the model gives a tower: of every third, one is wrong."""
    wrong = list(WRONG)[number // 3 % len(WRONG)]
    return RIGHT if number % 3 else {**RIGHT, wrong: WRONG[wrong]}


def answer(messages: Any, body: Mapping[str, Any]) -> Reply:
    assert "- of TOWER: height (number in m)" in messages[0]["content"]
    number = int(messages[-1]["content"].rsplit("Tower ", 1)[1].split()[0])
    records = [f'("entity"<|>Tower {number}<|>tower<|>A tower.)']
    for name, value in said_of(number).items():
        records.append(f'("property"<|>Tower {number}<|>{name}<|>{value})')
    return Reply("##\n".join(records) + "<|COMPLETE|>")


def new_towers(
    root: Path, openai: OpenAIServer, postgres_url: str = NO_STORE, towers: int = TOWERS
) -> ProjectFolder:
    openai.reply = answer
    documents = {f"t{number}.txt": f"Tower {number} stands." for number in range(towers)}
    folder = new_project(root, postgres_url, documents, endpoint=openai)
    write_yaml(folder.root / "ontology.yaml", ONTOLOGY)
    with folder.open(*folder.endpoint_overrides) as project:
        adopted = project.vocabulary_to_adopt()
        assert adopted is not None
        project.adopt_ontology(adopted)
    return folder


def run(folder: ProjectFolder) -> Project:
    with folder.open(*folder.endpoint_overrides) as project:
        report = project.index("index")
        assert report.exit_code == 0, report
        return project


def test_each_value_is_in_the_ontology_or_among_the_rejects(tmp_path: Path, openai: OpenAIServer):
    folder = new_towers(tmp_path / "p", openai)
    run(folder)
    with folder.open() as project:
        attributes, rejects = project.table("attributes", "index"), project.rejects("index")
        said = project.table("extractions", "index")["attributes"]
    assert sum(len(json.loads(cell)) for cell in said) == TOWERS * len(RIGHT)
    values = set(attributes[["name", "value"]].itertuples(index=False, name=None))
    assert values == {("height", "11.8872"), ("state", "open"), ("built", "1850-05")}
    reasons = rejects["reason"].value_counts().to_dict()
    assert (reasons["wrong_unit"], reasons["bad_value"]) == (4, 6)
    assert len(attributes) + 10 == TOWERS * len(RIGHT)


def test_a_night_after_an_edit_equals_a_full_build(tmp_path: Path, openai: OpenAIServer):
    folder, whole = new_towers(tmp_path / "p", openai), new_towers(tmp_path / "full", openai)
    run(folder)
    for each in (folder, whole):
        each.write("t1.txt", "Here stands Tower 3 again.")
        (each.root / "data/input/t2.txt").unlink()
    run(folder)
    run(whole)
    with folder.open() as night, whole.open() as full:
        assert table_hashes(night) == table_hashes(full)


def test_postgres_has_each_value_and_follows_edits_and_a_purge(
    tmp_path: Path, openai: OpenAIServer, postgres_url: str
):
    folder = new_towers(tmp_path / "p", openai, postgres_url, towers=4)
    workspace = workspace_of(folder.root)

    def loaded() -> list[dict[str, Any]]:
        stored = postgres_rows(postgres_url, workspace)["graphmill_attributes"]
        rows = [row for (row,) in stored]
        return [{name: row[name] for name in ATTRIBUTES.columns} for row in rows]

    with folder.open(*folder.endpoint_overrides) as project:
        first = project.run("index")
        assert sorted(loaded(), key=str) == values_of(project)
        assert first.load["postgres"]["attributes"]["inserted"] == len(loaded()) == 10
        again = project.run("index").load["postgres"]["attributes"]
        assert again == {"inserted": 0, "updated": 0, "deleted": 0, "unchanged": 10}
        folder.write("t1.txt", "Here stands Tower 2 again.")
        night = project.run("index").load["postgres"]["attributes"]
        # The three values of Tower 1 go, and those of Tower 2 get another source each.
        assert night == {"inserted": 3, "updated": 0, "deleted": 3, "unchanged": 7}
        assert project.verify().agrees
        project.purge("t2.txt")
        assert sorted(loaded(), key=str) == values_of(project)
        assert len(loaded()) == 7
        assert project.verify().agrees


def values_of(project: Project) -> list[dict[Hashable, Any]]:
    return sorted(project.table("attributes", "index").to_dict("records"), key=str)
