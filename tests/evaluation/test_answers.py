"""Evaluations of answers that were planted: right, wrong, uncited, refused and half right."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.errors import BudgetError, ModelError, UsageError
from pipeline.evaluation.answer_page import answer_page
from pipeline.evaluation.answer_results import AnswerEvaluation, AnswerSetup
from pipeline.evaluation.answer_table import answer_table
from tests.projects import DOCUMENTS, ProjectFolder, new_project
from tests.servers.openai_replies import QUERY_MARK, Messages, Reply, after_last, content_of
from tests.servers.openai_server import OpenAIServer, openai_server

QUESTIONS = [
    {"id": "right", "question": "Who founded the Brack Institute?", "answers": ["Idra Senn"],
     "documents": ["institute.txt"], "type": "one"},
    {"id": "wrong", "question": "Who built the Harrow Light?", "answers": ["Mira Vale"],
     "documents": ["harbour.txt"], "type": "one"},
    {"id": "uncited", "question": "Who opened the Tollen Observatory?",
     "answers": ["Governor Pell", "Pell"], "documents": ["observatory.txt"], "type": "one"},
    {"id": "refused", "question": "Who taught optics at the Brack Institute?",
     "answers": ["Anselm Torr"], "documents": ["institute.txt"], "type": "one"},
    {"id": "half", "question": "Who ground the first lens of the Tollen Observatory?",
     "answers": ["Anselm Torr"], "documents": ["observatory.txt", "harbour.txt"], "type": "two"},
    {"id": "none1", "question": "Who dug the Mellow Canal?", "answerable": False, "type": "none"},
    {"id": "none2", "question": "Who painted the Mellow Canal?", "answerable": False,
     "type": "none"},
]  # fmt: skip
GOLD_OF = {"right": "institute.txt", "wrong": "institute.txt", "half": "observatory.txt"}
"""Question -> the document that its planted answer cites; of "wrong" it is another one's."""
SAID = {
    "right": "Idra Senn {ref}.",
    "wrong": "Anselm Torr {ref}.",
    "uncited": "It was opened by Governor Pell.",
    "refused": "[NO ANSWER] The passages do not say who.",
    "half": "Torr {ref}.",
    "none1": "[NO ANSWER] Nothing tells of it.",
    "none2": "Mira Vale {ref}.",
}
VERDICTS = {"right": "right", "wrong": "Wrong.", "uncited": "`wrong`", "half": "partly"}


def planted(messages: Messages, body: object) -> Reply:
    """Return the planted answer or verdict; the first row of Sources has the number to cite."""
    prompt = content_of(messages[-1])
    if "You grade the answer" in prompt:
        asked = next(one for one in QUESTIONS if json.dumps(one["question"]) in prompt)
        return Reply(VERDICTS[asked["id"]])
    question = after_last(QUERY_MARK, prompt).strip()
    asked = next(one["id"] for one in QUESTIONS if one["question"] == question)
    source = GOLD_OF.get(asked, "harbour.txt")
    rows = prompt.split("```csv")[-1].splitlines()
    number = next(re.findall(r"\d+", row)[0] for row in rows if source in row)
    return Reply(SAID[asked].format(ref=f"[ref:{number}]"))


@pytest.fixture(scope="module")
def endpoint() -> Iterator[OpenAIServer]:
    with openai_server(reply=planted) as server:
        yield server


