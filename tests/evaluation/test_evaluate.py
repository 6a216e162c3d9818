"""Evaluations of a small corpus in a real store."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pipeline.errors import UsageError
from pipeline.evaluation.page import page
from pipeline.evaluation.results import Evaluation
from pipeline.evaluation.tables import describe_left_out, format_evaluation
from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.openai_server import OpenAIServer

MODES = ["naive", "local", "hybrid"]
HOSTILE = "<script>alert(\"1\")</script><img src=x onerror=alert(2)> & 'quoted' </style></title>"
QUESTIONS = [
    {"id": "q1", "question": "Who founded the Brack Institute?", "documents": ["institute.txt"],
        "type": "one"},
    {"id": "q2", "question": "Where did the builder of the Harrow Light study?", "type": "two",
     "documents": ["harbour.txt", "The Brack Institute"]},
    {"id": "q3", "question": "Who ground the first lens?",
        "texts": ["Anselm Torr ground its  first lens."]},
    {"id": "q4", "question": HOSTILE, "documents": [HOSTILE.replace("/", "|")], "type": HOSTILE},
]  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, postgres_url: str) -> ProjectFolder:
    records = {
        "hostile.jsonl": json.dumps(
            {"id": "h", "title": HOSTILE.replace("/", "|"), "text": f"A trap. {HOSTILE}"}
        )
    }
    twins = {f"twin-{side}.txt": f"Twin\n\nThe {side} twin.\n" for side in ("left", "right")}
    folder = new_project(
        tmp_path_factory.mktemp("eval") / "p", postgres_url, DOCUMENTS | records | twins
    )
    with folder.open() as opened:
        assert opened.run("fast").outcome == "completed"
    return folder


@pytest.fixture(scope="module")
def evaluation(project: ProjectFolder) -> Evaluation:
    with project.open() as opened:
        return opened.evaluate(QUESTIONS, MODES, ks=(1, 2, 10), budget=60)


def test_every_question_is_measured_in_every_mode(evaluation: Evaluation):
    results = evaluation.results
    assert results[["mode", "id"]].to_numpy().tolist() == [
        [mode, f"q{n}"] for mode in MODES for n in (1, 2, 3, 4)
    ]
    assert not evaluation.left_out
    assert (results[results["id"] != "q4"]["recall@10"] == 1).all()
    assert (results["recall@1"] <= results["recall@2"]).all()
    assert (results["recall@budget"] < 1).any()
    assert (results["latency_ms"] > 0).all()
    naive, local = (results[results["mode"] == mode] for mode in ("naive", "local"))
    assert (naive["prompt_tokens"] > naive["chunk_tokens"]).all()
    assert (naive["entity_tokens"] == 0).all()
    assert (local["entity_tokens"] > 0).all()


def test_as_many_passages_are_searched_for_as_the_greatest_k(project: ProjectFolder):
    with project.open("query.chunk_top_k=10") as opened:
        wide = opened.evaluate(QUESTIONS, MODES, ks=(1, 10)).to_json()
    with project.open("query.chunk_top_k=1") as opened:
        narrow = opened.evaluate(QUESTIONS, MODES, ks=(1, 10)).to_json()
    assert narrow["setup"]["chunk_top_k"] == 10
    assert narrow["modes"] == wide["modes"]


def test_a_budget_is_as_large_as_was_asked_for_whatever_the_chat_model_reads(
    project: ProjectFolder,
):
    with project.open("models.chat.default.base_url=http://127.0.0.1:9") as opened:
        opened.measured.note(opened.query_chat("default").endpoint.digest, window=80)
        found = opened.evaluate(QUESTIONS, ["naive"], ks=(10,), budget=30_000)
        assert (found.results["recall@budget"] == found.results["recall@10"]).all()
        assert not [note for note in found.notes if "max_total_tokens" in note]
        capped = opened.query_data(
            QUESTIONS[0]["question"], mode="naive"
        )  # shows what a query would give the model
        assert any("max_total_tokens is 60" in note for note in capped["notes"])


def test_what_is_measured_is_what_a_query_shows(project: ProjectFolder, evaluation: Evaluation):
    with project.open() as opened:
        for mode in MODES:
            for question in QUESTIONS[:3]:
                shown = opened.query_data(question["question"], mode=mode)
                row = evaluation.results.query("mode == @mode and id == @question['id']").iloc[0]
                assert row["chunks"] == [chunk["id"] for chunk in shown["chunks"]]
                assert row["prompt_tokens"] == shown["tokens"]["prompt"]


def test_the_same_questions_give_the_same_json_but_for_the_timings(
    project: ProjectFolder, evaluation: Evaluation
):
    with project.open() as opened:
        again = opened.evaluate(QUESTIONS, MODES, ks=[10, 2, 1, 2], budget=60).to_json()
    first = evaluation.to_json()
    assert set(first.pop("timings")) == set(again.pop("timings")) == set(MODES)
    assert json.dumps(first) == json.dumps(again)
    assert json.loads(json.dumps(first)) == first


def test_results_are_grouped_by_type(evaluation: Evaluation):
    by_type = evaluation.to_json()["types"]
    assert set(by_type) == {"", "one", "two", HOSTILE}
    assert by_type["two"]["naive"]["questions"] == 1
    table = format_evaluation(evaluation)
    assert "type: two, 1 question" in table
    assert "type: none, 1 question" in table


def test_unknown_gold_is_told_and_is_no_miss(project: ProjectFolder):
    unknown = [
        {"question": "Who?", "documents": ["harbour.txt", "gone.txt"]},
        {"question": "Which twin?", "documents": ["Twin"]},
        {"question": "What?", "texts": ["never said anywhere"]},
        {"question": "Which?", "chunks": ["chunk-0'; DROP TABLE lightrag_chunks; --"]},
    ]
    with project.open() as opened:
        found = opened.evaluate([*QUESTIONS[:1], *unknown], modes=["naive"])
        with pytest.raises(
            UsageError,
            match=r"no question's gold is in the stores; line 1: document 'gone\.txt': no doc",
        ):
            opened.evaluate(unknown)
    assert [question.id for question in found.questions] == ["q1"]
    assert found.summary()["questions"].tolist() == [1]
    reasons = [entry["unknown_gold"][0]["reason"] for entry in found.to_json()["left_out"]]
    assert reasons == [
        "no document with this source, id or title",
        "the title of 2 documents; name one by its source",
        "no chunk holds this text",
        "no chunk with this id",
    ]
    lines = describe_left_out(found)
    assert lines[0] == "unknown gold: 4 of 5 questions in no figure"
    assert "line 2, 2: document 'gone.txt'" in lines[1]
    assert "Unknown gold: 4 questions" in page(found)


def test_chunks_can_be_gold(project: ProjectFolder):
    with project.open() as opened:
        units = opened.table("text_units")
        unit = units[units["text"].str.contains("Idra Senn")]["id"].iloc[0]
        found = opened.evaluate(
            [QUESTIONS[0] | {"documents": [], "chunks": [unit]}], modes=["naive"], ks=[1]
        )
    assert found.results["recall@1"].tolist() == [1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"modes": ["naive", "sideways"]}, "modes: sideways"),
        ({"modes": ["bypass"]}, "modes: bypass"),
        (
            {"modes": ["naive", "community", "drift"]},
            "modes: community, drift: what can be evaluated",
        ),
        ({"modes": []}, "modes: none"),
        ({"ks": []}, "k: give whole numbers"),
        ({"ks": [0, 5]}, "k: give whole numbers"),
        ({"budget": 0}, "budget: give"),
        ({"keywords": True}, "no chat model is configured"),
        ({"rerank": True}, "no reranker is configured"),
    ],
)
def test_options_that_make_no_sense(project: ProjectFolder, options: dict, said: str):
    with project.open() as opened, pytest.raises(UsageError, match=said):
        opened.evaluate(QUESTIONS, **options)


def test_a_chat_model_is_asked_only_for_keywords_and_only_when_told(
    project: ProjectFolder, openai: OpenAIServer
):
    folder = ProjectFolder(project.root, openai.env)
    with folder.open(*folder.endpoint_overrides) as opened:
        opened.evaluate(QUESTIONS[:1], modes=["naive", "hybrid"])
        assert openai.count("chat") == 0
        asked = opened.evaluate(QUESTIONS[:1], modes=["naive", "hybrid"], keywords=True)
        assert openai.count("chat") == 1
    assert asked.to_json()["setup"]["keywords"]


def test_questions_are_embedded_in_batches(tmp_path: Path, postgres_url: str, openai: OpenAIServer):
    one = {"institute.txt": "Idra Senn founded it."}
    where = {"base_url": openai.env["OPENAI_BASE_URL"], "api_key": openai.env["OPENAI_API_KEY"]}
    embedding = {**where, "provider": "openai", "model": "text-embedding-3-small"}
    folder = new_project(
        tmp_path / "p", postgres_url, one, openai, models={"embedding": {"default": embedding}}
    )
    asked = [
        {"question": f"Who founded number {number}?", "documents": ["institute.txt"]}
        for number in range(6)
    ]
    with folder.open() as opened:
        opened.run("fast")
        before = openai.count("embeddings")
        opened.evaluate(asked, modes=["naive"])
        assert openai.count("embeddings") - before == 1


class Reader(HTMLParser):
    """A parser that keeps the tags of a page, and the attributes that would run or load
    something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.active: list[str] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.active += [name for name, value in attrs if name.startswith("on") or name == "src"]
        self.active += [
            value or ""
            for name, value in attrs
            if name == "href" and not (value or "").startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_shows_everything_and_runs_nothing(evaluation: Evaluation):
    text = page(evaluation)
    reader = Reader(text)
    assert not {"script", "img", "link", "iframe", "object"} & set(reader.tags)
    assert reader.active == []
    assert "default-src 'none'" in text
    assert "url(" not in text
    assert "@import" not in text
    assert reader.tags.count("svg") == 4
    assert reader.tags.count("details") == len(QUESTIONS)
    assert reader.tags.count("section") == len(QUESTIONS) * len(MODES)
    told = "".join(reader.texts)
    assert f"q4: {HOSTILE}" in told
    assert f"type: {HOSTILE}" in told
    assert "The Brack Institute (institute.txt)" in told
    assert "Anselm Torr ground its first lens." in told
    assert page(evaluation) == text


def test_control_characters_do_not_reach_the_page(evaluation: Evaluation):
    first, *others = evaluation.questions
    odd = replace(first, text='a\x00\x1b\ud800<b>\ufffec \x00"d')
    text = page(replace(evaluation, questions=(odd, *others)))
    assert f"{odd.id}: a&lt;b&gt;c &#34;d\n" in text
    assert "".join(character for character in text if not character.isprintable()).strip("\n") == ""


@pytest.mark.parametrize(
    ("option", "file"),
    [("--output", "/proc/a.json"), ("--html", "/proc/a.html"), ("--html", "settings.yaml")],
)
def test_what_cannot_be_written_is_said_before_any_question(
    project: ProjectFolder, option: str, file: str
):
    refused = project.invoke_refused("eval", "no such file.jsonl", option, file)
    assert refused.startswith(f"graphmill: {option} {file}: ")


def test_the_command_writes_json_and_a_page_and_compares(project: ProjectFolder, tmp_path: Path):
    questions, out, html = tmp_path / "q.jsonl", tmp_path / "a.json", tmp_path / "a.html"
    questions.write_text(
        "\n".join(map(json.dumps, [*QUESTIONS[:2], {"question": "Where?", "texts": ["nowhere"]}]))
    )
    asked = project.invoke(
        "eval",
        str(questions),
        "--modes",
        "naive, local",
        "--k",
        "1,5",
        "--output",
        str(out),
        "--html",
        str(html),
    )
    assert asked.exit_code == 0
    assert "naive" in asked.stdout
    assert "unknown gold: 1 of 3" in asked.stderr
    assert json.loads(out.read_text("utf-8"))["setup"]["ks"] == [1, 5]
    assert html.read_text("utf-8").startswith("<!DOCTYPE html>")
    compared = project.invoke(
        "eval", "--compare", str(out), str(out), "--against", "naive", "--json"
    ).json
    assert {row["mode"] for row in compared["rows"]} == {"naive", "local"}
    table = project.invoke("eval", "--compare", str(out), str(out))
    assert "2 questions in both" in table.stdout
