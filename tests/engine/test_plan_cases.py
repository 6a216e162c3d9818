"""Table of cases: which steps an edit makes run, and why."""

from collections.abc import Callable
from pathlib import Path

import pytest

import pipeline.contract.definitions
import pipeline.contract.fingerprint
from pipeline.contract.definitions import _source
from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

STEPS = [
    "load_documents",
    "chunk_documents",
    "compose_prompt_headers",
    "extract_graph",
    "add_links",
    "merge_graphs",
    "summarize_descriptions",
    "compute_degrees",
    "list_statements",
    "compose_texts",
    "compose_headers",
    "embed_text_units",
    "embed_entities",
    "embed_relationships",
]
EMBEDDING_STEPS = ["embed_text_units", "embed_entities", "embed_relationships"]
OF_SUMMARIES = ["compute_degrees", "list_statements", "compose_texts", *EMBEDDING_STEPS[1:]]
"""The steps that read what comes of the summaries."""
MAYBE = ("maybe", "input")


def _edit_file(name: str, old: str, new: str) -> Callable[[ProjectFolder], None]:
    def edit(project: ProjectFolder) -> None:
        path = project.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")

    return edit


def _from(step: str, reason: str, *untouched: str) -> dict[str, tuple[str, str]]:
    """Return the expected plan: the step runs for this reason, the steps after it may have to,
    except those that do not depend on it."""
    following = STEPS[STEPS.index(step) + 1 :]
    return {step: ("run", reason), **{name: MAYBE for name in following if name not in untouched}}


CASES = {
    "nothing": (lambda project: None, {}),
    "a document": (
        lambda project: project.write(
            "harbour.txt", DOCUMENTS["harbour.txt"] + "Mira Vale died in 1902.\n"
        ),
        _from("load_documents", "input"),
    ),
    "a new document": (
        lambda project: project.write("new.txt", "The Combs\n\nThe Combs are a reef."),
        _from("load_documents", "input"),
    ),
    "a deleted document": (
        lambda project: project.delete("harbour.txt"),
        _from("load_documents", "input"),
    ),
    "the size of chunks": (
        _edit_file("workflows/index.yaml", "size: 1200", "size: 900"),
        _from("chunk_documents", "params"),
    ),
    "the extraction prompt": (
        _edit_file("prompts/extract_graph.md", "You read a text", "You carefully read a text"),
        _from("extract_graph", "prompt", "compose_headers", "embed_text_units"),
    ),
    "the gleaning prompt": (
        _edit_file("prompts/extract_graph_continue.md", "Read the same text", "Read that text"),
        _from("extract_graph", "prompt", "compose_headers", "embed_text_units"),
    ),
    "entity types": (
        _edit_file("workflows/index.yaml", "location, event", "location, work, event"),
        _from("extract_graph", "params", "compose_headers", "embed_text_units"),
    ),
    "the summary prompt": (
        _edit_file("prompts/summarize_descriptions.md", "reference work", "work of reference"),
        _from("summarize_descriptions", "prompt", "compose_headers", "embed_text_units"),
    ),
    "the chat model": (
        lambda project: project.edit_settings(models={"chat": {"default": {"model": "other"}}}),
        {
            "extract_graph": ("run", "model"),
            "add_links": MAYBE,
            "merge_graphs": MAYBE,
            "summarize_descriptions": ("run", "model"),
            **dict.fromkeys(OF_SUMMARIES, MAYBE),
        },
    ),
    "the embedding model": (
        lambda project: project.edit_settings(
            models={
                "embedding": {"default": {"provider": "openai", "model": "text-embedding-3-small"}}
            }
        ),
        dict.fromkeys(EMBEDDING_STEPS, ("run", "model")),
    ),
    "the language": (
        lambda project: project.edit_settings(language="French"),
        {
            "extract_graph": ("run", "prompt"),
            "add_links": MAYBE,
            "merge_graphs": MAYBE,
            "summarize_descriptions": ("run", "prompt"),
            **dict.fromkeys(OF_SUMMARIES, MAYBE),
        },
    ),
    "an address and a key": (
        lambda project: project.edit_settings(
            models={
                "chat": {
                    "default": {
                        "base_url": "http://localhost:1/v1",
                        "api_key": "other",
                        "concurrency": 2,
                    }
                }
            }
        ),
        {},
    ),
    "an unused prompt": (
        _edit_file("prompts/answer_graph.md", "You answer", "You will answer"),
        {},
    ),
    "query settings": (lambda project: project.edit_settings(query={"top_k": 5}), {}),
}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    from tests.servers.openai_server import openai_server

    with openai_server() as endpoint:
        project = new_project(
            tmp_path_factory.mktemp("plan") / "indexed", postgres_url, endpoint=endpoint
        )
        with project.open(*project.endpoint_overrides) as opened:
            opened.index("index")
    return project


@pytest.mark.parametrize("case", CASES)
def test_an_edit_makes_exactly_these_steps_run(
    case: str, indexed: ProjectFolder, tmp_path: Path
) -> None:
    edit, expected = CASES[case]
    project = indexed.copy(tmp_path / "copy")
    edit(project)
    assert _plan(project) == dict.fromkeys(STEPS, ("reuse", "")) | expected


@pytest.mark.parametrize(
    ("module", "old", "new", "expected"),
    [
        ("pipeline.verbs.merge_graphs", "Merge the graphs of", "Unite the graphs of", {}),
        ("pipeline.verbs.merge_graphs", "import pandas as pd", "import pandas as pd  # frames", {}),
        (
            "pipeline.verbs.merging.entities",
            'UNKNOWN = "UNKNOWN"',
            'UNKNOWN = "NAMELESS"',
            _from("merge_graphs", "code", "compose_headers", "embed_text_units"),
        ),
        (
            "pipeline.verbs.embed_text",
            'texts["text"].tolist()',
            'list(texts["text"])',
            dict.fromkeys(STEPS[STEPS.index("embed_entities") :], ("run", "code")),
        ),
    ],
    ids=["docstring", "comment", "code", "code used twice"],
)
def test_an_edit_of_a_verb_reruns_the_steps_that_use_it(
    indexed: ProjectFolder, monkeypatch: pytest.MonkeyPatch, module: str, old: str, new: str,
    expected: dict[str, tuple[str, str]],
) -> None:  # fmt: skip
    def edited(name: str) -> str:
        source = _source(name)
        assert name != module or old in source
        return source.replace(old, new) if name == module else source

    monkeypatch.setattr(pipeline.contract.definitions, "_source", edited)
    monkeypatch.setattr(
        pipeline.contract.fingerprint, "folder_around", lambda _: None
    )  # keeps what is of the disk
    assert _plan(indexed) == dict.fromkeys(STEPS, ("reuse", "")) | expected


def test_a_return_to_an_earlier_state_costs_nothing(
    indexed: ProjectFolder, tmp_path: Path, openai: OpenAIServer
) -> None:
    project = indexed.copy(tmp_path / "copy")
    project.write("harbour.txt", "Nothing of note.")
    overrides = [
        f"models.chat.default.base_url={openai.base_url}",
        f"models.chat.default.api_key={openai.key}",
    ]
    with project.open(*overrides) as opened:
        opened.index("index")
        calls = openai.count("chat")
        project.write("harbour.txt", DOCUMENTS["harbour.txt"])
        report = opened.index("index")
    assert {step.action for step in report.steps} == {"reused"}
    assert openai.count("chat") == calls == 1


def _plan(project: ProjectFolder) -> dict[str, tuple[str, str]]:
    with project.open() as opened:
        return {entry.step.id: (entry.action, entry.reason) for entry in opened.plan("index")}
