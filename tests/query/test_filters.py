"""Nothing of a document outside the filter is retrieved; a canary is searched in every field."""

import json
import random
import re
from typing import Any

import pytest

from pipeline.evaluation.results import MODES
from pipeline.project import Project
from tests.projects import new_project
from tests.sizes import size

QUESTIONS = size(4, 500)
CANARY = "Zyxwane"
OPEN = {
    "light": (
        "The Harrow Light stands at Quill Point. Mira Vale built the Harrow Light in 1871 for"
        " Governor Pell."
    ),
    "school": (
        "Mira Vale studied at the Brack Institute. Anselm Torr taught optics at the Brack"
        " Institute."
    ),
    "glass": (
        "Anselm Torr ground the lens of the Harrow Light. Governor Pell paid Anselm Torr in silver."
    ),
}
SECRET = {
    "ledger": (
        f"Mira Vale owed {CANARY} Trust a fortune. {CANARY} Trust sold the Harrow Light to Governor"
        f" Pell. Mira Vale built the Harrow Light with silver of {CANARY} Trust."
    ),
    "letter": (
        f"Anselm Torr wrote to {CANARY} that Mira Vale and Governor Pell met at the Brack"
        " Institute."
    ),
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, postgres_url: str):
    folder = new_project(tmp_path_factory.mktemp("filters") / "p", postgres_url, {})
    rows = [
        {"id": name, "title": name, "text": text, "secret": secret, "year": 1870 + number}
        for secret, texts in ((False, OPEN), (True, SECRET))
        for number, (name, text) in enumerate(texts.items())
    ]
    folder.write("documents.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with folder.open() as opened:
        opened.run("fast")
        yield opened


@pytest.mark.parametrize("mode", MODES)
def test_nothing_of_a_document_outside_the_filter_is_retrieved(project: Project, mode: str):
    words = sorted({*re.findall(r"\w+", " ".join([*OPEN.values(), *SECRET.values()]))})
    draw = random.Random(mode)
    for _ in range(QUESTIONS):
        asked = " ".join(draw.sample(words, draw.randint(2, 6)))
        found = project.query_data(asked, mode=mode, where={"secret": False})
        shown = {
            name: found[name] for name in ("entities", "relationships", "chunks", "references")
        }
        assert CANARY not in json.dumps(shown)
        assert {entry["title"] for entry in found["references"]} <= set(OPEN)


@pytest.mark.parametrize("mode", MODES)
def test_the_canary_is_found_without_a_filter(project: Project, mode: str):
    assert CANARY in json.dumps(project.query_data(f"What did {CANARY} Trust sell?", mode=mode))


@pytest.mark.parametrize("mode", MODES)
def test_a_record_with_sources_on_both_sides_of_the_filter_keeps_only_its_name(
    project: Project, mode: str
):
    found = project.query_data("Mira Vale and Governor Pell", mode=mode, where={"secret": False})
    shared = {entity["name"]: entity["description"] for entity in found["entities"]}
    assert not any(shared.get(name) for name in ("Mira Vale", "Governor Pell"))


@pytest.mark.parametrize(("where", "stating"), [({}, 2), ({"secret": False}, 1)])
def test_a_relationship_has_its_statements_from_documents_within_the_filter(
    project: Project, where: dict[str, Any], stating: int
):
    found = project.query_data("Mira Vale and the Harrow Light", mode="local", where=where)
    ends = ("Mira Vale", "Harrow Light")
    [link] = [one for one in found["relationships"] if (one["source"], one["target"]) == ends]
    assert len(link["statements"]) == len(link["text_unit_ids"]) == stating
    for statement in link["statements"]:
        assert set(statement) == {"type", "description", "text_unit_id"}
        assert statement["type"] == "built"
        assert statement["description"].startswith("Mira Vale built the Harrow Light ")
        assert statement["text_unit_id"] in link["text_unit_ids"]
        assert where == {} or CANARY not in statement["description"]


def test_several_conditions_hold_together(project: Project):
    found = project.query_data(
        "Who was it?", mode="naive", where={"secret": False, "year": {">=": 1871, "<": 1872}}
    )
    assert [entry["title"] for entry in found["references"]] == ["school"]


def test_where_nothing_is_found_an_order_of_texts_is_noted(project: Project):
    found = project.query_data("Who was it?", mode="naive", where={"year": {">": "banana"}})
    assert not found["chunks"]
    [note] = [note for note in found["notes"] if note.startswith("where: ")]
    assert note.startswith("where: 'year' > banana compares texts; if numbers or dates are meant")
    found = project.query_data("Who was it?", mode="naive", where={"year": {"<": "banana"}})
    assert found["chunks"]
    assert not any(note.startswith("where: ") for note in found["notes"])
