"""Properties of entities in the data, the prompt and the evidence answer of a question."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import NotAllowedError, UsageError
from pipeline.project import Project
from pipeline.query.caller import Caller
from pipeline.query.condition_lines import read_conditions
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
        ("owner", "zyxwane Trust"), ("state", "closed"), ("state", "open"),
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


ADMITTED: list[tuple[list[str], set[str]]] = [
    (["entity.built>=1851"], {"new", "hidden"}),
    (["entity.built<1851"], {"old", "other"}),
    (["entity.built=1851"], {"new"}),
    (["entity.built=May 1851"], {"new"}),
    (["entity.built>=1851-06"], {"hidden"}),
    (["entity.built!=1850"], {"new", "hidden", "other"}),
    (["entity.built=[1850, 1999]"], {"old", "hidden"}),
    (["entity.built matches 18*"], {"old", "new"}),
    (["entity.built>=1800", "entity.built<1900"], {"old", "new"}),
    (["entity.height=12"], {"new"}),
    (["entity.height>11 m", "entity.height<=1,200 cm"], {"old", "new"}),
    (["entity.height=39 ft"], {"old"}),
    (["entity.height>20", "secret=false"], {"other"}),
    (["entity.state=OPEN"], {"new"}),
    (["entity.state!=open"], {"old", "hidden", "other"}),
    (["entity.colours=white"], {"old"}),
    (["entity.colours=[white, zyxwane]"], {"old", "hidden"}),
    (["entity.colours=purple"], set()),
]


def documents_within(project: Project, where: dict[str, Any], mode: str = "naive") -> set[str]:
    found = project.query_data("Which tower stands here?", mode=mode, where=where)
    return {one["source"].removesuffix(".md") for one in found["references"]}


@pytest.mark.parametrize(("lines", "documents"), ADMITTED)
def test_a_condition_admits_the_documents_that_give_such_a_value(
    project: Project, lines: list[str], documents: set[str]
):
    assert documents_within(project, read_conditions(lines)) == documents


def test_a_condition_that_many_documents_satisfy_is_part_of_each_query(
    project: Project, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("pipeline.stores.postgres.conditions.FEW", 0)
    where = {"entity.built": {">=": 1800, "<": "1900"}, "entity.state": {"!=": "closed"}}
    for mode in ("naive", "local", "graph"):
        assert documents_within(project, where, mode) == {"old", "new"}
    assert {value for name, value, _ in tollen(project, where=where) if name == "built"} == {
        "1850", "1851-05",
    }  # fmt: skip


def test_exists_tells_documents_without_a_value_apart(project: Project):
    assert documents_within(project, {"entity.state": {"exists": True}}) == {"new", "hidden"}
    assert documents_within(project, {"entity.state": {"exists": False}}) == {"old", "other"}


@pytest.mark.parametrize("mode", ["local", "mix", "graph"])
def test_every_mode_shows_passages_of_these_documents_only(project: Project, mode: str):
    assert documents_within(project, {"entity.built": {"<": 1851}}, mode) <= {"old", "other"}
    assert documents_within(project, {"entity.built": {"<": 1851}}, mode)


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        (
            "entity.founded>=1850",
            "where: 'entity.founded': no entity has such a property; there are: built, colours,"
            " height, owner, state",
        ),
        ("entity.height>12 kg", "the unit 'kg' does not convert to 'm'"),
        ("entity.height>high", "no number; write a value of the property"),
        ("entity.built>soon", "no date that exists"),
        ("entity.'; DROP TABLE x; --=1", "no entity has such a property"),
    ],
)
def test_a_property_that_is_unknown_or_a_value_that_is_none_is_an_error(
    project: Project, line: str, fact: str
):
    with pytest.raises(UsageError) as raised:
        documents_within(project, read_conditions([line]))
    assert fact in str(raised.value)


def test_who_sees_some_documents_only_cannot_ask_for_properties(project: Project):
    """Whether a value counts depends on the type of its entity, which all documents decide."""
    caller = Caller("key", where={"secret": {"=": False}})
    for name in ("built", "unknown"):
        with pytest.raises(NotAllowedError, match="properties of entities are not known here"):
            project.query_data(
                "Which tower?", mode="naive", where={f"entity.{name}": 1850}, caller=caller
            )
