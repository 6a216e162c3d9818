"""Modes that read reports, through a project with real PostgreSQL and an OpenAI endpoint."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipeline.errors import NothingLoadedError, UsageError
from pipeline.load.row_hashes import diff, with_hashes
from pipeline.project import Project
from pipeline.query.stream import Done, Sources, Token
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

QUESTION = "What is told of the Harrow Light and the Tollen Observatory?"
MODES: list[dict[str, Any]] = [
    {"mode": "community"},
    {"mode": "community", "dynamic_community_selection": True},
    {"mode": "local", "context": "graphrag"},
    {"mode": "drift", "primer_folds": 2, "drift_k_followups": 2},
]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    folder = new_project(tmp_path_factory.mktemp("reports") / "p", postgres_url)
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture(scope="module")
def loaded(plain: ProjectFolder, tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """Load the same documents into another workspace with two levels of communities.

    One community has all entities, the others have those of one document each.
    """
    folder = plain.copy(tmp_path_factory.mktemp("reported") / "p")
    folder.edit_settings(workspace="with-reports")
    with folder.open() as project:
        project.run("fast")
        _add_reports(project)
    return folder


def _add_reports(project: Project) -> None:
    documents, units = project.table("documents"), project.table("text_units")
    entities, live = project.table("entities"), project.stores.vectors.live()
    assert live is not None
    parts = [
        (f"com-{n}", 1, "com-all", title, set(units.loc[units["document_id"] == id, "id"]))
        for n, (id, title) in enumerate(documents[["id", "title"]].itertuples(index=False))
    ]
    rows = [("com-all", 0, "", "All", set(units["id"])), *parts]
    members = {id: [e for e, own in zip(entities["id"], entities["text_unit_ids"], strict=True) if set(own) & among]  # noqa: E501
               for id, *_, among in rows}  # fmt: skip
    told = pd.DataFrame(
        [
            {
                "id": id, "level": level, "parent": parent, "title": title,
                "summary": f"{title} in short.",
                "content": f"# {title}\n\nWhat is known of it.", "rating": 5.0,
                "weight": len(among), "size": 2,
                "children": [part[0] for part in parts] if level == 0 else [],
                "chunk_ids": sorted(among),
                "entity_ids": members[id],
            }
            for id, level, parent, title, among in rows
        ]
    )  # fmt: skip
    vectors = np.asarray(project.embedding_like(live.embedding).embed(told["content"].tolist()))
    claim = {
        "id": "claim-1", "text_unit_id": units["id"].iloc[0], "subject_id": entities["id"].iloc[0],
        "object_id": "",
        "subject": entities["name"].iloc[0], "object": "", "type": "DEED", "status": "TRUE",
        "start_date": "",
        "end_date": "", "description": "It is said so.", "source_text": "So.",
    }  # fmt: skip
    tables = {
        "reports": told.drop(columns="entity_ids").assign(embedding=list(vectors)),
        "claims": pd.DataFrame([claim]),
        "communities": told.drop(columns=["content", "children", "chunk_ids"]),
    }
    with project.stores.all[0].writing(live) as writer:
        for table, frame in tables.items():
            writer.apply(table, diff(with_hashes(frame), writer.hashes(table)))
        writer.publish()


@pytest.fixture
def asked(loaded: ProjectFolder, openai: OpenAIServer) -> Iterator[Project]:
    env = openai.env
    with loaded.open(
        f"models.chat.default.base_url={env['OPENAI_BASE_URL']}",
        f"models.chat.default.api_key={env['OPENAI_API_KEY']}",
    ) as opened:
        yield opened


@pytest.mark.parametrize("wish", MODES)
def test_a_mode_answers_and_cites_only_what_it_was_shown(
    asked: Project, openai: OpenAIServer, wish: dict[str, Any]
):
    found = asked.query(QUESTION, **wish)
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert not found.abstained
    assert content["usage"]["calls"] == openai.count("chat") <= content["most_calls"]
    assert "4711" not in found.text
    if wish["mode"] != "local":
        assert "[Data: " in found.text
        assert found.removed_citations == 1
    assert {report["id"] for report in content["reports"]} <= {"com-all", "com-0", "com-1", "com-2"}
    assert content["reports"]
    again = asked.query(QUESTION, **wish)
    assert (again.text, again.usage["calls"]) == (found.text, 0)


@pytest.mark.parametrize("wish", MODES)
def test_a_stream_says_the_same(asked: Project, openai: OpenAIServer, wish: dict[str, Any]):
    events = list(asked.query_stream(QUESTION, **wish))
    assert isinstance(events[0], Sources)
    assert isinstance(events[-1], Done)
    assert (
        "".join(event.text for event in events if isinstance(event, Token))
        == events[-1].answer.text
    )
    assert events[-1].answer.text == asked.query(QUESTION, **wish).text


@pytest.mark.parametrize("wish", [MODES[0], MODES[3]])
def test_what_is_found_takes_no_call(asked: Project, openai: OpenAIServer, wish: dict[str, Any]):
    found = asked.query_data(QUESTION, **wish)
    assert openai.count("chat") == 0
    assert {"number", "id", "title", "level", "rating", "weight", "content"} <= found["reports"][
        0
    ].keys()
    assert found["most_calls"] > 1


def test_where_no_reports_are_loaded_it_says_what_to_run(plain: ProjectFolder):
    with (
        plain.open() as project,
        pytest.raises(NothingLoadedError, match="run the workflow 'communities'"),
    ):
        project.query(QUESTION, mode="community")


def test_the_command_tells_its_budget_and_lists_reports(
    loaded: ProjectFolder, openai: OpenAIServer
):
    loaded.env.update(openai.env)
    settings = [part for pair in loaded.endpoint_overrides for part in ("--set", pair)]
    done = loaded.invoke(
        "query", QUESTION, "--mode", "drift", "--primer-folds", "2", "--n-depth", "1", *settings
    )
    assert done.exit_code == 0, done.stderr
    assert "at most 15 calls of the chat model" in done.stderr
    assert "\nReports:\n  [1] " in done.stdout


def test_questions_to_ask_next(loaded: ProjectFolder, asked: Project, openai: OpenAIServer):
    found = asked.questions(QUESTION, 2, mode="community")
    assert len(found.questions) == 2
    assert all(question.startswith("What of ") for question in found.questions)
    with pytest.raises(UsageError, match="ask for 1 to 50"):
        asked.questions(QUESTION, 0)
    loaded.env.update(openai.env)
    settings = [part for pair in loaded.endpoint_overrides for part in ("--set", pair)]
    done = loaded.invoke(
        "questions", QUESTION, "--number", "2", "--mode", "community", "--json", *settings
    )
    assert done.json["questions"] == list(found.questions)
