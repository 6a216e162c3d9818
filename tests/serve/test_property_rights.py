"""Values of properties that a key may not see are in nothing that the key is told."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from pipeline.settings.query_fields import PASSAGE_MODES
from pipeline.text.ids import entity_id
from tests.properties import CANARY, new_towers
from tests.serve.serving import Serving, serving
from tests.servers.openai_server import openai_server

TOWER = entity_id("Tower Tollen")
HIDDEN = re.compile(rf"(?<![\w.])({CANARY}|999|1999|owner|closed)(?!\w)")
"""The names and values that only the hidden document gives; digits of a score are no value."""
OPEN = {"open": {"where": {"secret": False}}}
KEYS = [
    "serve.keys.all={key: all-key}",
    "serve.keys.some={key: some-key, where: {secret: false}}",
    "serve.keys.view={key: view-key, view: open}",
]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> Iterator[Serving]:
    root: Path = tmp_path_factory.mktemp("rights") / "p"
    with openai_server() as server:
        folder = new_towers(root, postgres_url, server, serve={"views": OPEN})
        with folder.open(*folder.endpoint_overrides, *KEYS) as project, serving(project) as running:
            yield running


def ask(served: Serving, key: str, path: str = "/query/data", **body: Any) -> httpx2.Response:
    """Return the answer without the question, which names what is asked for."""
    sent = {"query": "Which tower stands here?", **body}
    return served.client.post(path, json=sent, headers={"Authorization": f"Bearer {key}-key"})


def tower_of(found: dict[str, Any]) -> list[tuple[str, str]]:
    [entity] = [one for one in found["entities"] if one["name"] == "Tower Tollen"]
    return [(one["name"], one["value"]) for one in entity["properties"]]


def test_a_key_of_all_documents_is_told_all_values(served: Serving):
    found = ask(served, "all", mode="local").json()
    assert {"999", "12", "11.8872"} <= {value for _, value in tower_of(found)}
    assert ask(served, "all", mode="naive", where={"entity.owner": f"{CANARY} Trust"}).is_success


def test_a_view_has_the_values_of_its_documents_alone(served: Serving):
    found = ask(served, "view", mode="local")
    assert tower_of(found.json()) == [
        ("built", "1851-05"), ("built", "1850"), ("colours", "red"), ("colours", "white"),
        ("height", "12"), ("height", "11.8872"), ("state", "open"),
    ]  # fmt: skip
    panel = served.client.get(
        "/ui/graph/entity", params={"id": TOWER}, headers={"Authorization": "Bearer view-key"}
    )
    for answer in (found, panel):
        assert answer.status_code == 200
        assert HIDDEN.findall(answer.text) == []
    known = ask(served, "view", mode="naive", where={"entity.height": {">": "20 m"}}).json()
    assert {one["title"] for one in known["references"]} == {"Title other"}
    unknown = ask(served, "view", mode="naive", where={"entity.owner": "x"})
    assert unknown.status_code == 422
    assert "there are: built, colours, height, state" in unknown.text


@pytest.mark.parametrize("name", ["owner", "built", "nothing"])
@pytest.mark.parametrize("operator", ["=", "!=", "exists"])
def test_a_key_of_some_documents_cannot_find_out_about_a_property(
    served: Serving, name: str, operator: str
):
    operand = True if operator == "exists" else "1999"
    where = {f"entity.{name}": {operator: operand}}
    for mode in PASSAGE_MODES:
        answer = ask(served, "some", mode=mode, where=where)
        if mode == "bypass":
            continue
        assert answer.status_code == 403
        assert "properties of entities are not known here" in answer.text
        assert not [hidden for hidden in (CANARY, "closed") if hidden in answer.text]


@pytest.mark.parametrize("mode", [mode for mode in PASSAGE_MODES if mode != "bypass"])
def test_a_key_of_some_documents_is_shown_no_values(served: Serving, mode: str):
    found = ask(served, "some", mode=mode)
    assert found.status_code == 200
    assert found.json()["entities"] == []
    assert HIDDEN.findall(found.text) == []
    text = ask(served, "some", "/query", mode=mode, only_need_context=True).text
    assert HIDDEN.findall(text) == []
