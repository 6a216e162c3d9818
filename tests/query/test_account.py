"""The costs of a question, through a project: every call is counted, and no text is kept."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from pipeline.errors import BudgetError, NotAllowedError
from pipeline.models.base import Usage
from pipeline.project import Project
from pipeline.query.account import CHAT, EMBEDDING, Account
from pipeline.query.caller import Caller
from pipeline.query.stream import Done, Failed, Token
from tests.projects import ProjectFolder, new_project
from tests.servers.openai_replies import Reply
from tests.servers.openai_server import OpenAIServer
from tests.servers.rerank_server import rerank_server

QUESTION = "Who built the Harrow Light?"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    folder = new_project(tmp_path_factory.mktemp("account") / "p", postgres_url)
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture
def project(loaded: ProjectFolder, openai: OpenAIServer) -> Iterator[Project]:
    with loaded.open(*settings_of(openai)) as opened:
        yield opened


def settings_of(openai: OpenAIServer) -> list[str]:
    chat = {"base_url": openai.base_url, "api_key": openai.key, "price": "{input: 1, output: 2}"}
    return [
        *(f"models.chat.default.{name}={value}" for name, value in chat.items()),
        "cache=''",
        "query.mode=hybrid",
    ]


def rows_of(project: Project, question_id: str) -> list[dict[str, object]]:
    usage = project.usage()
    return usage[usage["question"] == question_id].to_dict("records")  # pyright: ignore[reportReturnType]


def test_every_call_of_a_question_has_its_row_and_its_answer_the_price(
    loaded: ProjectFolder, openai: OpenAIServer
):
    with rerank_server() as ranking:
        rerank = [
            f"models.rerank.default.base_url={ranking.base_url}",
            f"models.rerank.default.api_key={ranking.key}",
        ]
        with loaded.open(*settings_of(openai), *rerank) as project:
            found = project.query(QUESTION)
            rows, workspace = rows_of(project, found.question_id), project.settings.workspace
    assert sorted((row["step"], row["kind"]) for row in rows) == [
        ("answer", "chat"), ("keywords", "chat"), ("rerank", "rerank"),
    ]  # fmt: skip
    assert {(row["workspace"], row["mode"], row["key"], row["outcome"]) for row in rows} == {
        (workspace, "hybrid", "", "ok")
    }
    chat = [row for row in rows if row["kind"] == "chat"]
    assert sum(row["input_tokens"] for row in chat) == found.usage["input_tokens"] > 0
    assert found.cost is None  # the reranker has no price
    assert found.to_json()["question_id"] == found.question_id


def test_the_price_is_that_of_the_tokens(project: Project):
    found = project.query(QUESTION)
    used = found.usage
    assert found.cost == pytest.approx((used["input_tokens"] + 2 * used["output_tokens"]) / 1e6)
    assert (
        found.to_json()["cost"]
        == found.cost
        == pytest.approx(sum(row["cost"] for row in rows_of(project, found.question_id)))
    )
    assert project.query_data(QUESTION, mode="naive")["cost"] == 0


@pytest.mark.parametrize("mode", ["naive", "bypass"])
def test_a_streamed_answer_is_counted(project: Project, mode: str):
    *_, done = project.query_stream(QUESTION, mode=mode)
    assert isinstance(done, Done)
    [row] = rows_of(project, done.answer.question_id)
    assert (row["step"], row["outcome"], row["mode"]) == ("answer", "ok", mode)
    assert row["cost"] == done.answer.cost > 0


def test_a_stream_that_nobody_reads_to_its_end_is_counted(project: Project, openai: OpenAIServer):
    openai.script("chat", [Reply("one word after another " * 200)])
    with closing(project.query_stream(QUESTION, mode="naive")) as events:
        while not isinstance(next(events), Token):
            pass
    row = project.usage().query("step == 'answer'").sort_values("at").iloc[-1]
    assert row["outcome"] == "cut"
    assert row["cost"] > 0


def test_no_word_of_a_question_is_kept_with_what_it_cost(project: Project):
    project.query(QUESTION, conversation_history=[{"role": "user", "content": "Tell me of Quill"}])
    [file] = (project.usage_folder / "questions").iterdir()
    assert not [word for word in ("Harrow", "Quill", "built") if word in file.read_text()]


def test_usage_is_shown_by_question_key_and_day(loaded: ProjectFolder, project: Project):
    found = project.query(QUESTION, Caller("wiki"))
    by_question = loaded.invoke("usage", "--by", "question", "--json").json
    assert {row["question"]: row["calls"] for row in by_question}[found.question_id] == 2
    assert "wiki" in [row["key"] for row in loaded.invoke("usage", "--by", "key", "--json").json]
    assert len(loaded.invoke("usage", "--by", "day", "--json").json) == 1


def test_a_question_makes_no_more_calls_than_its_caller_may():
    account, expected = (
        Account(Caller("few", max_calls=2)),
        Usage("map", "m", 9, 0, cached=False, seconds=0),
    )
    for _ in range(2):
        account.begin(CHAT, expected)
        account.begin(CHAT, replace(expected, attempt=2))  # the same one, tried again
        account.begin(EMBEDDING, expected)
    with pytest.raises(NotAllowedError, match="more than 2 calls of the chat model"):
        account.begin(CHAT, expected)


def test_what_is_spent_in_a_day_is_spent_for_all_who_share_it(
    loaded: ProjectFolder, project: Project, openai: OpenAIServer
):
    project.query(QUESTION, Caller("spender"))
    asked = openai.count("chat")
    for caller in (
        Caller("spender", cost_per_day=1e-6),
        Caller("thrifty", shared_cost_per_day=1e-6),
    ):
        with (
            loaded.open(*settings_of(openai)) as restarted,
            pytest.raises(BudgetError, match="ask again in"),
        ):
            restarted.query(QUESTION, caller)
        failed = list(project.query_stream(QUESTION, caller, mode="naive"))[-1]
        assert isinstance(failed, Failed)
        assert isinstance(failed.error, BudgetError)
    assert openai.count("chat") == asked
    assert project.query(QUESTION, Caller("thrifty", cost_per_day=1e-6), mode="naive").text
    assert project.query_data(QUESTION, Caller("spender", cost_per_day=1e-6), mode="naive")[
        "chunks"
    ]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"mode": "bypass"}, "mode 'bypass' is not allowed here; ask with one of: naive, local"),
        ({"system_prompt": "Sing."}, "a system_prompt is not allowed here; leave it out"),
        (
            {"max_total_tokens": 5001},
            "max_total_tokens: 5,001 is not allowed here; ask for at most 5,000",
        ),
        ({"max_calls": 11}, "max_calls: 11 is not allowed here; ask for at most 10"),
        ({"user_prompt": "word " * 6000}, "a request of 6,0"),
        ({"hl_keywords": ["word " * 200] * 30}, "a request of 6,0"),
    ],
)
def test_what_a_caller_may_not_ask_for_is_refused_with_what_to_do(
    project: Project, asked: dict[str, object], said: str
):
    caller = Caller(
        "a", modes=("naive", "local"), system_prompt=False, max_prompt_tokens=5000, max_calls=10
    )
    with pytest.raises(NotAllowedError, match=said):
        project.request(QUESTION, caller, **{"mode": "local", **asked})
    request = project.request(QUESTION, caller, mode="local")
    assert (request.max_total_tokens, request.max_calls) == (5000, 10)


def test_what_a_model_answers_one_who_stands_apart_is_served_to_nobody_else(
    loaded: ProjectFolder, openai: OpenAIServer
):
    settings = [line for line in settings_of(openai) if not line.startswith("cache")]
    with loaded.open(*settings) as project:
        asked = [Caller("a", apart=True), Caller("b", apart=True), None, Caller("a", apart=True)]
        calls = [
            project.query("Who opened the Tollen Observatory?", caller).usage["calls"]
            for caller in asked
        ]
    assert calls == [2, 2, 2, 0]
