"""Properties of entities in the data, the prompt and the evidence answer of a question."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.project import Project
from tests.projects import ProjectFolder
from tests.properties import CANARY, new_towers
from tests.servers.openai_server import openai_server

QUESTION = "How high is Tower Tollen?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    root: Path = tmp_path_factory.mktemp("properties") / "p"
    with openai_server() as server:
        return new_towers(root, postgres_url, server)


@pytest.fixture
def project(folder: ProjectFolder) -> Any:
    """The project without a chat model."""
    with folder.open("models.chat={}") as opened:
        yield opened


def tollen(project: Project, **options: Any) -> list[tuple[str, str, str]]:
    """Return (name, value, title) of the tower's properties in the data of a question."""
    found = project.query_data(QUESTION, mode="local", **options)
    [entity] = [one for one in found["entities"] if one["name"] == "Tower Tollen"]
    values = entity.get("properties", ())
    return [(one["name"], one["value"], one["document_id"]) for one in values]


def test_an_entity_has_its_values_of_the_newest_document_first(project: Project):
    assert [(name, value) for name, value, _ in tollen(project)] == [
        ("built", "1999"), ("built", "1851-05"), ("built", "1850"),
        ("colours", "zyxwane"), ("colours", "red"), ("colours", "white"),
        ("height", "999"), ("height", "12"), ("height", "11.8872"),
        ("state", "closed"), ("state", "open"),
    ]  # fmt: skip


def test_values_of_documents_outside_the_conditions_are_not_shown(project: Project):
    shown = tollen(project, where={"secret": False})
    assert {(name, value) for name, value, _ in shown} == {
        ("built", "1851-05"), ("built", "1850"), ("colours", "red"), ("colours", "white"),
        ("height", "12"), ("height", "11.8872"), ("state", "open"),
    }  # fmt: skip
    prompt = project.query(
        QUESTION, mode="local", where={"secret": False}, only_need_context=True
    ).text
    assert "built: 1851-05" in prompt
    assert CANARY not in prompt
    assert "999" not in prompt


@pytest.mark.parametrize("mode", ["local", "hybrid", "mix", "global"])
def test_the_context_has_values_with_their_passages(project: Project, mode: str):
    context = project.query(QUESTION, mode=mode, only_need_context=True, top_k=10).text
    if mode != "global":
        assert "height: 999 m [ref:" in context
    assert context.count("properties") <= 1


def test_the_evidence_answer_lists_values_with_citations(project: Project):
    answer = project.query(QUESTION, mode="local", where={"secret": False})
    [line] = [one for one in answer.text.splitlines() if one.startswith("- Tower Tollen: ")]
    assert "height: 12 m [" in line
    assert "; 11.8872 m [" in line