@pytest.fixture(scope="module")
def project(
    tmp_path_factory: pytest.TempPathFactory, postgres_url: str, endpoint: OpenAIServer
) -> ProjectFolder:
    folder = new_project(
        tmp_path_factory.mktemp("answers") / "p", postgres_url, DOCUMENTS, endpoint
    )
    with folder.open(*folder.endpoint_overrides) as opened:
        assert opened.run("fast").outcome == "completed"
    questions = "".join(json.dumps(line) + "\n" for line in QUESTIONS)
    (folder.root / "q.jsonl").write_text(questions, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def evaluation(project: ProjectFolder) -> AnswerEvaluation:
    with project.open(*project.endpoint_overrides) as opened:
        setup = AnswerSetup(("naive",), judge="default")
        return opened.evaluate_answers(QUESTIONS, setup)


def row_of(evaluation: AnswerEvaluation, id: str) -> dict[str, float]:
    results = evaluation.results()
    return results[results["id"] == id].iloc[0].dropna().to_dict()


def test_planted_answers_have_the_known_figures(evaluation: AnswerEvaluation):
    expected = {
        "right": {"exact_match": 1, "f1": 1, "contains_gold": 1, "citation_precision": 1,
                  "citation_recall": 1, "supported": 1, "wrongly_refused": 0,
                  "judged_right": 1, "judged_partly": 0},
        "wrong": {"exact_match": 0, "f1": 0, "contains_gold": 0, "citation_precision": 0,
                  "citation_recall": 0, "supported": 1, "wrongly_refused": 0,
                  "judged_right": 0, "judged_partly": 0},
        "uncited": {"exact_match": 0, "f1": 0.5, "contains_gold": 1, "citation_recall": 0,
                    "wrongly_refused": 0, "judged_right": 0, "judged_partly": 0},
        "refused": {"exact_match": 0, "f1": 0, "contains_gold": 0, "citation_recall": 0,
                    "wrongly_refused": 1, "judged_right": 0, "judged_partly": 0},
        "half": {"exact_match": 0, "f1": 2 / 3, "contains_gold": 0, "citation_precision": 1,
                 "citation_recall": 0.5, "supported": 1, "wrongly_refused": 0,
                 "judged_right": 0, "judged_partly": 1},
        "none1": {"refused": 1},
        "none2": {"refused": 0},
    }  # fmt: skip
    beside = {"mode", "id", "type", "answerable", "prompt_tokens"}
    for id, values in expected.items():
        row = row_of(evaluation, id)
        found = {name: value for name, value in row.items() if name not in beside}
        assert found == pytest.approx(values), id


def test_means_are_over_the_questions_that_have_a_measure(evaluation: AnswerEvaluation):
    (means,) = evaluation.summary().to_dict("records")
    assert (means["questions"], means["answerable"], means["unanswerable"]) == (7, 5, 2)
    assert means["exact_match"] == pytest.approx(1 / 5)
    assert means["f1"] == pytest.approx((1 + 0.5 + 2 / 3) / 5, abs=1e-6)
    assert means["contains_gold"] == pytest.approx(2 / 5)
    assert means["citation_precision"] == pytest.approx(2 / 3, abs=1e-6)
    assert means["citation_recall"] == pytest.approx(1.5 / 5)
    assert means["wrongly_refused"] == pytest.approx(1 / 5)
    assert means["refused"] == pytest.approx(1 / 2)
    assert (means["judged_right"], means["judged_partly"]) == pytest.approx((1 / 5, 1 / 5))
    assert set(evaluation.by_type()) == {"one", "two", "none"}


def test_the_judge_and_the_match_with_gold_are_compared(evaluation: AnswerEvaluation):
    """Of four judged answers only "uncited" is right by gold and not by the judge."""
    found = evaluation.agreements()["naive"]
    assert (found["answers"], found["agreement"]) == (4, 0.75)
    assert found["kappa"] == pytest.approx(0.5)
    assert "agree on 0.750 of 4 answers, Cohen's kappa 0.500" in answer_table(evaluation)


def test_the_json_is_whole_and_the_page_escapes_it(evaluation: AnswerEvaluation):
    content = evaluation.to_json()
    assert json.loads(json.dumps(content, allow_nan=False)) == content
    assert content["modes"]["naive"]["refused"] == 0.5
    assert content["types"]["none"]["naive"]["f1"] is None
    page = answer_page(evaluation)
    assert "The documents do not answer this." in page
    assert "Cohen&#39;s kappa 0.500" in page
    assert page.count("<section>") == 7
    assert "<script" not in page


def test_a_second_evaluation_asks_nobody(
    project: ProjectFolder, endpoint: OpenAIServer, evaluation: AnswerEvaluation
):
    before = endpoint.count("chat")
    with project.open(*project.endpoint_overrides) as opened:
        again = opened.evaluate_answers(QUESTIONS, evaluation.setup)
        # A query asks as the evaluation does: its answer is known too.
        told = opened.query(
            QUESTIONS[0]["question"],
            mode="naive",
            hl_keywords=[QUESTIONS[0]["question"]],
            ll_keywords=[QUESTIONS[0]["question"]],
        )
        plan = opened.forecast_answers(QUESTIONS, evaluation.setup)
    assert endpoint.count("chat") == before
    assert told.text == again.answers[0].text
    assert (again.usage["calls"], again.usage["known"], again.usage["cost"]) == (0, 11, 0)
    assert {kind: estimate.known for kind, estimate in plan.items()} == {"answers": 7, "judge": 4}
    assert [estimate.calls for estimate in plan.values()] == [(0, 0), (0, 0)]
    first, second = evaluation.to_json(), again.to_json()
    assert first.pop("usage")["calls"] == 11
    assert second.pop("usage")["calls"] == 0
    assert first == second


def test_a_plan_prices_answers_and_judge_without_a_call(
    project: ProjectFolder, endpoint: OpenAIServer, evaluation: AnswerEvaluation
):
    before = endpoint.count("chat")
    other = [*project.endpoint_overrides, "models.chat.default.temperature=0.5"]
    with project.open(*other) as opened:
        plan = opened.forecast_answers(QUESTIONS, evaluation.setup)
        bounded = opened.forecast_answers(QUESTIONS, AnswerSetup(("naive",)))
    assert endpoint.count("chat") == before
    assert set(plan) == {"answers", "judge"}
    assert plan["answers"].calls == (7, 7)
    assert plan["judge"].calls == (0, 5)
    assert plan["answers"].cost is not None
    sent = sum(given.prompt_tokens for given in evaluation.answers)
    assert plan["answers"].input_tokens[0] == pytest.approx(sent, rel=0.05)
    assert plan["answers"].cost[0] == pytest.approx(
        (plan["answers"].input_tokens[0] * 0.15 + 14 * 0.60) / 1e6
    )
    assert bounded == {"answers": plan["answers"]}


def test_a_limit_stops_and_what_was_paid_is_kept(project: ProjectFolder, endpoint: OpenAIServer):
    other = [*project.endpoint_overrides, "models.chat.default.temperature=0.6"]
    other.append("models.chat.default.concurrency=1")
    before = endpoint.count("chat")
    with project.open(*other) as opened:
        with pytest.raises(BudgetError, match=r"--max-tokens 500 are used; everything answered is"):
            opened.evaluate_answers(QUESTIONS, AnswerSetup(("naive",), max_tokens=500))
        paid = endpoint.count("chat") - before
        assert 0 < paid < 7
        found = opened.evaluate_answers(QUESTIONS, AnswerSetup(("naive",)))
    assert (found.usage["calls"], found.usage["known"]) == (7 - paid, paid)
    assert endpoint.count("chat") - before == 7


def test_a_limit_on_cost_needs_a_price(project: ProjectFolder):
    other = [*project.endpoint_overrides, "models.chat.default.price=null"]
    other.append("models.chat.default.model=of-no-known-price")
    with project.open(*other) as opened, pytest.raises(UsageError, match="has no price"):
        opened.evaluate_answers(QUESTIONS, AnswerSetup(("naive",), max_cost=1))


def test_a_question_without_a_reply_is_told_and_in_no_figure(
    project: ProjectFolder, endpoint: OpenAIServer
):
    other = [*project.endpoint_overrides, "models.chat.default.temperature=0.7"]
    other.append("models.chat.default.max_retries=0")
    with project.open(*other) as opened:
        endpoint.script("chat", [Reply("no", status=400)])
        found = opened.evaluate_answers(QUESTIONS[:2], AnswerSetup(("naive",)))
        assert [len(found.answers), len(found.failed)] == [1, 1]
        endpoint.script("chat", [Reply("no", status=400)])
        with pytest.raises(ModelError, match="no question was answered"):
            opened.evaluate_answers(QUESTIONS[2:3], AnswerSetup(("naive",)))


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ({"modes": ("drift",)}, "modes: drift: answers are evaluated in modes"),
        ({"judge": "stern"}, "no chat model 'stern'"),
        ({"rerank": True}, "no reranker is configured"),
        ({"max_cost": -1.0}, "--max-cost: -1 is no limit"),
    ],
)
def test_setups_that_make_no_sense_are_refused(project: ProjectFolder, setup: dict, said: str):
    with (
        project.open(*project.endpoint_overrides) as opened,
        pytest.raises(UsageError, match=said),
    ):
        opened.evaluate_answers(QUESTIONS, AnswerSetup(**setup))


