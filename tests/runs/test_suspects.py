"""Entities that may be mistakes, and what the model said of them before corrections."""

from pathlib import Path

import pytest

from pipeline.project import Project
from pipeline.runs.suspects import explain_junk
from tests.projects import ProjectFolder, project_with_verb, write_yaml

DOCUMENTS = {"a.txt": "Mira Vale built the Harrow Light.", "b.txt": "Anselm Torr drew it."}
VERB = '''
import pandas as pd
from pipeline.contract.registry import verb
from pipeline.contract.schemas import EXTRACTIONS, TEXT_UNITS

NAMES = [
    ("Mira Vale", "PERSON"), ("Miraa Vale", "PERSON"), ("1871", "DATE"), ("She", "PERSON"),
    ("Q", "PERSON"), ("--", "CONCEPT"), ("Harrow Light", "PLACE"), ("Brack Institute", "HERON"),
    ("The harbour was opened by the governor in spring.", "EVENT"), ("Lone Rock", "PLACE"),
]
LINKS = [("Mira Vale", "Harrow Light"), ("Miraa Vale", "Brack Institute"), ("1871", "She")]


@verb(inputs={"text_units": TEXT_UNITS}, outputs={"extractions": EXTRACTIONS}, rowwise="text_units",
      row_of={"extractions": "text_unit_id"})
def say(text_units: pd.DataFrame) -> pd.DataFrame:
    """Say the same of each text unit."""
    rows = []
    blank = {"name": "", "type": "", "source": "", "target": "", "keywords": [], "weight": 1.0,
             "grounded": True}
    for id in text_units["id"]:
        order = 0
        for name, type in NAMES:
            cells = {"kind": "entity", "name": name, "type": type, "description": f"It is {name}."}
            rows.append({**blank, **cells, "text_unit_id": id, "order": order})
            order += 1
        for source, target in LINKS:
            cells = {"kind": "relationship", "source": source, "target": target,
                     "description": "They met.", "keywords": ["MET"]}
            rows.append({**blank, **cells, "text_unit_id": id, "order": order})
            order += 1
    return EXTRACTIONS.frame(rows)
'''
ONTOLOGY = {"entity_types": ["PERSON", "PLACE", "DATE", "CONCEPT", "EVENT"]}


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    folder = project_with_verb(tmp_path / "p", DOCUMENTS, VERB, "say")
    path = folder.root / "workflows" / "fast.yaml"
    steps = ["load_documents", "chunk_documents", "say", "merge_graphs", "join_descriptions"]
    steps.append("compute_degrees")
    write_yaml(path, {"name": "fast", "steps": [{"verb": verb} for verb in steps]})
    return folder


def listed(project: Project) -> dict[str, tuple[str, str]]:
    """Kind and likely duplicate of each suspect."""
    return {one.name: (one.kind, one.other) for one in project.suspects("fast").listed}


def test_each_kind_of_suspect_is_listed_once(folder: ProjectFolder):
    with folder.open() as project:
        project.index("fast")
        found = listed(project)
        junk = {"1871", "She", "Q", "--", "The harbour was opened by the governor in spring."}
        assert {name for name, (kind, _) in found.items() if kind == "junk"} == junk
        # The longer one of two names that are as frequent stays.
        assert found["Mira Vale"] == ("duplicate", "Miraa Vale")
        assert found["Lone Rock"] == ("orphan", "")
        assert "Harrow Light" not in found
        counts = project.suspects("fast", 1)
        assert len(counts.listed) == 1
        assert sum(counts.counts.values()) == len(found)


def test_a_type_outside_the_ontology_is_a_suspect(folder: ProjectFolder):
    with folder.open() as project:
        project.index("fast")
        assert "Brack Institute" not in listed(project)
        of_entities = set(project.table("entities", "fast")["type"]) - {""}
        assert project.suspects("fast").types == sorted(of_entities)
        write_yaml(folder.root / "ontology.yaml", ONTOLOGY)
        assert listed(project)["Brack Institute"] == ("type", "")
        # Types that the ontology lacks are not offered as a remedy.
        assert project.suspects("fast").types == sorted(ONTOLOGY["entity_types"])


def test_who_is_decided_about_is_no_suspect_any_more(folder: ProjectFolder):
    with folder.open() as project:
        project.index("fast")
        before = listed(project)
        for fields in (
            {"kind": "delete_entity", "entity": "1871"},
            {"kind": "rename", "entity": "She", "to": "Mira Vale"},
            {"kind": "keep", "entity": "Q"},
            {"kind": "keep", "entity": "Lone Rock"},
            {"kind": "keep", "entity": "Miraa Vale", "other": "Mira Vale"},
        ):
            project.add_correction(fields, "fast")
        after = listed(project)
        decided = {"1871", "She", "Q", "Lone Rock", "Mira Vale", "Miraa Vale"}
        assert {name for name, (kind, _) in after.items() if kind != "orphan"} == {
            name for name in before if name not in decided
        }
        for line in project.corrections("fast"):
            project.undo_correction(line.decision.id, "fast")
        assert listed(project) == before


@pytest.mark.parametrize(
    "name", ["C++", "A1", "哈", "One World", "1st Fleet", "It Happened One Night", "Mr. T", "X Æ"]
)
def test_names_that_look_odd_are_no_junk(name: str):
    assert explain_junk(name) == ""


def test_what_the_model_said_stays_beneath_corrections(folder: ProjectFolder):
    with folder.open() as project:
        project.index("fast")
        project.add_correction(
            {"kind": "rename", "entity": "Miraa Vale", "to": "Mira Vale"}, "fast"
        )
        project.add_correction({"kind": "set_type", "entity": "Mira Vale", "to": "HERON"}, "fast")
        project.index("fast")
        found = project.what_was_said("Mira Vale", workflow="fast")
        assert {(one.name, one.type) for one in found.said} == {
            ("Mira Vale", "PERSON"),
            ("Miraa Vale", "PERSON"),
        }
        assert {one.passage for one in found.said} <= set(DOCUMENTS.values())
        assert {one.title for one in found.said} != {""}
        between = project.what_was_said("Mira Vale", "Brack Institute", "fast")
        assert {(one.source, one.target) for one in between.said} == {
            ("Miraa Vale", "Brack Institute")
        }
        assert project.what_was_said("Nobody", workflow="fast").records == 0


def test_the_command_lists_suspects_and_says_what_is_missing(folder: ProjectFolder):
    assert "no entities" in folder.invoke_refused("corrections", "suspects", "fast")
    folder.invoke("index", "fast")
    told = folder.invoke("corrections", "suspects", "fast", "--limit", "2")
    assert "'1871' (DATE): a number" in told.stdout or "'--' (CONCEPT)" in told.stdout
    found = folder.invoke("corrections", "suspects", "fast", "--json").json
    assert {"kind", "id", "name", "type", "why", "frequency", "other"} == set(found["suspects"][0])
