"""A project whose models are Python functions is built, asked, and built again without a call."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline import Project, Reply
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_replies import default_reply

OWN = """
from tests.whole.test_own_functions import answer, vectors

def chat(messages, *, max_tokens=None):
    return answer(messages)

async def embed(texts):
    return vectors(texts)
"""
CALLS: list[str] = []


def answer(messages: Sequence[Mapping[str, Any]]) -> Reply:
    CALLS.append("chat")
    return Reply(default_reply(messages, {}).text or "", input_tokens=100, output_tokens=10)


def vectors(texts: Sequence[str]) -> list[list[float]]:
    CALLS.append("embed")
    return [
        [float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]
        for text in texts
    ]


def own_project(root: Path, postgres_url: str) -> ProjectFolder:
    project = new_project(root, postgres_url)
    (project.root / "my_models.py").write_text(OWN, encoding="utf-8")
    project.edit_settings(
        models={
            "chat": {
                "default": {
                    "provider": "python",
                    "function": "my_models:chat",
                    "price": {"input": 1},
                }
            },
            "embedding": {"default": {"provider": "python", "function": "my_models:embed"}},
        }
    )
    return project


def test_a_project_of_functions(tmp_path: Path, postgres_url: str):
    project = own_project(tmp_path / "p", postgres_url)
    CALLS.clear()
    with project.open() as opened:
        report = opened.run("index")
        assert report.outcome == "completed"
        assert len(opened.table("entities", "index")) > 3
        assert {"chat", "embed"} <= set(CALLS)
        asked = opened.query("Who built the Harrow Light?", mode="local")
        assert "Harrow Light" in asked.text
        used = opened.usage()
        used = used[used["kind"] == "chat"]
        assert (used["input_tokens"].max(), used["cost"].max()) == (100, 100 / 1e6)
    CALLS.clear()
    with project.open() as opened:
        assert opened.run("index").outcome == "completed"
    assert CALLS == []


def test_functions_given_in_python_make_the_same_project(tmp_path: Path, postgres_url: str):
    project = new_project(tmp_path / "p", postgres_url)

    def chat(messages: Sequence[Mapping[str, Any]]) -> Reply:
        return answer(messages)

    with Project.open(project.root, chat=chat, embedding=vectors) as opened:
        assert opened.run("index").outcome == "completed"
        assert opened.query("Who built the Harrow Light?", mode="naive").text
        assert {step.action for step in opened.plan("index")} == {"reuse"}


def test_a_function_that_always_fails_rejects_every_row_and_leaves_the_stores(
    tmp_path: Path, postgres_url: str
):
    project = new_project(tmp_path / "p", postgres_url)

    def chat(messages: Sequence[Mapping[str, Any]]) -> str:
        raise ValueError("not today")

    with Project.open(project.root, chat=chat) as opened:
        report = opened.run("index")
        rejects = opened.table("rejects", "index")
        assert report.exit_code == 3
        assert opened.live_workflow() is None
    assert set(rejects["reason"]) == {"bad_request"}
    assert (
        rejects["message"]
        .str.contains(r"test_own_functions:.*chat raised ValueError: not today")
        .all()
    )
