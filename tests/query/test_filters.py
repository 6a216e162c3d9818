"""Nothing of a document outside the filter is retrieved; a canary is searched in every field."""

import json
import random
import re

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
        " Pell."
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


def test_several_conditions_hold_together(project: Project):
    found = project.query_data(
        "Who was it?", mode="naive", where={"secret": False, "year": {">=": 1871, "<": 1872}}
    )
    assert [entry["title"] for entry in found["references"]] == ["school"]
