"""Properties from the prompt to the tables: what is outside the ontology is a reject, and a night
after an edit equals a full build."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.project import Project
from tests.projects import NO_STORE, ProjectFolder, new_project, write_yaml
from tests.servers.openai_server import OpenAIServer, Reply
from tests.states import table_hashes

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


def new_towers(root: Path, openai: OpenAIServer) -> ProjectFolder:
    openai.reply = answer
    documents = {f"t{number}.txt": f"Tower {number} stands." for number in range(TOWERS)}
    folder = new_project(root, NO_STORE, documents, endpoint=openai)
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
