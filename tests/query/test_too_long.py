"""Questions whose prompt is longer than the model reads, against an endpoint that refuses it.

The endpoint behaves like llama.cpp.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pipeline.errors import PromptTooLongError
from pipeline.models.measured import FILE
from pipeline.query.answer import Answer
from pipeline.query.stream import Done, Failed, Sources
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_replies import (
    Messages,
    Reader,
    Reply,
    content_of,
    count_tokens,
    default_reply,
)
from tests.servers.openai_server import OpenAIServer

QUESTION = "How many boats had Tarnwick in 1731?"
ALL = "query.chunk_top_k=1000"
MODES = ["naive", "hybrid", "graph"]


def refusing(window: int, told: str = "", **error: Any) -> Reader:
    """Return the replies of an endpoint that refuses prompts of more than ``window`` tokens.

    ``told`` is its message, ``error`` has the names of its other fields.
    """

    def reply(messages: Messages, body: Mapping[str, Any]) -> Reply:
        prompt = sum(count_tokens(content_of(message)) for message in messages)
        if prompt > window:
            fields = {name: {"n_ctx": window, "n_prompt_tokens": prompt}[name] for name in error}
            return Reply(told.format(prompt=prompt, window=window), status=400, error=fields)
        return default_reply(messages, body)

    return reply


LLAMA_CPP = (
    "request ({prompt} tokens) exceeds the available context size ({window} tokens), try"
    " increasing it"
)
OPENAI = (
    "This model's maximum context length is {window} tokens. However, your messages resulted in"
    " {prompt} tokens."
)
UNTOLD = "the input length exceeds the context length"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """Return a project whose documents have about 20,000 tokens."""
    documents = {
        f"{town}.txt": (
            f"{town}\n\n"
            + " ".join(
                f"In the year {year} the town of {town} had {year % 97} boats in its harbour."
                for year in years
            )
        )
        for town, years in (
            (f"Tarn{name}", range(1500, 1760)) for name in ("wick", "ford", "holm", "stead", "by")
        )
    }
    folder = new_project(
        tmp_path_factory.mktemp("long") / "p",
        postgres_url,
        documents,
        input={"file_pattern": "**/*.txt"},
    )
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture
def project(loaded: ProjectFolder, openai: OpenAIServer) -> ProjectFolder:
    (loaded.root / FILE).unlink(missing_ok=True)
    (loaded.root / "data" / "cache.sqlite").unlink(missing_ok=True)
    return ProjectFolder(loaded.root, openai.env)


def answered(project: ProjectFolder, mode: str = "naive", *overrides: str) -> Answer:
    with project.open(*project.endpoint_overrides, ALL, *overrides) as opened:
        return opened.query(QUESTION, mode=mode)


def answers_asked(openai: OpenAIServer) -> list[int]:
    """Return the status of each call for an answer."""
    return [
        r.status
        for r in openai.requests
        if r.kind == "chat" and "high_level_keywords" not in str(r.messages)
    ]


def kept(project: ProjectFolder) -> dict[str, Any]:
    [found] = json.loads((project.root / FILE).read_text())["models"].values()
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("told", [LLAMA_CPP, OPENAI])
def test_a_refusal_that_names_the_window_is_asked_once_more_within_it(
    project: ProjectFolder, openai: OpenAIServer, mode: str, told: str
):
    openai.reply = refusing(6000, told)
    found = answered(project, mode)
    assert answers_asked(openai) == [400, 200]
    assert len(found.references) > 0
    assert any("refused a prompt as too long: it reads about" in note for note in found.notes)
    assert 4000 < kept(project)["window"] < 8000
    assert kept(project)["source"] == "endpoint"


def test_what_the_refusal_has_taught_is_known_to_later_questions(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = refusing(6000, LLAMA_CPP)
    answered(project)
    openai.forget()
    later = answered(project, "graph")
    assert answers_asked(openai) == [200]
    assert any("as its endpoint said on" in note for note in later.notes)


def test_the_window_is_read_from_the_fields_of_the_error(
    project: ProjectFolder, openai: OpenAIServer
):
    said = "the request exceeds the available context size. try increasing it"
    openai.reply = refusing(6000, said, n_ctx=0, n_prompt_tokens=0)
    answered(project)
    assert answers_asked(openai) == [400, 200]
    assert 4000 < kept(project)["window"] < 8000


def test_a_window_that_is_not_told_is_met_by_a_part_and_nothing_is_remembered(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = refusing(12_000, UNTOLD)
    found = answered(project)
    assert answers_asked(openai) == [400, 200]
    [note] = [note for note in found.notes if "did not say how many it reads" in note]
    assert "graphmill doctor --long" in note
    assert not (project.root / FILE).exists()


@pytest.mark.parametrize("told", [UNTOLD, LLAMA_CPP.replace("{window}", "90000")])
def test_a_second_refusal_says_what_to_do_and_not_to_ask_again(
    project: ProjectFolder, openai: OpenAIServer, told: str
):
    openai.reply = refusing(500, told)
    with pytest.raises(
        PromptTooLongError, match=r"lower query\.max_total_tokens; 'graphmill doctor' measures"
    ) as error:
        answered(project)
    assert answers_asked(openai) == [400, 400]
    assert "ask again" not in str(error.value)
    done = project.invoke("query", QUESTION, "--mode", "naive", "--set", ALL)
    assert (done.exit_code, "ask again" in done.stderr) == (1, False)
    assert "lower query.max_total_tokens" in done.stderr


def test_without_a_search_the_question_itself_is_to_be_shortened(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = refusing(1, LLAMA_CPP)
    with pytest.raises(PromptTooLongError, match="shorten the question"):
        answered(project, "bypass")
    assert answers_asked(openai) == [400]


def test_a_limit_of_the_reply_that_fills_the_window_is_named(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = refusing(6000, LLAMA_CPP)
    with pytest.raises(
        PromptTooLongError, match=r"max_tokens, 20,000, leaves no room.*lower max_tokens"
    ):
        answered(project, "naive", "models.chat.default.max_tokens=20000")
    assert answers_asked(openai) == [400]


def test_room_is_left_for_the_longest_reply_that_settings_allow(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = refusing(6000, LLAMA_CPP)
    found = answered(project, "naive", "models.chat.default.max_tokens=4000")
    assert found.tokens["prompt"] < kept(project)["window"] - 4000


@pytest.mark.parametrize("stream", [True, False])
def test_a_streamed_question_shows_its_sources_anew(
    project: ProjectFolder, openai: OpenAIServer, stream: bool
):
    openai.reply = refusing(6000, LLAMA_CPP)
    with project.open(*project.endpoint_overrides, ALL) as opened:
        events = list(opened.query_stream(QUESTION, mode="naive", stream=stream))
    first, second = [event for event in events if isinstance(event, Sources)]
    assert isinstance(done := events[-1], Done)
    assert len(first.references) > len(second.references) == len(done.answer.references) > 0
    assert answers_asked(openai) == [400, 200]
    assert not any(isinstance(event, Failed) for event in events)


def test_next_questions_are_asked_within_the_window_too(
    project: ProjectFolder, openai: OpenAIServer
):
    openai.reply = refusing(6000, LLAMA_CPP)
    with project.open(*project.endpoint_overrides, ALL) as opened:
        found = opened.questions(QUESTION, mode="naive")
    assert len(found.questions) > 0
    assert answers_asked(openai) == [400, 200]


def test_a_refused_call_does_not_count_among_those_a_caller_may_make(
    project: ProjectFolder, openai: OpenAIServer
):
    from pipeline.query.caller import Caller

    openai.reply = refusing(6000, LLAMA_CPP)
    with project.open(*project.endpoint_overrides, ALL) as opened:
        found = opened.query(QUESTION, Caller("sales", max_calls=2), mode="hybrid")
    assert not found.abstained
    assert answers_asked(openai) == [400, 200]