def test_without_a_chat_model_answers_cannot_be_measured(project: ProjectFolder):
    with (
        project.open("models.chat.default.api_key=") as opened,
        pytest.raises(UsageError, match="chat model 'default' is not configured"),
    ):
        opened.evaluate_answers(QUESTIONS)


def test_the_command_plans_measures_and_compares(
    project: ProjectFolder, evaluation: AnswerEvaluation, tmp_path: Path
):
    asked = ["eval", str(project.root / "q.jsonl"), "--answers", "--modes", "naive"]
    asked += ["--judge", "default"]
    planned = project.invoke(*asked, "--plan")
    assert planned.exit_code == 0
    assert "eval answers" in planned.stdout
    assert "eval judge" in planned.stdout
    out, page = str(tmp_path / "a.json"), str(tmp_path / "a.html")
    done = project.invoke(*asked, "--output", out, "--html", page)
    assert done.exit_code == 0, done.stderr
    assert "0 calls (11 known), 0 tokens in, 0 out: price 0.0000" in done.stderr
    assert "type: none, 2 questions" in done.stdout
    assert Path(page).read_text("utf-8").startswith("<!DOCTYPE html>")
    compared = project.invoke("eval", "--compare", out, out, "--json").json
    numbers = {row["metric"]: row["questions"] for row in compared["rows"]}
    assert numbers["f1"] == 5
    assert numbers["citation_precision"] == 3
    assert numbers["refused"] == 2
    table = project.invoke("eval", "--compare", out, out).stdout
    assert "wrongly_refused" in table
    assert project.invoke(*asked, "--baseline", out).exit_code == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--judge", "default"), "--judge: goes with --answers"),
        (("--max-cost", "0"), "--max-cost: goes with --answers"),
        (("--answers", "--k", "5"), "--k: does not go with --answers"),
    ],
)
def test_options_of_the_other_evaluation_are_refused(
    project: ProjectFolder, options: tuple[str, ...], said: str
):
    done = project.command("eval", str(project.root / "q.jsonl"), *options)
    assert done.returncode == 2
    assert said.split(": ", maxsplit=1)[0] in done.stderr


def test_retrieval_leaves_out_questions_that_are_not_answerable(project: ProjectFolder):
    with project.open(*project.endpoint_overrides) as opened:
        found = opened.evaluate(QUESTIONS, ["naive"], ks=[5])
        with pytest.raises(UsageError, match="no question is answerable"):
            opened.evaluate(QUESTIONS[5:], ["naive"])
    assert len(found.questions) == 5
    assert "2 questions not answerable: nothing to find, so in no figure" in found.notes
